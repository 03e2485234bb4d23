//! The loop of the thread.
//!
//! The order of one turn matters. First of all the clock is looked at: what has run out meanwhile is
//! gone before anything else is done. Then what is desired and what other members say are taken in, so that
//! who was held up learns what it has lost; then ARP and neighbour discovery; and only then
//! anything is answered.

#[cfg(feature = "simulator")]
mod stepped;

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, mpsc as channel};
use std::time::Duration;

use arc_swap::ArcSwap;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use mooring_common::errors::with_causes;

#[cfg(feature = "simulator")]
pub use self::stepped::SteppedResponder;
use super::rights::Rights;
use super::segment::{Identity, Segment};
use super::shared::Shared;
use super::system::{SegmentSockets, System};
use super::upgrade_state::{SegmentState, UpgradeState};
use super::{DesiredSegments, Report, Setup, Slot, Told};
use crate::protocol::random::SplitMix;
use crate::protocol::{Incarnation, Moment, NodeId, Parameters, Path};
use crate::wire::codec::{self, SegmentId};
use crate::wire::keys::KeyRing;

/// Messages over the node network looked at before anything else is done.
const MESSAGES_AT_ONCE: usize = 1024;
/// How soon to try again to open the port.
const RETRY: Duration = Duration::from_secs(1);
/// From when on waking up late is counted.
const STALL: Duration = Duration::from_millis(50);
/// From so many members on, messages are gathered for that long while there are only heartbeats: to
/// wake up for each costs more than it takes to read it. Questions of neighbours do not wait.
const CROWD: usize = 16;
const GATHER: Duration = Duration::from_millis(10);
/// How often to look at the secrets.
const LOOK: Duration = Duration::from_millis(500);

/// The thread's own.
pub(super) struct Worker {
    slot: Arc<ArcSwap<Slot>>,
    answered: channel::Receiver<Told>,
    woken: UnixStream,
    node: NodeId,
    parameters: Parameters,
    random: SplitMix,
    /// What was inherited of segments that are not desired yet.
    states: BTreeMap<String, SegmentState>,
    desired: Arc<DesiredSegments>,
    segments: BTreeMap<SegmentId, (String, Segment)>,
    port: u16,
    secrets: Arc<ArcSwap<KeyRing>>,
    next_try: Moment,
    next_look: Moment,
    rights: Rights,
    shared: Shared,
}

impl Worker {
    pub(super) fn new(
        setup: Setup,
        system: Box<dyn System>,
        slot: Arc<ArcSwap<Slot>>,
        answered: channel::Receiver<Told>,
        woken: UnixStream,
    ) -> Self {
        let states = setup.inherited.map(|inherited| inherited.segments);
        Self {
            slot,
            answered,
            woken,
            node: setup.node,
            parameters: setup.parameters,
            random: SplitMix::new(setup.seed),
            states: states.unwrap_or_default(),
            desired: Arc::default(),
            segments: BTreeMap::new(),
            port: setup.heartbeat_port,
            shared: Shared::new(
                setup.reports,
                setup.metrics,
                setup.secrets.load_full(),
                system,
                setup.prepared,
            ),
            secrets: setup.secrets,
            next_try: Moment::default(),
            next_look: Moment::default(),
            rights: setup.rights,
        }
    }

    /// Works until it is told to stop. What it leaves goes to `left`, once no frame leaves any more.
    pub(super) fn run(mut self, left: &channel::Sender<UpgradeState>) {
        let mut frames_wait = true;
        while let Some(heard) = self.turn(frames_wait) {
            frames_wait = self.wait(heard + GATHER);
        }
        let (state, wires) = self.export();
        // Whoever waits for it may be gone; then it is nobody's.
        let _ = left.send(state);
        // The kernel takes tens of milliseconds to close a packet socket.
        drop(wires);
    }

    /// Does what there is to do now. Gives when messages were last looked for; `None` if it was told
    /// to stop.
    pub(super) fn turn(&mut self, frames_wait: bool) -> Option<Moment> {
        let slot = self.slot.load_full();
        if slot.stop {
            return None;
        }
        let now = self.shared.now();
        for (_, segment) in self.segments.values_mut() {
            segment.tick(&self.shared, now);
        }
        self.open_node_network(now);
        self.look_at_secrets(now);
        if !Arc::ptr_eq(&slot.desired, &self.desired) {
            self.apply_desired(&slot.desired, now);
        }
        while let Ok(told) = self.answered.try_recv() {
            self.take_news(told, now);
        }
        for (_, segment) in self.segments.values_mut() {
            segment.retry(&self.shared, now);
        }
        let heard = self.shared.now();
        self.hear_messages();
        if frames_wait {
            for (_, segment) in self.segments.values_mut() {
                segment.hear_frames(&self.shared);
            }
        }
        for (_, segment) in self.segments.values_mut() {
            segment.speak(&self.shared);
        }
        self.publish_rights();
        Some(heard)
    }

    /// Ends. What it leaves to the next process, and the sockets, from which no frame leaves any more.
    pub(super) fn export(self) -> (UpgradeState, Vec<Box<dyn SegmentSockets>>) {
        let Self {
            node,
            mut states,
            segments,
            mut shared,
            rights,
            ..
        } = self;
        rights.publish(BTreeMap::new());
        // The next process needs the port.
        shared.node_network = None;
        let mut wires = Vec::new();
        for (name, segment) in segments.into_values() {
            shared.report(&name, Report::Responding(None));
            let (name, state, wire) = segment.export();
            states.insert(name, state);
            wires.extend(wire);
        }
        let state = UpgradeState {
            node,
            segments: states,
        };
        (state, wires)
    }

    fn apply_desired(&mut self, desired: &Arc<DesiredSegments>, now: Moment) {
        self.desired = Arc::clone(desired);
        // One that was made again under its name is another.
        let gone = |(id, (name, _)): (&SegmentId, &(String, Segment))| {
            let same = desired.get(name).map(|desired| SegmentId::of(&desired.uid));
            (same != Some(*id)).then_some(*id)
        };
        let gone: Vec<_> = self.segments.iter().filter_map(gone).collect();
        for id in gone {
            if let Some((_, segment)) = self.segments.remove(&id) {
                segment.close(&self.shared);
            }
        }
        for (name, desired) in desired.iter() {
            let id = SegmentId::of(&desired.uid);
            if let Some((_, segment)) = self.segments.get_mut(&id) {
                segment.apply_desired(desired, &self.shared, now);
            } else {
                let state = self.states.remove(name);
                let state = state.filter(|state| state.uid == desired.uid);
                let identity = Identity {
                    node: self.node,
                    incarnation: Incarnation(self.random.next()),
                    parameters: self.parameters,
                    seed: self.random.next(),
                };
                let shared = &self.shared;
                let segment = Segment::new(name, &identity, state, desired, shared, now);
                if let Some(fault) = &shared.fault {
                    let fault = Some(fault.clone());
                    shared.report(name, Report::NodeNetwork(fault));
                }
                self.segments.insert(id, (name.clone(), segment));
            }
        }
    }

    fn take_news(&mut self, told: Told, now: Moment) {
        let Told { segment, news } = told;
        let mut segments = self.segments.values_mut();
        if let Some((_, segment)) = segments.find(|(name, _)| *name == segment) {
            segment.take_news(news, &self.shared, now);
        }
    }

    fn hear_messages(&mut self) {
        for (_, segment) in self.segments.values_mut() {
            segment.hear_messages(&self.shared);
        }
        let mut heard = Vec::new();
        if let Some(network) = &self.shared.node_network {
            network.receive(MESSAGES_AT_ONCE, &mut |message| {
                let id = SegmentId::in_message(message);
                if let Some(id) = id.filter(|id| self.segments.contains_key(id)) {
                    heard.push((id, codec::decode(id, message, &self.shared.ring)));
                }
            });
        }
        for (id, message) in heard {
            if let Some((_, segment)) = self.segments.get_mut(&id) {
                segment.message_received(message, Path::NodeNetwork, &self.shared);
            }
        }
    }

    fn open_node_network(&mut self, now: Moment) {
        if self.shared.node_network.is_some() || now < self.next_try {
            return;
        }
        self.next_try = now + RETRY;
        let opened = self.shared.system.open_node_network(self.port);
        match opened {
            Ok(network) => {
                self.shared.node_network_port = network.port().ok();
                self.shared.node_network = Some(network);
                if self.shared.fault.take().is_some() {
                    tracing::info!(
                        port = self.port,
                        "heartbeats of other nodes can be heard now"
                    );
                    self.report_to_all(&Report::NodeNetwork(None));
                }
                self.update_all(now);
            }
            Err(error) => {
                let text = with_causes(&error);
                if self.shared.fault.as_ref() != Some(&text) {
                    tracing::warn!(error = %text, "heartbeats go over the segments alone");
                    self.shared.fault = Some(text.clone());
                    self.report_to_all(&Report::NodeNetwork(Some(text)));
                }
            }
        }
    }

    fn look_at_secrets(&mut self, now: Moment) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK;
        let ring = self.secrets.load();
        if !Arc::ptr_eq(&ring, &self.shared.ring) {
            self.shared.ring = Arc::clone(&ring);
            drop(ring);
            self.update_all(now);
        }
    }

    fn update_all(&mut self, now: Moment) {
        for (_, segment) in self.segments.values_mut() {
            segment.shared_changed(&self.shared, now);
        }
    }

    fn publish_rights(&mut self) {
        let mut changed = false;
        for (_, segment) in self.segments.values_mut() {
            changed |= segment.changed_rights();
        }
        if changed {
            let segments = self.segments.values();
            let rights = segments.flat_map(|(_, segment)| segment.rights());
            self.rights.publish(rights.collect());
        }
    }

    fn report_to_all(&self, report: &Report) {
        for (name, _) in self.segments.values() {
            self.shared.report(name, report.clone());
        }
    }

    /// When to take another turn even if nothing happens.
    pub(super) fn next_deadline(&self) -> Moment {
        let now = self.shared.now();
        let segments = self.segments.values();
        let deadlines = segments.map(|(_, segment)| segment.next_deadline(now));
        let deadline = deadlines.fold(self.next_look, Moment::min);
        if self.shared.node_network.is_none() {
            deadline.min(self.next_try)
        } else {
            deadline
        }
    }

    /// Waits for a frame, a message, an order, or the next deadline; for messages, where there are many
    /// and nothing moves, not before that time. Whether there are frames of ARP or neighbour discovery.
    fn wait(&self, gathered: Moment) -> bool {
        let now = self.shared.now();
        let segments = || self.segments.values().map(|(_, segment)| segment);
        let deadline = self.next_deadline();
        let crowded = segments().any(|segment| segment.members() >= CROWD);
        let gathers = now < gathered && crowded && !segments().any(|segment| segment.moves(now));
        let timer = if gathers {
            deadline.min(gathered)
        } else {
            deadline
        };
        let polled = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors: Vec<_> = segments().flat_map(Segment::frames).map(polled).collect();
        let frames = descriptors.len();
        if !gathers {
            let network = self.shared.node_network.as_ref();
            let network = network.and_then(|network| network.descriptor());
            descriptors.extend(
                segments()
                    .flat_map(Segment::messages)
                    .chain(network)
                    .map(polled),
            );
        }
        descriptors.push(polled(self.woken.as_fd()));
        let timeout = TimeSpec::from_duration(timer.since(now));
        // A signal ends the wait early, and that is all that can go wrong here.
        let _ = ppoll(&mut descriptors, Some(timeout), None);
        let late = self.shared.now().since(deadline);
        // What is due from the start on is not late.
        if late >= STALL && deadline > Moment::default() {
            let stalls = &self.shared.metrics.stalls;
            stalls.observe(late.as_secs_f64());
        }
        let is_ready = |descriptor: &PollFd<'_>| descriptor.any() != Some(false);
        if descriptors.last().is_some_and(is_ready) {
            let mut drain = [0; 64];
            while matches!((&self.woken).read(&mut drain), Ok(length) if length > 0) {}
        }
        descriptors.iter().take(frames).any(is_ready)
    }
}
