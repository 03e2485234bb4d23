//! Driving machines: telling them things, and doing what they want done.

use std::sync::Arc;

use mooring_node::announce::protocol::{
    Body, Decision, Destination, Key, Machine, Message, NodeId, Path, Transition, Transmit, Voice,
};

use super::{RECORDED, What, World};
use crate::sim::clock::{MICROSECOND, MILLISECOND, NEVER, SECOND};
use crate::sim::invariants::{Violation, YIELDING};
use crate::sim::node::{Input, Process, SOCKET_HOLDS};

/// More messages of one node in one second are a storm.
const MOST_MESSAGES: usize = 3_000;
/// More items in one message do not fit a datagram.
const MOST_ITEMS: usize = 600;
/// So many ticks at one instant are a loop.
const MOST_TICKS: u32 = 100;
/// So many decisions or messages at once are one, too.
const MOST_AT_ONCE: usize = 2_000;

impl World {
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
        let local = matches!(input, Input::Local).then(|| self.local(node));
        let now = self.nodes[node].clock.shows(self.now);
        let Some(mut process) = self.nodes[node].process.take() else {
            return;
        };
        let machine = &mut process.machine;
        match input {
            Input::Message(message, path) => machine.receive(&message, path, now),
            Input::Answer(answer, asked) => machine.api_answered(answer, asked, now),
            Input::Kernel(other) => machine.kernel_answered(other, now),
            Input::Gateway => machine.gateway_answered(now),
            Input::View(view) => machine.set_view(view.as_ref().clone(), now),
            Input::Local => machine.set_local(local.unwrap_or_default(), now),
        }
        self.finish(node, process);
    }

    fn say_input(&mut self, node: usize, input: &Input) {
        let Some(trace) = &self.trace else { return };
        match input {
            Input::Message(message, path) => {
                if trace.tells(message) {
                    let (message, path) = (Arc::clone(message), *path);
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
            Input::Kernel(_) | Input::Gateway if !trace.verbose => {}
            Input::View(view) => {
                let voters = view.voters.clone();
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
        if !due || process.upgrading {
            return;
        }
        let now = clock.shows(self.now);
        let Some(mut process) = self.nodes[node].process.take() else {
            return;
        };
        if process.machine.next_deadline() <= now {
            process.machine.tick(now);
            if process.machine.next_deadline() <= now {
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
    pub(super) fn finish(&mut self, node: usize, mut process: Box<Process>) {
        let mut many = 0;
        loop {
            if let Some(decision) = process.machine.poll_decision() {
                self.decide(node, &mut process, decision);
            } else if let Some(transmit) = process.machine.poll_transmit() {
                self.transmit(node, &mut process, transmit);
            } else {
                break;
            }
            many += 1;
            if many > MOST_AT_ONCE {
                self.watch.violated(Violation::Stuck { node });
                break;
            }
        }
        self.look_at_rights(node, &mut process);
        self.arrange_tick(node, &mut process);
        let ended = process.ending && process.machine.has_ended();
        self.nodes[node].process = Some(process);
        if ended {
            self.end_process(node, true);
        }
    }

    fn decide(&mut self, node: usize, process: &mut Process, decision: Decision) {
        if !matches!(
            decision,
            Decision::ProbeKernel { .. } | Decision::ProbeGateway
        ) {
            self.say(|| format!("n{} => {decision:?}", node + 1));
        }
        match decision {
            Decision::Begin {
                key, voice, cause, ..
            } => {
                self.tally.begins += 1;
                *self.tally.causes.entry(cause).or_default() += 1;
                let Some(number) = self.number_of(key) else {
                    return;
                };
                self.watch.begun(number, cause, self.now);
                if voice == Voice::Loud {
                    self.watch.burst(number);
                    self.send_frame(node, process, key);
                } else {
                    self.tally.quiet += 1;
                }
            }
            Decision::Burst { key } => {
                self.tally.bursts += 1;
                if let Some(number) = self.number_of(key) {
                    self.watch.burst(number);
                    self.send_frame(node, process, key);
                }
            }
            Decision::Stop { .. } => {}
            Decision::Ask(request) => {
                let asked = self.nodes[node].clock.shows(self.now);
                let latency = self.api_latency();
                let run = process.run;
                self.push(
                    self.now + latency,
                    What::Request {
                        node,
                        run,
                        request,
                        asked,
                    },
                );
            }
            Decision::ProbeKernel { node: other, .. } => self.probe(node, process.run, other),
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
                        self.watch.survived(self.now);
                    }
                    // Its right depends on answers of an API server that are late now and then.
                    Transition::PrimaryAlone => self.watch.survived(self.now),
                    Transition::Damped => {
                        self.nodes[node].damped_until = self.now + 61 * SECOND;
                        self.recheck = true;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether no node that could speak for something is heard on the segment by one that goes on
    /// after the majority is lost, save those that it agrees with.
    pub(super) fn are_alone(&self, node: usize) -> bool {
        let both = |other: usize| {
            self.network.reaches(node, other, Path::Segment)
                && self.network.reaches(other, node, Path::Segment)
        };
        (0..self.nodes.len()).all(|other| {
            other == node
                || !self.nodes[other].runs()
                || !self.network.reaches(other, node, Path::Segment)
                || both(other)
        })
    }

    /// The responder asks, sends, and tells the machine that it has.
    fn send_frame(&self, node: usize, process: &mut Process, key: Key) {
        let now = self.nodes[node].clock.shows(self.now);
        if process.machine.permits(key, now) {
            process.machine.frame_sent(key, now);
        }
    }

    fn probe(&mut self, node: usize, run: u32, other: NodeId) {
        let Some(asked) = self.ids.iter().position(|id| *id == other) else {
            return;
        };
        let lives = self.nodes[asked].unpowered == 0;
        let there_and_back = self.network.reaches(node, asked, Path::Segment)
            && self.network.reaches(asked, node, Path::Segment);
        if lives && there_and_back {
            let at = self.now + self.chance.u64(200 * MICROSECOND..2 * MILLISECOND);
            let input = Input::Kernel(other);
            self.push(at, What::Answers { node, run, input });
        }
    }

    fn transmit(&mut self, node: usize, process: &mut Process, transmit: Transmit) {
        let message = Arc::new(transmit.message);
        self.look_at_message(node, process, &message);
        match transmit.to {
            Destination::Segment => {
                if !self.nodes[node].is_on_segment() {
                    return;
                }
                for to in 0..self.nodes.len() {
                    if to != node && self.nodes[to].is_on_segment() {
                        self.send(node, to, Path::Segment, &message);
                    }
                }
            }
            Destination::NodeNetwork(nodes) => {
                for id in nodes {
                    if let Some(to) = self.ids.iter().position(|known| *known == id)
                        && to != node
                    {
                        self.send(node, to, Path::NodeNetwork, &message);
                    }
                }
            }
        }
    }

    fn send(&mut self, node: usize, to: usize, path: Path, message: &Arc<Message>) {
        self.tally.messages += 1;
        if self.nodes[to].unpowered > 0 || self.network.drops(node, to, &message.body) {
            return;
        }
        for at in self
            .network
            .send(node, to, path, self.now)
            .into_iter()
            .flatten()
        {
            let input = Input::Message(Arc::clone(message), path);
            self.push(at, What::Arrives { node: to, input });
        }
    }

    fn look_at_message(&mut self, node: usize, process: &mut Process, message: &Arc<Message>) {
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
        if let Body::Heartbeat(_) = &message.body
            && self.nodes[node].generation != message.generation
        {
            self.nodes[node].generation = message.generation;
            self.watch.disturbed(self.now);
            self.recheck = true;
        }
        if self.recorded.len() < RECORDED {
            self.recorded.push(Arc::clone(message));
        } else if self.chance.u8(0..16) == 0 {
            let place = self.chance.usize(0..RECORDED);
            self.recorded[place] = Arc::clone(message);
        }
        if let Some(record) = &mut self.record {
            record.push((self.now, node, Arc::clone(message)));
        }
    }

    fn look_at_rights(&mut self, node: usize, process: &mut Process) {
        for number in 0..self.keys.len() {
            let until = process.machine.permitted_until(self.keys[number]);
            if process.permits[number] == until {
                continue;
            }
            process.permits[number] = until;
            let clock = &self.nodes[node].clock;
            let end = until.map_or(0, |until| clock.reaches(until));
            let (network, survived, now) = (&self.network, self.survived, self.now);
            let joined_at = self.joined_at;
            // Rule G: survivors may speak in another part of a segment that is itself cut, and
            // yield soon after it has healed.
            let may_both = |other: usize| {
                let apart = !network.reaches(node, other, Path::Segment)
                    || !network.reaches(other, node, Path::Segment);
                survived && (apart || now < joined_at + YIELDING)
            };
            self.watch.set_right(number, node, end, now, may_both);
            if self.trace.is_some() && (end > now) != (process.spoken[number]) {
                process.spoken[number] = end > now;
                let may = if end > now { "may" } else { "may not" };
                self.say(|| format!("n{} {may} speak for k{}", node + 1, number + 1));
            }
        }
    }

    fn arrange_tick(&mut self, node: usize, process: &mut Process) {
        let deadline = process.machine.next_deadline();
        let due = self.nodes[node].clock.reaches(deadline);
        if due >= process.tick_at || due == NEVER {
            return;
        }
        let late = if self.shape.lateness > 0 {
            self.chance.u64(0..self.shape.lateness)
        } else {
            0
        };
        let at = due.max(self.now + MICROSECOND) + late;
        process.tick_at = at;
        let run = process.run;
        self.push(at, What::Tick { node, run });
    }

    pub(super) fn number_of(&self, key: Key) -> Option<usize> {
        self.keys.iter().position(|known| *known == key)
    }

    /// Whether a machine would let a frame about a key leave now.
    pub(super) fn permits(&self, node: usize, machine: &Machine, key: usize) -> bool {
        machine.permits(self.keys[key], self.nodes[node].clock.shows(self.now))
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
        Body::HandOver { keys, .. } | Body::Ready { keys, .. } | Body::SpokeLate { keys } => {
            keys.len()
        }
    }
}
