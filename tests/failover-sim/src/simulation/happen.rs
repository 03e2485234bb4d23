//! The steps of a schedule, as they happen.

use std::sync::Arc;

use mooring_node::protocol::{Incarnation, Message, Moment, Path, VoterSet};

use super::{Simulation, What};
use crate::clock::{Instant, MILLISECOND, NEVER, SECOND};
use crate::engine::{Birth, Engine};
use crate::invariants::YIELDING;
use crate::network::{MOST_NODES, Nodes, each, has};
use crate::node::{Input, Process};
use crate::steps::Step;

/// How long a daemon that was told to end may take: what its Pod is given.
const GRACE: Instant = 5 * SECOND;

impl<E: Engine> Simulation<E> {
    /// Lets one step happen.
    pub(super) fn step(&mut self, step: &Step) {
        self.say(|| format!("****  {step:?}"));
        if step.disturbs() {
            self.watch.disturbed(self.now);
        }
        match *step {
            Step::CutSegment { nodes, on } => {
                self.network.cut_segment(nodes, on);
                if !on {
                    for one in 0..MOST_NODES {
                        for other in 0..MOST_NODES {
                            let parted = has(nodes, one) != has(nodes, other);
                            if parted && self.network.is_whole(one, other) {
                                self.joined_at[one][other] = self.now;
                            }
                        }
                    }
                    self.push(self.now + YIELDING, What::Recheck);
                }
            }
            Step::CutNodeNetwork { nodes, on } => {
                let others = ((1 << MOST_NODES) - 1) & !nodes;
                self.network.blind(nodes, others, Path::NodeNetwork, on);
                self.network.blind(others, nodes, Path::NodeNetwork, on);
            }
            Step::Blind { from, to, path, on } => self.network.blind(from, to, path, on),
            Step::TransmitDead { node, on } => self.network.kill_transmission(node, on),
            Step::ReceiveDead { node, on } => self.network.kill_reception(node, on),
            Step::LinkDown { node, on } => self.link_down(node, on),
            Step::GatewayAway { nodes, on } => self.network.take_gateway_away(nodes, on),
            Step::Lossy {
                nodes,
                thousandths,
                on,
            } => self.network.lose(nodes, thousandths, on),
            Step::Slow { nodes, delay, on } => {
                self.network.slow_down(nodes, delay, on);
                self.watch.set_slowness(self.network.slowness());
            }
            Step::Delay {
                from,
                to,
                path,
                delay,
            } => self.network.delay(from, to, path, delay),
            Step::Drop { from, to, kind, on } => self.network.drop_kind(from, to, kind, on),
            _ => self.step_of_a_node(step),
        }
        self.find_out_who_is_heard();
        self.recheck = true;
        self.push(self.now + SECOND + MILLISECOND, What::Recheck);
    }

    fn step_of_a_node(&mut self, step: &Step) {
        match *step {
            Step::ApiAway { nodes, on } => self.api_away(nodes, on),
            Step::AnswersLost { nodes, on } => {
                for node in each(nodes & self.shape.all()) {
                    self.api.lose_answers(node, on);
                }
            }
            Step::StaleView { nodes, on } => {
                for node in each(nodes & self.shape.all()) {
                    count(&mut self.nodes[node].stale, on);
                    if !on {
                        self.view_changes(node);
                    }
                }
            }
            Step::Drain { node, on } => {
                count(&mut self.nodes[node].draining, on);
                self.notice_draining(node);
            }
            Step::Unfit { node, on } => {
                count(&mut self.nodes[node].unfit, on);
                self.notice(node, 20 * MILLISECOND);
            }
            Step::Weight { node, weight } => {
                self.nodes[node].weight = weight;
                self.notice(node, 20 * MILLISECOND);
            }
            Step::Down { node, power } => self.down(node, power),
            Step::Up { node, memory } => self.up(node, memory),
            Step::End { node } => {
                count(&mut self.nodes[node].down, true);
                self.told_to_end(node);
            }
            Step::Pause {
                node,
                frame_in_hand,
            } => self.pause(node, frame_in_hand),
            Step::Resume { node } => self.resume(node),
            Step::Upgrade { node, gap } => self.upgrade(node, gap),
            Step::Join { node } => self.join(node),
            Step::Leave { node } => self.leave(node),
            _ => self.step_of_the_api(step),
        }
    }

    fn step_of_the_api(&mut self, step: &Step) {
        match *step {
            Step::KeyThere { key, on } => {
                let state = &mut self.api.keys[key];
                count(&mut state.absent, !on);
                state.since = self.now;
                self.api.version += 1;
                self.api.remember(self.now);
                self.objects_changed();
            }
            Step::Candidates { key, nodes } => {
                let state = &mut self.api.keys[key];
                state.candidates = nodes;
                state.since = self.now;
                self.api.version += 1;
                self.api.remember(self.now);
                self.objects_changed();
            }
            Step::Replay { messages } => {
                for _ in 0..messages.min(self.recorded.len()) {
                    let which = self.chance.usize(0..self.recorded.len());
                    let packet = self.recorded[which].clone();
                    let node = self.chance.usize(0..self.own());
                    let at = self.now + self.chance.u64(0..50 * MILLISECOND);
                    self.push(at, What::Again { node, packet });
                }
            }
            Step::PlayBack {
                from,
                to,
                since,
                until,
            } => {
                let record = self.record.iter().flatten();
                let again: Vec<_> = record
                    .filter(|(at, node, _)| *node == from && (since..until).contains(at))
                    .map(|(at, _, packet)| (self.now + (at - since), packet.clone()))
                    .collect();
                for (at, packet) in again {
                    self.push(at, What::Again { node: to, packet });
                }
            }
            _ => self.step_of_objects(step),
        }
    }

    /// Whether a node cannot have heard a message by this path: what its sender says there does not
    /// reach it. Whoever sends it again brings it there for the first time, very late. Unless it is too
    /// old to count, that node takes the sender for alive and heard there for a while, and says so, and
    /// takes its claims for new.
    pub(super) fn is_news(&self, message: &Message, node: usize, path: Path) -> bool {
        let sender = self.ids.iter().position(|id| *id == message.from);
        sender.is_some_and(|sender| sender != node && !self.network.reaches(sender, node, path))
    }

    fn link_down(&mut self, node: usize, on: bool) {
        self.network.take_link_down(node, on);
        if self.shape.drops_addresses {
            self.nodes[node].on_segment_since = self.now;
        }
        if on {
            let now = self.now;
            let flaps = &mut self.nodes[node].flaps;
            flaps.retain(|at| now - at < 31 * SECOND);
            flaps.push(now);
            if flaps.len() >= 3 {
                self.nodes[node].damped_until = now + 62 * SECOND;
                self.push(now + 62 * SECOND, What::Recheck);
            }
        }
        self.notice(node, MILLISECOND);
    }

    /// A daemon notices something about its own node a little later.
    fn notice(&mut self, node: usize, within: Instant) {
        let at = self.now + self.chance.u64(0..within);
        self.push(at, What::Local { node });
    }

    fn notice_draining(&mut self, node: usize) {
        if self.api.is_reached_by(node) {
            self.nodes[node].sees_draining = self.nodes[node].draining > 0;
            self.notice(node, 30 * MILLISECOND);
        }
    }

    fn api_away(&mut self, nodes: Nodes, on: bool) {
        for node in each(nodes & self.shape.all()) {
            self.api.take_away(node, on, self.now);
            if !on {
                self.view_changes(node);
                self.notice_draining(node);
            }
        }
    }

    fn down(&mut self, node: usize, power: bool) {
        count(&mut self.nodes[node].down, true);
        if power {
            self.nodes[node].unpowered = 1;
            self.nodes[node].memory = None;
        }
        self.end_process(node, false);
    }

    fn up(&mut self, node: usize, memory: bool) {
        count(&mut self.nodes[node].down, false);
        if !memory {
            self.nodes[node].memory = None;
        }
        self.start_if_possible(node);
    }

    /// Starts the daemon of a node, if nothing keeps it from running.
    fn start_if_possible(&mut self, node: usize) {
        let state = &self.nodes[node];
        if state.down > 0 || state.process.is_some() || !state.present {
            return;
        }
        if state.unpowered > 0 {
            self.nodes[node].unpowered = 0;
            self.nodes[node].clock = Self::clock(&self.shape, &mut self.chance, self.now);
        }
        self.runs += 1;
        let now = self.nodes[node].clock.shows(self.now);
        let incarnation = Incarnation(self.chance.u64(1..));
        let seed = self.chance.u64(..);
        let number = node % self.own();
        let state_is_on_segment = self.nodes[node].is_on_segment();
        let birth = Birth {
            name: self.names_of_nodes[number].clone(),
            node: self.ids[number],
            incarnation,
            parameters: self.shape.parameters,
            seed,
            keys: Arc::clone(&self.keys),
            names: Arc::clone(&self.names_of_nodes),
            witness: !state_is_on_segment,
        };
        let process = Process {
            engine: E::start(&birth, now),
            run: self.runs,
            started: self.now,
            tick_at: NEVER,
            due: Moment::NEVER,
            ticks_here: 0,
            queue: Vec::new(),
            frame_in_hand: None,
            ending: false,
            permits: vec![None; self.keys.len()],
            spoken: vec![false; self.keys.len()],
            upgrading: false,
            sent: (0, 0),
        };
        self.say(|| format!("n{} starts", node + 1));
        self.nodes[node].version = 0;
        self.nodes[node].generation = 0;
        self.nodes[node].serves = VoterSet::default();
        self.nodes[node].sees_draining = self.nodes[node].draining > 0;
        self.nodes[node].process = Some(Box::new(process));
        self.tell(node, Input::Local);
        if let Some(view) = self.nodes[node].memory.clone() {
            self.tell(node, Input::SavedHealth(view));
        }
        let latency = self.chance.u64(20 * MILLISECOND..300 * MILLISECOND);
        self.push(self.now + latency, What::View { node });
        self.watch.disturbed(self.now);
        self.find_out_who_is_heard();
        self.recheck = true;
        self.push(self.now + SECOND + MILLISECOND, What::Recheck);
    }

    /// The process of a node is no more.
    pub(super) fn end_process(&mut self, node: usize, in_order: bool) {
        if self.nodes[node].process.take().is_none() {
            return;
        }
        self.say(|| {
            let how = if in_order { "has ended" } else { "is gone" };
            format!("n{} {how}", node + 1)
        });
        self.tally.ended_in_order += u64::from(in_order);
        self.watch.drop_rights(node, self.now);
        self.watch.disturbed(self.now);
        self.find_out_who_is_heard();
        self.recheck = true;
        // One that was told to end may have been told to start again meanwhile.
        self.start_if_possible(node);
    }

    fn told_to_end(&mut self, node: usize) {
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        process.ending = true;
        let run = process.run;
        self.push(self.now + GRACE, What::Grace { node, run });
        self.tell(node, Input::Local);
    }

    fn pause(&mut self, node: usize, frame_in_hand: bool) {
        count(&mut self.nodes[node].paused, true);
        let Some(process) = &self.nodes[node].process else {
            return;
        };
        let mut keys = (0..self.keys.len()).rev();
        let held = keys
            .find(|key| !E::IS_WHOLE && self.permits(node, &process.engine, *key))
            .filter(|_| frame_in_hand);
        if let Some(process) = &mut self.nodes[node].process {
            process.frame_in_hand = process.frame_in_hand.or(held);
        }
    }

    fn resume(&mut self, node: usize) {
        count(&mut self.nodes[node].paused, false);
        if self.nodes[node].paused > 0 {
            return;
        }
        self.find_out_who_is_heard();
        let upgrading = |process: &Process<E>| process.upgrading;
        if self.nodes[node].process.as_deref().is_some_and(upgrading) {
            self.inherit(node);
        }
        if let Some(process) = &mut self.nodes[node].process
            && let Some(key) = process.frame_in_hand.take()
        {
            self.send_frame_in_hand(node, key);
        }
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        let run = process.run;
        process.tick_at = self.now;
        let queue = std::mem::take(&mut process.queue);
        // Whether it looks at its clock or at its sockets first is chance.
        let ticks_first = self.chance.bool();
        if ticks_first {
            self.tick(node);
        }
        for input in queue {
            if self.is_run(node, run) {
                self.tell(node, input);
            }
        }
        if !ticks_first && self.is_run(node, run) {
            self.tick(node);
        }
        self.push(self.now, What::Local { node });
        self.push(self.now, What::View { node });
    }

    /// The frame that was checked before the pause leaves after it.
    fn send_frame_in_hand(&mut self, node: usize, key: usize) {
        let now = self.nodes[node].clock.shows(self.now);
        let Some(mut process) = self.nodes[node].process.take() else {
            return;
        };
        if !self.permits(node, &process.engine, key) {
            self.say(|| format!("n{} sends a frame about k{} too late", node + 1, key + 1));
            if self.network.is_heard(node) {
                self.watch.spoke_late(key, node, self.now);
                self.push(self.now + SECOND + MILLISECOND, What::Recheck);
            }
        }
        process.engine.frame_sent(key, now);
        self.finish(node, process);
    }

    fn upgrade(&mut self, node: usize, gap: Instant) {
        let runs = self.nodes[node].runs();
        let Some(process) = &mut self.nodes[node].process else {
            return;
        };
        if runs && !process.upgrading && !process.ending {
            self.steps.push(Step::Resume { node });
            let step = self.steps.len() - 1;
            self.push(self.now + gap, What::Step(step));
            self.pause(node, false);
            if let Some(process) = &mut self.nodes[node].process {
                process.upgrading = true;
            }
        }
    }

    /// The new process goes on as the same member.
    fn inherit(&mut self, node: usize) {
        let now = self.nodes[node].clock.shows(self.now);
        let Some(mut process) = self.nodes[node].process.take() else {
            return;
        };
        process.upgrading = false;
        let process = Process {
            engine: process.engine.upgrade(now),
            ..*process
        };
        self.finish(node, Box::new(process));
    }

    fn join(&mut self, node: usize) {
        if !self.nodes[node].present {
            self.nodes[node].present = true;
            self.api.version += 1;
            self.objects_changed();
            self.push(self.now, What::Renew { node });
            self.up(node, false);
        }
    }

    fn leave(&mut self, node: usize) {
        if self.nodes[node].present {
            self.nodes[node].present = false;
            self.api.version += 1;
            self.objects_changed();
            count(&mut self.nodes[node].down, true);
            self.told_to_end(node);
        }
    }
}

fn count(causes: &mut u8, on: bool) {
    *causes = if on {
        *causes + 1
    } else {
        causes.saturating_sub(1)
    };
}
