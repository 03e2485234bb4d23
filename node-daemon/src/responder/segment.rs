//! One segment of the thread: the machine, the address responder, the sockets, and what goes between them.

mod actions;
#[cfg(feature = "simulator")]
mod inspection;
mod labels;
mod link;
mod open_link;
mod routers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use self::labels::Labels;
use self::open_link::OpenLink;
use self::routers::Routers;
use super::address_responder::AddressResponder;
use super::peers::Peers;
use super::rights::{InterfaceAddress, Right, SegmentRights};
use super::shared::Shared;
use super::system::SegmentSockets;
use super::upgrade_state::SegmentState;
use super::{DesiredSegment, Member, News, Report};
use crate::protocol::{
    AnnounceMode, Answer, Body, Cause, Heartbeat, Incarnation, Key, Local, Machine, Message,
    Moment, NodeId, Parameters, Path,
};
use crate::wire::codec::{self, Decoded, Refusal, SegmentId};
use crate::wire::frames::Claim;
use crate::wire::keys::Secret;

/// Frames and messages looked at before anything is sent, of each kind. Claims among them are
/// looked at before questions are answered, and rounds are not held up by a flood.
const AT_ONCE: usize = 256;
/// For so long something is taken to move after it was spoken of.
const MOVES: Duration = Duration::from_millis(100);
/// How often to look who is there.
const LOOK: Duration = Duration::from_millis(200);
/// And where voters come from files: they are few, and what they say of their API servers counts at once.
const LOOK_AT_FEW: Duration = Duration::from_millis(50);

/// What makes a segment.
#[derive(Clone, Copy)]
pub(super) struct Identity {
    pub(super) node: NodeId,
    /// The run that begins now, if nothing is inherited: each opening of a segment is one of its own.
    /// Others refuse what bears a number of theirs that they have heard, and know nothing of closings.
    pub(super) incarnation: Incarnation,
    pub(super) parameters: Parameters,
    pub(super) seed: u64,
}

/// One segment.
pub(super) struct Segment {
    name: String,
    id: SegmentId,
    labels: Labels,
    node: NodeId,
    interval: Duration,
    machine: Machine,
    responder: AddressResponder,
    peers: Peers,
    desired: Arc<DesiredSegment>,
    local: Option<Local>,
    link: Option<OpenLink>,
    next_try: Moment,
    has_fault: bool,
    /// What to sign with.
    secret: Option<Secret>,
    /// What was last said by a heartbeat of ours.
    said: Option<(Message, Arc<Heartbeat>)>,
    /// The last heartbeats, by the low half of their number, and when they were sent.
    beats: VecDeque<(u32, Moment)>,
    /// Until then something moves.
    moves_until: Moment,
    members: Arc<Vec<Member>>,
    next_look: Moment,
    /// Whose kernel is asked for by which address.
    kernels: BTreeMap<IpAddr, NodeId>,
    /// When the gateways were asked that have not answered since.
    gateway_asked: Option<Moment>,
    routers: Routers,
    hand_over_begun: Option<Moment>,
    has_ended: bool,
    rights: SegmentRights,
    /// What is to be reported once there is room.
    unreported: VecDeque<Report>,
    /// Of the process before this one: how it spoke.
    quiet: BTreeSet<Key>,
    unfinished: BTreeSet<Key>,
}

impl Segment {
    /// Begins, or goes on where the process before this one has stopped.
    pub(super) fn new(
        name: &str,
        identity: &Identity,
        state: Option<SegmentState>,
        desired: &Arc<DesiredSegment>,
        shared: &Shared,
        now: Moment,
    ) -> Self {
        let Identity {
            node,
            incarnation,
            parameters,
            seed,
        } = *identity;
        let id = SegmentId::of(&desired.uid);
        let fresh = || Machine::new(node, incarnation, parameters, seed, now);
        let mut segment = Self {
            name: name.to_owned(),
            id,
            labels: Labels::new(name),
            node,
            interval: parameters.heartbeat,
            machine: fresh(),
            responder: AddressResponder::new(seed),
            peers: Peers::default(),
            desired: Arc::default(),
            local: None,
            link: None,
            next_try: now,
            has_fault: false,
            secret: None,
            said: None,
            beats: VecDeque::new(),
            moves_until: Moment::default(),
            members: Arc::default(),
            next_look: now,
            kernels: BTreeMap::new(),
            gateway_asked: None,
            routers: Routers::default(),
            hand_over_begun: None,
            has_ended: false,
            rights: SegmentRights::default(),
            unreported: VecDeque::new(),
            quiet: BTreeSet::new(),
            unfinished: BTreeSet::new(),
        };
        // Others would refuse, and tell of, a first message without it.
        segment.choose_secret(shared, now);
        // The interface comes before what was inherited: without it everything would be let go.
        segment.desired = Arc::clone(desired);
        segment.attach(shared, now);
        segment.responder.set_kernel_answers(desired.kernel_answers);
        segment
            .responder
            .set_addresses(desired.addresses.clone(), now);
        if let Some(state) = state {
            segment.quiet = state.quiet;
            segment.unfinished = state.unfinished;
            segment.machine = Machine::inherit(state.machine, now);
        }
        segment.machine.set_survive_via_api(desired.survive_via_api);
        segment
            .machine
            .set_probe_addresses(desired.probes_addresses);
        let keeps = !desired.keep_connections.is_zero();
        segment.machine.set_keep_connections(keeps);
        segment.machine.set_view(desired.view.clone(), now);
        segment.update_local(shared, now);
        segment.settle(shared, now);
        segment
    }

    /// Takes in what is desired from now on.
    pub(super) fn apply_desired(
        &mut self,
        desired: &Arc<DesiredSegment>,
        shared: &Shared,
        now: Moment,
    ) {
        if Arc::ptr_eq(desired, &self.desired) {
            return;
        }
        let before = std::mem::replace(&mut self.desired, Arc::clone(desired));
        self.responder.set_kernel_answers(desired.kernel_answers);
        self.reattach(shared, now);
        if let Some(link) = &mut self.link
            && desired.groups != before.groups
        {
            link.join(&desired.groups, now);
        }
        if desired.addresses != before.addresses {
            self.responder.set_addresses(desired.addresses.clone(), now);
        }
        if desired.view != before.view {
            self.machine.set_view(desired.view.clone(), now);
        }
        self.machine.set_survive_via_api(desired.survive_via_api);
        self.machine.set_probe_addresses(desired.probes_addresses);
        let keeps = !desired.keep_connections.is_zero();
        self.machine.set_keep_connections(keeps);
        self.has_ended &= desired.ending;
        self.update_local(shared, now);
        self.settle(shared, now);
    }

    /// Tries what has failed before.
    pub(super) fn retry(&mut self, shared: &Shared, now: Moment) {
        if self.link.is_none() && self.desired.attachment.is_some() && now >= self.next_try {
            self.attach(shared, now);
            self.update_local(shared, now);
            self.settle(shared, now);
        }
        if let Some(link) = &mut self.link {
            link.rejoin_if_due(&self.desired.groups, now);
        }
    }

    /// Lets time pass.
    pub(super) fn tick(&mut self, shared: &Shared, now: Moment) {
        self.machine.tick(now);
        self.settle(shared, now);
        if now >= self.next_look {
            let is_of_few = self.desired.view.voters_from_file;
            self.next_look = now + if is_of_few { LOOK_AT_FEW } else { LOOK };
            self.look(shared, now);
        }
    }

    /// Takes in the answer of the API server, and what is known of connections.
    pub(super) fn take_news(&mut self, news: News, shared: &Shared, now: Moment) {
        let key_of = |address: &IpAddr| self.responder.key_of(*address);
        match news {
            News::Answer(answer, asked) => self.machine.api_answered(answer, asked, now),
            News::Prepared(awaited, addresses, is_done) => {
                let keys: Vec<Key> = addresses.iter().filter_map(key_of).collect();
                self.machine
                    .connections_prepared(awaited, &keys, is_done, now);
            }
            News::Counts(to, counts) => {
                let of = |(address, count): &(IpAddr, u32)| Some((key_of(address)?, *count));
                let counts: Vec<(Key, u32)> = counts.iter().filter_map(of).collect();
                self.machine.tell_connections(to, &counts, now);
            }
        }
        self.settle(shared, now);
    }

    /// Takes in what other members have said on the segment.
    pub(super) fn hear_messages(&mut self, shared: &Shared) {
        let mut heard = Vec::new();
        if let Some(link) = &self.link {
            link.sockets.receive_messages(AT_ONCE, &mut |message| {
                heard.push(codec::decode(self.id, message, &shared.ring));
            });
        }
        for message in heard {
            self.message_received(message, Path::Segment, shared);
        }
    }

    /// Takes in what another member has said. What is of another segment is left alone.
    pub(super) fn message_received(
        &mut self,
        decoded: Result<Decoded, Refusal>,
        path: Path,
        shared: &Shared,
    ) {
        let now = shared.now();
        let metrics = &shared.metrics.segments;
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(Refusal::OtherSegment) => return,
            Err(refusal) => {
                self.labels.dropped(metrics, refusal.label());
                if let Refusal::Unsigned(from)
                | Refusal::UnknownSecret(from)
                | Refusal::Forged(from) = refusal
                {
                    self.peers.refused(from, &self.desired.view, now);
                }
                return;
            }
        };
        let message = decoded.message;
        if message.from == self.node {
            // Another run on this node, or a switch that gives us back our own.
            self.labels.dropped(metrics, "stale");
            return;
        }
        self.note_move(&message.body, now);
        self.labels.received(metrics, path);
        let lost = self
            .peers
            .heard(&message, decoded.signed, path, self.interval, now);
        self.labels.lost(metrics, path, lost);
        if let Body::Heartbeat(heartbeat) = &message.body {
            self.time_echoes(heartbeat, shared, now);
        }
        self.machine.receive(&message, path, now);
        self.settle(shared, now);
    }

    /// Takes in frames of ARP and neighbour discovery. Nothing is answered yet.
    pub(super) fn hear_frames(&mut self, shared: &Shared) {
        let Some(link) = &self.link else {
            return;
        };
        let now = shared.now();
        let (responder, machine, labels) = (&mut self.responder, &self.machine, &self.labels);
        let mut claims = Vec::new();
        link.sockets.receive(AT_ONCE, &mut |frame, came| {
            let heard = responder.frame_received(frame, came, machine, now);
            if heard.asked {
                labels.asked(&shared.metrics, frame);
            }
            claims.extend(heard.claim.map(|claim| (claim, heard.answers)));
        });
        for (claim, answers) in claims {
            self.handle_claim(claim, answers, shared, now);
        }
        self.settle(shared, now);
    }

    /// Sends what is due, as long as that is right.
    pub(super) fn speak(&mut self, shared: &Shared) {
        while let Some(transmit) = self.responder.poll_transmit(&self.machine, shared.now()) {
            let Some(link) = &self.link else {
                continue;
            };
            // The last question before the frame is the kernel's.
            if !self.machine.permits(transmit.key, shared.now()) {
                continue;
            }
            match link.sockets.send(&transmit.frame) {
                Ok(()) => {
                    // It may have taken a while: then others are told (rule D).
                    let now = shared.now();
                    self.machine.frame_sent(transmit.key, now);
                    self.labels
                        .sent(&shared.metrics, &transmit.frame, transmit.kind);
                    self.settle(shared, now);
                }
                Err(error) => {
                    self.labels.send_error(&shared.metrics);
                    tracing::debug!(segment = %self.name, %error, "frame not sent");
                }
            }
        }
    }

    /// When something is to be done even if nothing happens.
    pub(super) fn next_deadline(&self, now: Moment) -> Moment {
        let responder = self.responder.next_deadline(now);
        let mut deadline = self
            .machine
            .next_deadline()
            .min(responder)
            .min(self.next_look);
        if self.link.is_none() && self.desired.attachment.is_some() {
            deadline = deadline.min(self.next_try);
        }
        if let Some(rejoin) = self.link.as_ref().and_then(OpenLink::rejoin_at) {
            deadline = deadline.min(rejoin);
        }
        deadline
    }

    /// Whether anything moves: what is said then, others wait for.
    pub(super) fn moves(&self, now: Moment) -> bool {
        now < self.moves_until
    }

    /// Takes in that something else than a heartbeat is said.
    fn note_move(&mut self, body: &Body, now: Moment) {
        if !matches!(body, Body::Heartbeat(_)) {
            self.moves_until = now + MOVES;
        }
    }

    /// How many other members it has heard of.
    pub(super) fn members(&self) -> usize {
        self.machine.peers()
    }

    /// What to wait on for ARP and neighbour discovery.
    pub(super) fn frames(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let frames = self.link.iter().filter_map(|link| link.sockets.frames());
        frames.flatten()
    }

    /// What to wait on for messages of other members.
    pub(super) fn messages(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.link.iter().filter_map(|link| link.sockets.messages())
    }

    /// The state of this node has changed: the secrets, or the port on the node network.
    pub(super) fn shared_changed(&mut self, shared: &Shared, now: Moment) {
        self.choose_secret(shared, now);
        self.update_local(shared, now);
        self.settle(shared, now);
    }

    /// Ends, and says so.
    pub(super) fn close(mut self, shared: &Shared) {
        self.rights.change();
        let keys: Vec<_> = self.responder.modes().keys().copied().collect();
        for key in keys {
            self.responder.stop(key, Cause::Withdrawn);
        }
        self.report_notices(shared);
        self.detach(shared, shared.now());
        shared.metrics.segments.forget(&self.name);
    }

    /// Ends, and leaves everything to the next process, but for the sockets: to close them takes
    /// longer than all else.
    pub(super) fn export(mut self) -> (String, SegmentState, Option<Box<dyn SegmentSockets>>) {
        self.rights.change();
        let quiet =
            |(key, mode): (&Key, &AnnounceMode)| (*mode == AnnounceMode::OnRequest).then_some(*key);
        let state = SegmentState {
            uid: self.desired.uid.clone(),
            machine: self.machine.export(),
            quiet: self.responder.modes().iter().filter_map(quiet).collect(),
            unfinished: self.responder.unfinished(),
        };
        (self.name, state, self.link.map(|link| link.sockets))
    }

    /// What it has the right to speak for, after a change.
    pub(super) fn changed_rights(&mut self) -> bool {
        self.rights.prolong(self.machine.speech_ends())
    }

    /// What it has the right to speak for.
    pub(super) fn rights(&self) -> impl Iterator<Item = (InterfaceAddress, Right)> {
        let index = self.link.iter().map(|link| link.attachment.index);
        index.flat_map(move |index| {
            let places = self.responder.speaking().iter();
            places.map(move |address| ((index, *address), self.rights.right()))
        })
    }

    fn time_echoes(&mut self, heartbeat: &Heartbeat, shared: &Shared, now: Moment) {
        for echo in &heartbeat.echoes {
            if let (true, Answer::Accepted { seq, .. }) = (echo.node == self.node, echo.answer)
                && let Some((_, sent)) = self.beats.iter().find(|(low, _)| *low == seq)
            {
                let rtt = now.since(*sent).as_secs_f64();
                shared.metrics.segments.heartbeat_rtt.observe(rtt);
            }
        }
    }

    fn handle_claim(&mut self, claim: Claim, answers: bool, shared: &Shared, now: Moment) {
        if answers && let Some(node) = self.kernels.get(&claim.address).copied() {
            let contact = self.peers.contact(node, &self.desired.view);
            let mac = contact.and_then(|contact| contact.mac);
            if mac.is_none_or(|mac| mac == claim.mac) {
                self.machine.kernel_answered(node, now);
            }
        }
        if let Some(key) = self.responder.key_of(claim.address)
            && self.machine.address_answered(key, claim.mac, now)
        {
            tracing::debug!(segment = %self.name, address = %claim.address, mac = %claim.mac,
                "a node that is not heard still speaks for the address: it is left to that");
        }
        if self.desired.gateways.contains(&claim.address) {
            self.gateway_asked = None;
            self.labels.gateway(&shared.metrics.segments, true);
            self.machine.gateway_answered(now);
            if self.desired.tells_routers && self.routers.heard(claim, now) {
                let Claim { address, mac } = claim;
                self.report(shared, Report::Router { address, mac });
            }
        }
    }

    /// Looks who is there.
    fn look(&mut self, shared: &Shared, now: Moment) {
        let desired = Arc::clone(&self.desired);
        self.peers.forget(&desired.view, now);
        self.responder.set_members(self.peers.macs(&desired.view));
        self.choose_secret(shared, now);
        let said = self.said.as_ref().map(|(_, said)| &**said);
        let mut members = self.peers.members(self.node, &desired.view, said, now);
        self.labels.members(&shared.metrics.segments, &members);
        let figures = self.machine.figures();
        self.labels.figures(&shared.metrics.segments, figures);
        members.extend(self.own_member(shared));
        if *self.members != members {
            self.members = Arc::new(members);
            self.report(shared, Report::Members(Arc::clone(&self.members)));
        }
        let until = self.responder.modes().keys();
        let until = until
            .filter_map(|key| self.machine.permitted_until(*key))
            .min();
        self.labels
            .speaking_lease(&shared.metrics.segments, until, now);
        if desired.tells_routers && self.link.is_some() {
            for router in &desired.gateways {
                if self.responder.speaks_by(*router) && self.routers.is_due(*router, now) {
                    self.responder.prime(*router);
                }
            }
        }
    }

    fn own_member(&self, shared: &Shared) -> Option<Member> {
        let (message, said) = self.said.as_ref()?;
        Some(Member {
            node: self.node,
            epoch: message.epoch,
            alive: true,
            on_segment: self.link.is_some(),
            on_node_network: shared.node_network.is_some(),
            flags: said.flags,
            voter: said.voters.voters.contains(&self.node),
            contact: said.contact.clone(),
            generation: message.generation,
            voters: said.voters.clone(),
            settled: said.settled,
            approved: said.approved,
            suspected: false,
            weight: said.weight,
            holds: said.count,
            signed: self.secret.as_ref().map(Secret::id),
            secrets: said.secrets.clone(),
            refused: false,
        })
    }
}
