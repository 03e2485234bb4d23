//! What is sent: heartbeats, the own set, and everything else on its paths.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::decision::{Destination, Transmit};
use crate::protocol::message::{
    Answer, Body, Contact, Echo, Epoch, Flags, Heartbeat, Incarnation, Message, NodeId, Owned,
    VoterSet,
};
use crate::protocol::time::Moment;

/// Where there are too many members for one heartbeat: how many echoes each of them is sent by the
/// node network. Its own is one; the others come in turn.
const ECHOES_TO_ONE: usize = 8;
/// Suspects of one heartbeat.
const SUSPECTS: usize = Heartbeat::MOST_SUSPECTS;
/// How much a part of a set holds: a key is one, a release two.
const PART: usize = 150;
/// The least time between two heartbeats, and between two statements of a set.
const BREATH: Duration = Duration::from_millis(1);
/// A set is stated again after that time, and then each time after twice as long, until the voters
/// have it.
const RESTATE: Duration = Duration::from_millis(5);
/// The longest time until it is stated again.
const RESTATE_MOST: Duration = Duration::from_millis(100);
/// How often a member is told a set that it does not know.
const TELL_AGAIN: Duration = Duration::from_millis(20);
/// Whoever has been silent for longer is no more echoed.
const ECHO_LASTS: Duration = Duration::from_secs(2);
/// Who was silent for longer is no more named as suspect.
const SUSPECT_LASTS: Duration = Duration::from_secs(60);
/// For how long somebody counts as heard on the segment itself.
pub(super) const ON_SEGMENT: Duration = Duration::from_millis(300);

/// When heartbeats leave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HeartbeatTimer {
    next: Moment,
    last: Option<Moment>,
    /// Somebody waits for one.
    pub(super) hurry: bool,
    /// Whose echoes come next, where not all fit.
    #[serde(default)]
    turn: usize,
}

impl HeartbeatTimer {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            next: now,
            last: None,
            hurry: false,
            turn: 0,
        }
    }

    pub(super) fn due(&self) -> Moment {
        match self.last {
            Some(last) if self.hurry => self.next.min(last + BREATH),
            Some(_) => self.next,
            None => Moment::default(),
        }
    }
}

impl Machine {
    /// Sends what others wait for; whether anything was sent.
    pub(super) fn flush(&mut self) -> bool {
        let now = self.now;
        let mut sent = false;
        if self.held_keys.dirty
            && (self.held_keys.revision == 0 || self.held_keys.stated_at + BREATH <= now)
        {
            self.state_set(true);
            self.send_heartbeat();
            sent = true;
        } else if self.held_keys.restate.is_some_and(|(at, _)| at <= now) {
            sent = self.state_again();
        }
        if self.heartbeat_timer.due() <= now {
            self.send_heartbeat();
            sent = true;
        }
        sent
    }

    /// States the set again unless all voters that live have it by now.
    fn state_again(&mut self) -> bool {
        let Some((_, pause)) = self.held_keys.restate.take() else {
            return false;
        };
        if self.held_keys.dirty {
            self.state_set(true);
            self.send_heartbeat();
            return true;
        }
        if self.is_known_to_voters() && self.held_keys.askers.is_empty() {
            return false;
        }
        self.state_set(false);
        self.send_heartbeat();
        let pause = (pause * 2).min(RESTATE_MOST);
        self.held_keys.restate = Some((self.now + pause, pause));
        true
    }

    /// Somebody does not know the set.
    pub(super) fn tell_set_again(&mut self, node: NodeId) {
        self.held_keys.askers.insert(node);
        if self.held_keys.restate.is_none() {
            let at = (self.held_keys.stated_at + TELL_AGAIN).max(self.now);
            self.held_keys.restate = Some((at, RESTATE_MOST));
        }
    }

    /// States the whole set, in parts.
    fn state_set(&mut self, changed: bool) {
        let now = self.now;
        self.held_keys.dirty = false;
        self.held_keys.stated_at = now;
        self.held_keys.forget_releases(now);
        if changed {
            self.held_keys.revision = self.seq.saturating_add(1);
            self.held_keys.acknowledged.clear();
            self.held_keys.refusals.clear();
            self.held_keys.restate = Some((now + RESTATE, RESTATE));
        }
        let revision = self.held_keys.revision;
        let mut parts = vec![Owned::default()];
        let mut room = PART;
        for (key, target, _) in &self.held_keys.released {
            if room < 2 {
                parts.push(Owned::default());
                room = PART;
            }
            room -= 2;
            if let Some(part) = parts.last_mut() {
                part.released.push((*key, *target));
            }
        }
        for key in self.held_keys.keys.keys() {
            if room < 1 {
                parts.push(Owned::default());
                room = PART;
            }
            room -= 1;
            if let Some(part) = parts.last_mut() {
                part.keys.push(*key);
            }
        }
        let count = u16::try_from(parts.len()).unwrap_or(u16::MAX);
        let mut to = self.voters_elsewhere();
        to.extend(
            self.held_keys
                .released
                .iter()
                .filter_map(|(_, target, _)| *target)
                .filter(|target| *target != self.me),
        );
        to.append(&mut self.held_keys.askers);
        for (part, mut owned) in (0_u16..).zip(parts) {
            owned.revision = revision;
            owned.part = part;
            owned.parts = count;
            owned.lapsed = self.held_keys.lapsed;
            self.send(Body::Owned(Arc::new(owned)), to.clone());
        }
        if changed {
            self.vote_on_own_set(revision);
        }
    }

    /// Sends a heartbeat; of a voter that hears many, several on the segment, and on the node network
    /// to each member one of its own.
    fn send_heartbeat(&mut self) {
        if self.held_keys.dirty {
            self.state_set(true);
        }
        let now = self.now;
        let echoes = self.echoes();
        let heartbeat = self.compose();
        let by_node_network = !self.speaks_on_segment() || self.link_monitor.filtered;
        let to = if self.votes() || by_node_network || !self.voter_sets.exists() {
            self.everybody_elsewhere()
        } else {
            // Whose set it does not know hears that also where it is not on the segment.
            let mut to = self.voters_elsewhere();
            let peers = self.peers.iter();
            let unknown = peers.filter(|(_, peer)| !peer.suspected && !peer.is_known());
            to.extend(unknown.map(|(node, _)| *node));
            to
        };
        let most = self.parameters.echoes;
        let many = echoes.len() > most;
        let (to_all, to_each) = if many {
            (BTreeSet::new(), to)
        } else {
            (to, BTreeSet::new())
        };
        let mut chunks = echoes.chunks(most);
        let first = chunks.next().unwrap_or_default();
        for echoes in std::iter::once(first).chain(chunks) {
            let heartbeat = Heartbeat {
                echoes: echoes.to_vec(),
                ..heartbeat.clone()
            };
            self.send(Body::Heartbeat(Arc::new(heartbeat)), to_all.clone());
            self.speaking_lease.note_sent(
                self.seq,
                self.held_keys.digest,
                self.voter_sets.current.generation,
                now,
                self.parameters.speaking_lease,
            );
        }
        self.tell_each(&heartbeat, &echoes, to_each);
        let interval = self.parameters.heartbeat;
        let early = self.random.up_to(interval / 10);
        self.heartbeat_timer.next = now + interval + interval / 20 - early;
        self.heartbeat_timer.last = Some(now);
        self.heartbeat_timer.hurry = false;
        self.vote_on_own_heartbeat(self.seq);
    }

    /// Sends the last heartbeat to each of these on the node network, with the echo of that one. It
    /// bears the same number, so that it is a copy to whoever has heard it on the segment.
    fn tell_each(&mut self, heartbeat: &Heartbeat, echoes: &[Echo], nodes: BTreeSet<NodeId>) {
        let most = ECHOES_TO_ONE.min(self.parameters.echoes);
        let turn = self.heartbeat_timer.turn;
        let in_turn = || echoes.iter().cycle().skip(turn).take(echoes.len());
        for node in nodes {
            let own = echoes.iter().filter(|echo| echo.node == node);
            let others = in_turn().filter(|echo| echo.node != node);
            let heartbeat = Heartbeat {
                echoes: own.chain(others).take(most).copied().collect(),
                ..heartbeat.clone()
            };
            let message = self.message(Body::Heartbeat(Arc::new(heartbeat)));
            self.transmits.push_back(Transmit {
                message,
                to: Destination::NodeNetwork(vec![node]),
            });
        }
        self.heartbeat_timer.turn = (turn + most).checked_rem(echoes.len()).unwrap_or(0);
    }

    pub(super) fn compose(&self) -> Heartbeat {
        let voters = &self.voter_sets.current.voters;
        Heartbeat {
            flags: self.flags(),
            weight: self.local.weight,
            digest: self.held_keys.digest,
            count: u32::try_from(self.held_keys.keys.len()).unwrap_or(u32::MAX),
            voters: self.voter_sets.current.clone(),
            settled: self.settled(),
            incarnations: voters
                .iter()
                .filter_map(|voter| Some((*voter, *self.runs.get(voter)?)))
                .collect(),
            echoes: Vec::new(),
            suspects: self.suspects(),
            secrets: self.local.secrets.clone(),
            contact: self.local.contact.clone(),
            approved: self
                .view
                .as_ref()
                .and_then(|view| view.accepted.as_ref())
                .map_or(0, VoterSet::fingerprint),
        }
    }

    /// Whom it has not heard for a while: those that hold most first. A voter also names those that
    /// it has not heard at all: it may have been restarted after they died.
    fn suspects(&self) -> Vec<NodeId> {
        let oldest = self.now - SUSPECT_LASTS;
        let mut suspects: Vec<(u32, NodeId)> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.suspected && peer.last_heard() >= oldest)
            .map(|(node, peer)| (u32::MAX - peer.last.count, *node))
            .collect();
        if suspects.len() > SUSPECTS {
            suspects.sort_unstable();
        }
        let mut suspects: Vec<NodeId> = suspects.into_iter().map(|(_, node)| node).collect();
        if self.votes() && self.started + self.parameters.suspicion <= self.now {
            let named = self
                .peers
                .values()
                .filter(|peer| !peer.suspected)
                .flat_map(|peer| &peer.last.suspects);
            for node in self.voter_sets.current.voters.iter().chain(named) {
                if *node != self.me && !self.peers.contains_key(node) && !suspects.contains(node) {
                    suspects.push(*node);
                }
            }
        }
        suspects.truncate(SUSPECTS);
        suspects
    }

    /// What this member says of itself.
    pub(super) fn flags(&self) -> Flags {
        Flags {
            starting: !self.membership.has_joined(),
            released: self.membership.released,
            draining: self.local.draining || self.local.ending,
            vlan_down: !self.is_heard_on_segment(),
            unfit: !self.local.service_proxy_works || self.view.is_none(),
            hears_quorum: self.hears_quorum(),
            segment_filtered: self.link_monitor.filtered,
            node_network_down: self.node_network.is_lost,
        }
    }

    /// Whether it would hear by now who is on the segment. Then it also says whom it does not hear
    /// although the API objects know them: who is mute can learn it from nobody else.
    fn would_hear(&self) -> bool {
        let settled = self.link_monitor.link_up_since;
        self.is_awake()
            && self.is_heard_on_segment()
            && settled.is_some_and(|since| since + ON_SEGMENT <= self.now)
    }

    /// What it says of others: a voter of everybody, anybody else of sets that it does not know.
    pub(super) fn echoes(&self) -> Vec<Echo> {
        let now = self.now;
        let oldest = now - ECHO_LASTS;
        let votes = self.votes();
        let awake = self.is_awake();
        let would_hear = self.would_hear();
        let known = self.view.iter().flat_map(|view| view.known.keys());
        let missing: BTreeSet<NodeId> = known
            .copied()
            .filter(|node| would_hear && *node != self.me)
            .collect();
        let mut echoes: Vec<Echo> = self
            .peers
            .iter()
            .filter(|(node, peer)| {
                peer.last_heard() >= oldest
                    || missing.contains(node)
                    || peer.stale_run(now).is_some()
                    || !self.rules().echo_is_exact()
            })
            .filter(|(_, peer)| votes || !peer.is_known())
            .map(|(node, peer)| Echo {
                node: *node,
                epoch: peer.epoch,
                incarnation: peer.stale_run(now).unwrap_or(peer.incarnation),
                on_segment: peer.heard_on_segment_since(now - ON_SEGMENT),
                answer: if peer.stale_run(now).is_some() {
                    Answer::Stale
                } else if awake {
                    self.voter.answer(*node, now)
                } else if votes || peer.is_known() {
                    // A voter that is not awake says nothing about sets either.
                    Answer::None
                } else {
                    Answer::Unknown
                },
            })
            .collect();
        let never = missing.iter().filter(|node| !self.peers.contains_key(node));
        echoes.extend(never.map(|node| Echo {
            node: *node,
            epoch: Epoch(0),
            incarnation: Incarnation(0),
            on_segment: false,
            answer: Answer::None,
        }));
        // Those that hold something wait for it most.
        echoes.sort_by_key(|echo| {
            let idle = self
                .peers
                .get(&echo.node)
                .is_none_or(|peer| peer.last.count == 0);
            (idle, echo.node)
        });
        echoes
    }

    /// What it says of itself, as a voter.
    pub(super) fn echo_of_self(&self) -> Echo {
        Echo {
            node: self.me,
            epoch: self.membership.epoch,
            incarnation: self.incarnation,
            on_segment: true,
            answer: self.voter.answer(self.me, self.now),
        }
    }

    /// Sends a message to all on the segment, and to the voters on the node network.
    pub(super) fn tell_all(&mut self, body: Body) {
        let to = self.voters_elsewhere();
        self.send(body, to);
    }

    /// Sends a message to all on the segment, and to one member on the node network.
    pub(super) fn tell_all_and(&mut self, node: NodeId, body: Body) {
        self.send(body, BTreeSet::from([node]));
    }

    fn send(&mut self, body: Body, node_network: BTreeSet<NodeId>) {
        self.seq = self.seq.saturating_add(1);
        let message = self.message(body);
        if self.speaks_on_segment() {
            self.transmits.push_back(Transmit {
                message: message.clone(),
                to: Destination::Segment,
            });
        }
        if !node_network.is_empty() {
            self.transmits.push_back(Transmit {
                message,
                to: Destination::NodeNetwork(node_network.into_iter().collect()),
            });
        }
    }

    pub(super) fn message(&self, body: Body) -> Message {
        Message {
            from: self.me,
            incarnation: self.incarnation,
            epoch: self.membership.epoch,
            seq: self.seq,
            generation: self.voter_sets.current.generation,
            body,
        }
    }

    /// Whether it has an interface that it can send on.
    pub(super) fn speaks_on_segment(&self) -> bool {
        self.local.link_up && self.is_on_segment()
    }

    /// Whether it is more than a witness.
    fn is_on_segment(&self) -> bool {
        let Contact { mac, .. } = &self.local.contact;
        mac.is_some()
    }

    fn voters_elsewhere(&self) -> BTreeSet<NodeId> {
        let mut voters = self.voter_sets.current.voters.clone();
        voters.remove(&self.me);
        voters
    }

    fn everybody_elsewhere(&self) -> BTreeSet<NodeId> {
        let known = self.view.iter().flat_map(|view| view.known.keys());
        let mut all: BTreeSet<NodeId> = self.peers.keys().chain(known).copied().collect();
        all.extend(self.voters_elsewhere());
        all.remove(&self.me);
        all
    }
}
