//! Driving machines: telling them things, and doing what they want done.

use std::sync::Arc;

use mooring_node::protocol::mac::Mac;
use mooring_node::protocol::{
    AnnounceMode, Body, Decision, Destination, Key, Message, Moment, NodeId, Path, Request,
    Transition,
};
use mooring_node::wire::frames;

use super::{RECORDED, Simulation, What};
use crate::clock::{MICROSECOND, MILLISECOND, NEVER, SECOND};
use crate::daemon::gateway;
use crate::engine::{Engine, Output};
use crate::invariants::{Violation, YIELDING};
use crate::node::{Input, Packet, Process, SOCKET_HOLDS};
use crate::objects::spot_of;

/// More messages of one node in one second are a storm.
const MOST_MESSAGES: usize = 3_000;
/// More items in one message do not fit a datagram.
const MOST_ITEMS: usize = 600;
/// So many ticks at one instant are a loop.
const MOST_TICKS: u32 = 100;
/// So many decisions or messages at once are one, too.
const MOST_AT_ONCE: usize = 2_000;

impl<E: Engine> Simulation<E> {
    /// Tells the process of a node something, or keeps it until that goes on.
    pub(super) fn tell(&mut self, node: usize, input: Input) {
        let paused = self.nodes[node].paused > 0;
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        if paused || process.upgrading {
            let message = matches!(input, Input::Message(..));
            if !message || process.queue.len() < SOCKET_HOLDS {
                process.queue.push(input);
            }
            return;
        }
        self.say_input(node, &input);
        let here = matches!(input, Input::Local).then(|| self.here(node));
        let now = self.nodes[node].clock.shows(self.now);
        let Some(mut process) = self.nodes[node].process.take() else {
            return;
        };
        process.engine.tell(input, here, now);
        self.finish(node, process);
    }

    fn say_input(&mut self, node: usize, input: &Input) {
        let Some(trace) = &self.trace else { return };
        match input {
            Input::Message(packet, path) => {
                if trace.tells(&packet.message) {
                    let (message, path) = (Arc::clone(&packet.message), *path);
                    self.say(|| {
                        format!(
                            "n{} <- {path:?} {:?} e{} #{}: {:?}",
                            node + 1,
                            message.from,
                            message.epoch.0,
                            message.seq,
                            message.body
                        )
                    });
                }
            }
            Input::Kernel(_) | Input::Address(..) | Input::Gateway | Input::Frame(..)
                if !trace.verbose => {}
            Input::View(objects) | Input::SavedHealth(objects) => {
                let voters = objects.voters.clone();
                self.say(|| format!("n{} sees the API's objects; voters {voters:?}", node + 1));
            }
            other => {
                let other = other.clone();
                self.say(|| format!("n{} <- {other:?}", node + 1));
            }
        }
    }

    /// A process looks at its machine's deadline.
    pub(super) fn tick(&mut self, node: usize) {
        let due = self.nodes[node].runs();
        let clock = self.nodes[node].clock;
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        if process.tick_at != self.now {
            return;
        }
        process.tick_at = NEVER;
        process.due = Moment::NEVER;
        if !due || process.upgrading {
            return;
        }
        let now = clock.shows(self.now);
        let Some(mut process) = self.nodes[node].process.take() else {
            return;
        };
        if process.engine.next_deadline() <= now {
            process.engine.tick(now);
            if process.engine.next_deadline() <= now {
                process.ticks_here += 1;
                if process.ticks_here > MOST_TICKS {
                    self.watch.violated(Violation::Stuck { node });
                }
            } else {
                process.ticks_here = 0;
            }
        }
        self.finish(node, process);
    }

    /// Does what a machine wants done, and puts it back into its node.
    pub(super) fn finish(&mut self, node: usize, mut process: Box<Process<E>>) {
        let mut many = 0;
        while let Some(output) = process.engine.poll() {
            match output {
                Output::Decision(decision) => self.decide(node, &mut process, decision),
                Output::Say(packet, to) => self.transmit(node, &mut process, &packet, to),
                Output::Begun(spot, cause) => {
                    self.tally.begins += 1;
                    *self.tally.causes.entry(cause).or_default() += 1;
                    if spot < self.keys.len() {
                        self.watch.begun(spot, cause, self.now);
                    }
                }
                Output::Ask(request, about) => {
                    self.say(|| format!("n{} => {request:?}", node + 1));
                    self.ask(node, process.run, Some(about), request);
                }
                Output::Frame(frame) => self.take_frame(node, process.run, &frame),
            }
            many += 1;
            if many > MOST_AT_ONCE {
                self.watch.violated(Violation::Stuck { node });
                break;
            }
        }
        self.look_at_rights(node, &mut process);
        self.arrange_tick(node, &mut process);
        let ended = process.ending && process.engine.has_ended();
        self.nodes[node].process = Some(process);
        if ended {
            self.end_process(node, true);
        }
    }

    fn decide(&mut self, node: usize, process: &mut Process<E>, decision: Decision) {
        if !matches!(
            decision,
            Decision::ProbeKernel { .. }
                | Decision::ProbeAddress { .. }
                | Decision::ProbeSegment { .. }
                | Decision::ProbeGateway
        ) {
            self.say(|| format!("n{} => {decision:?}", node + 1));
        }
        match decision {
            Decision::Begin {
                key,
                mode,
                cause,
                former,
                ..
            } => {
                self.connections_began(node, (key, former), mode, cause);
                self.tally.begins += 1;
                *self.tally.causes.entry(cause).or_default() += 1;
                let Some(number) = self.number_of(key) else {
                    return;
                };
                self.watch.begun(number, cause, self.now);
                if mode == AnnounceMode::Unsolicited {
                    self.watch.burst(number);
                    self.send_frame(node, process, key);
                } else {
                    self.tally.quiet += 1;
                }
            }
            Decision::Burst { key } => {
                self.connections_announced(node, key);
                self.tally.bursts += 1;
                if let Some(number) = self.number_of(key) {
                    self.watch.burst(number);
                    self.send_frame(node, process, key);
                }
            }
            Decision::Stop { key, .. } => self.connections_stopped(node, key),
            Decision::Ask(request) => self.ask(node, process.run, None, request),
            Decision::ProbeKernel { node: other, .. } => self.probe(node, process.run, other),
            Decision::ProbeAddress { key, stations } => {
                self.ask_stations(node, process.run, key, |mac| stations.contains(mac));
            }
            Decision::ProbeSegment { key } => self.ask_stations(node, process.run, key, |_| true),
            Decision::Conflict { .. } => {}
            Decision::Connections(event) => self.connections_told(node, process.run, &event),
            Decision::ProbeGateway => {
                if self.shape.gateway && self.network.gateway_answers(node) {
                    let at = self.now + self.chance.u64(200 * MICROSECOND..2 * MILLISECOND);
                    let (run, input) = (process.run, Input::Gateway);
                    self.push(at, What::Answers { node, run, input });
                }
            }
            Decision::Note(transition) => {
                self.tally.transition(transition);
                match transition {
                    Transition::SurvivedViaApi => {
                        self.survived |= self.are_alone(node);
                        self.watch.voters_changed(self.now);
                    }
                    // Its right depends on answers of an API server that are late now and then; or a voter
                    // that was silent for half a minute is one no more.
                    Transition::PrimaryAlone | Transition::GenerationAdopted => {
                        self.watch.voters_changed(self.now);
                    }
                    Transition::Damped => {
                        self.nodes[node].damped_until = self.now + 61 * SECOND;
                        self.recheck = true;
                    }
                    _ => {}
                }
            }
        }
    }

    /// The API server is asked about this L2Network, or about whichever there is.
    fn ask(&mut self, node: usize, run: u32, about: Option<u64>, request: Request) {
        let asked = self.nodes[node].clock.shows(self.now);
        let request = What::Request {
            node,
            run,
            about,
            request,
            asked,
        };
        let latency = self.api_latency();
        self.push(self.now + latency, request);
    }

    /// Whether no node that could speak for something is heard on the segment by one that goes on
    /// after the majority is lost, save those that it agrees with.
    pub(super) fn are_alone(&self, node: usize) -> bool {
        let both = |other: usize| {
            self.network.reaches(node, other, Path::Segment)
                && self.network.reaches(other, node, Path::Segment)
        };
        (0..self.own()).all(|other| {
            other == node
                || !self.nodes[other].runs()
                || !self.network.reaches(other, node, Path::Segment)
                || both(other)
        })
    }

    /// The responder asks, sends, and tells the machine that it has.
    fn send_frame(&self, node: usize, process: &mut Process<E>, key: Key) {
        let now = self.nodes[node].clock.shows(self.now);
        let spot = self.number_of(key);
        if let Some(spot) = spot.filter(|spot| self.permits(node, &process.engine, *spot)) {
            process.engine.frame_sent(spot, now);
        }
    }

    /// What a daemon sends by ARP: a question that some kernel or the gateway answers, or where a
    /// service address is.
    fn take_frame(&mut self, node: usize, run: u32, frame: &[u8]) {
        let to = frame.get(..6).and_then(Mac::from_slice);
        let Some((to, heard)) = to.and_then(|to| Some((to, frames::parse(frame, to)?))) else {
            return;
        };
        if let Some(spot) = heard.claim.and_then(|claim| spot_of(claim.address)) {
            if spot < self.keys.len() {
                self.watch.burst(spot);
            }
            return;
        }
        let Some(question) = heard.question else {
            return;
        };
        let answers = if question.target == gateway() {
            let answers = self.shape.gateway && self.network.gateway_answers(node);
            answers.then_some(Mac::new([2, 0, 0, 0, 0, 254]))
        } else {
            let spot = spot_of(question.target).filter(|spot| *spot < self.keys.len());
            let answers = |other: &usize| {
                let contact = &self.nodes[*other].contact;
                let is_asked = !to.is_station() || contact.mac == Some(to);
                is_asked
                    && match spot {
                        Some(spot) => self.daemon_answers(node, *other, spot),
                        None => {
                            contact.own_addresses.contains(&question.target)
                                && self.kernel_answers(node, *other)
                        }
                    }
            };
            let asked = (0..self.nodes.len()).find(answers);
            asked.and_then(|asked| self.nodes[asked].contact.mac)
        };
        if let Some(answer) = answers.and_then(|mac| frames::answer(mac, &question)) {
            let at = self.now + self.chance.u64(200 * MICROSECOND..2 * MILLISECOND);
            let input = Input::Frame(answer, self.nodes[node].clock.shows(at));
            self.push(at, What::Answers { node, run, input });
        }
    }

    fn kernel_answers(&self, node: usize, asked: usize) -> bool {
        self.nodes[asked].unpowered == 0
            && self.network.reaches(node, asked, Path::Segment)
            && self.network.reaches(asked, node, Path::Segment)
    }

    fn probe(&mut self, node: usize, run: u32, other: NodeId) {
        let Some(asked) = self.ids.iter().position(|id| *id == other) else {
            return;
        };
        if self.kernel_answers(node, asked) {
            let at = self.now + self.chance.u64(200 * MICROSECOND..2 * MILLISECOND);
            let input = Input::Kernel(other);
            self.push(at, What::Answers { node, run, input });
        }
    }

    /// Whether the daemon of a node answers another's question for a service address.
    fn daemon_answers(&self, node: usize, asked: usize, spot: usize) -> bool {
        let state = &self.nodes[asked];
        let process = state.process.as_ref().filter(|_| state.runs());
        process.is_some_and(|process| self.permits(asked, &process.engine, spot))
            && self.network.reaches(node, asked, Path::Segment)
            && self.network.reaches(asked, node, Path::Segment)
    }

    /// Who speaks for the address answers.
    fn ask_stations(&mut self, node: usize, run: u32, key: Key, whom: impl Fn(&Mac) -> bool) {
        let Some(spot) = self.number_of(key) else {
            return;
        };
        for asked in 0..self.nodes.len() {
            let station = self.nodes[asked].contact.mac;
            let Some(station) = station.filter(&whom) else {
                continue;
            };
            if self.daemon_answers(node, asked, spot) {
                let at = self.now + self.chance.u64(200 * MICROSECOND..2 * MILLISECOND);
                let input = Input::Address(key, station);
                self.push(at, What::Answers { node, run, input });
            }
        }
    }

    fn transmit(
        &mut self,
        node: usize,
        process: &mut Process<E>,
        packet: &Packet,
        to: Destination,
    ) {
        self.look_at_message(node, process, packet);
        match to {
            Destination::Segment => {
                if !self.nodes[node].is_on_segment() {
                    return;
                }
                for to in 0..self.nodes.len() {
                    if to != node && self.nodes[to].is_on_segment() {
                        self.send(node, to, Path::Segment, packet);
                    }
                }
            }
            Destination::NodeNetwork(nodes) => {
                for id in nodes {
                    // Each cluster has a node network of its own.
                    let first = if node < self.own() { 0 } else { self.own() };
                    let to = self.ids.iter().position(|known| *known == id);
                    if let Some(to) = to.map(|to| first + to)
                        && to != node
                        && to < self.nodes.len()
                    {
                        self.send(node, to, Path::NodeNetwork, packet);
                    }
                }
            }
        }
    }

    fn send(&mut self, node: usize, to: usize, path: Path, packet: &Packet) {
        self.tally.messages += 1;
        if self.nodes[to].unpowered > 0 || self.network.drops(node, to, &packet.message.body) {
            return;
        }
        for at in self
            .network
            .send(node, to, path, self.now)
            .into_iter()
            .flatten()
        {
            let input = Input::Message(packet.clone(), path);
            self.push(at, What::Arrives { node: to, input });
        }
    }

    fn look_at_message(&mut self, node: usize, process: &mut Process<E>, packet: &Packet) {
        let message: &Arc<Message> = &packet.message;
        if self.trace.as_ref().is_some_and(|trace| trace.verbose) {
            let message = Arc::clone(message);
            self.say(|| format!("n{} -> #{} {:?}", node + 1, message.seq, message.body));
        }
        let second = self.now / SECOND;
        let (this, sent) = process.sent;
        let sent = if this == second { sent + 1 } else { 1 };
        process.sent = (second, sent);
        self.tally.busiest = self.tally.busiest.max(sent);
        if sent > MOST_MESSAGES {
            self.watch.violated(Violation::Noisy {
                node,
                messages: sent,
            });
        }
        let items = items(&message.body);
        if items > MOST_ITEMS {
            self.watch.violated(Violation::Large { node, items });
        }
        if let Body::Heartbeat(heartbeat) = &message.body
            && self.nodes[node].serves != heartbeat.voters
        {
            self.nodes[node].generation = message.generation;
            self.nodes[node].serves = heartbeat.voters.clone();
            if node < self.own() {
                self.watch.disturbed(self.now);
            }
            self.recheck = true;
        }
        if node >= self.own() {
            return;
        }
        if self.recorded.len() < RECORDED {
            self.recorded.push(packet.clone());
        } else if self.chance.u8(0..16) == 0 {
            let place = self.chance.usize(0..RECORDED);
            self.recorded[place] = packet.clone();
        }
        if let Some(record) = &mut self.record {
            record.push((self.now, node, packet.clone()));
        }
    }

    fn look_at_rights(&mut self, node: usize, process: &mut Process<E>) {
        if node >= self.own() {
            return;
        }
        let mut permits = std::mem::take(&mut self.permits);
        permits.resize(self.keys.len(), None);
        process.engine.permits(&mut permits);
        for (number, until) in permits.iter().copied().enumerate() {
            if process.permits[number] == until {
                continue;
            }
            process.permits[number] = until;
            let clock = &self.nodes[node].clock;
            let end = until.map_or(0, |until| clock.reaches(until));
            let (network, survived, now) = (&self.network, self.survived, self.now);
            let (nodes, joined_at) = (&self.nodes, &self.joined_at[node]);
            // Rule G: survivors may speak in another part of a segment that is itself cut, where no
            // client hears both, and yield soon after it has healed.
            // Whoever does not reach the API server speaks on for an L2Network that is another by now.
            let may_both = |other: usize| {
                let another = nodes[node].network != nodes[other].network;
                let apart = !network.is_whole(node, other);
                let survivors =
                    apart || (joined_at[other] > 0 && now < joined_at[other] + YIELDING);
                another || (survived && survivors)
            };
            self.watch.set_right(number, node, end, now, may_both);
            if self.trace.is_some() && (end > now) != (process.spoken[number]) {
                process.spoken[number] = end > now;
                let may = if end > now { "may" } else { "may not" };
                self.say(|| format!("n{} {may} speak for k{}", node + 1, number + 1));
            }
        }
        self.permits = permits;
    }

    fn arrange_tick(&mut self, node: usize, process: &mut Process<E>) {
        // What is arranged for an earlier deadline, or for this one, stays.
        let deadline = process.engine.next_deadline();
        if deadline >= process.due {
            return;
        }
        let due = self.nodes[node].clock.reaches(deadline);
        let late = if self.shape.lateness > 0 {
            self.chance.u64(0..self.shape.lateness)
        } else {
            0
        };
        let at = due.max(self.now + MICROSECOND) + late;
        process.tick_at = at;
        process.due = deadline;
        let run = process.run;
        self.push(at, What::Tick { node, run });
    }

    pub(super) fn number_of(&self, key: Key) -> Option<usize> {
        self.keys.iter().position(|known| *known == key)
    }

    /// Whether a process would let a frame about a key leave now.
    pub(super) fn permits(&self, node: usize, engine: &E, key: usize) -> bool {
        let mut permits = vec![None; self.keys.len()];
        engine.permits(&mut permits);
        let now = self.nodes[node].clock.shows(self.now);
        permits[key].is_some_and(|until| now < until)
    }
}

/// How much is in a message.
fn items(body: &Body) -> usize {
    match body {
        Body::Heartbeat(heartbeat) => {
            heartbeat.echoes.len()
                + heartbeat.suspects.len()
                + heartbeat.incarnations.len()
                + heartbeat.voters.voters.len()
                + heartbeat.secrets.len()
        }
        Body::Owned(owned) => owned.keys.len() + owned.released.len(),
        Body::Claim(claim) => claim.keys.len(),
        Body::Grant(grant) => grant.granted.len() + grant.refused.len(),
        Body::HandOver { keys, .. }
        | Body::Ready { keys, .. }
        | Body::Prepared { keys, .. }
        | Body::SpokeLate { keys } => keys.len(),
        Body::Connections { counts, .. } => counts.len(),
    }
}
