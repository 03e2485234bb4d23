//! What is done with messages, before the parts look at them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Machine;
use super::node_network::SAYS_SO;
use super::peers::{Peer, Released, Stated};
use super::speaking_lease::Exactness;
use crate::protocol::decision::{ConnectionEvent, Decision, Path, Transition};
use crate::protocol::message::{
    Answer, Body, Epoch, Heartbeat, Incarnation, Key, Message, NodeId, Owned, VoterSet,
};
use crate::protocol::time::Moment;
use crate::protocol::view::View;

/// What is to be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It counts.
    First,
    /// The same was heard on the other path.
    Copy,
    /// It does not count.
    Refused,
}

/// So much longer than a promise, and a node is taken for gone whatever others say.
const LONG_SILENCE: Duration = Duration::from_millis(100);
/// What no object and no set of voters speaks of is forgotten once it was not heard for so long.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// How often to look for that.
const FORGETS_EVERY: Duration = Duration::from_secs(60);

impl Machine {
    /// Whether a message counts: of the newest run of its sender, no replay, and the first of its
    /// copies. Copies and messages of other generations still show that their sender lives.
    pub(super) fn admit(&mut self, message: &Message, path: Path) -> Admission {
        let heartbeat = match &message.body {
            Body::Heartbeat(heartbeat) => Some(heartbeat),
            _ => None,
        };
        if let Some(heartbeat) = heartbeat
            && heartbeat.voters.generation > self.voter_sets.current.generation
            && (self.voter_sets.exists() || !self.has_voters_from_file())
        {
            // True whoever says it and however old it is: of one generation there is one set. Only where voters
            // come from files, one who has forgotten what it served needs more than one word.
            self.adopt(heartbeat.voters.clone());
        }
        if heartbeat.is_some() {
            self.note_run(message);
        }
        let must_name = self.rules().heartbeat_names_the_voter() && self.votes();
        let named = match heartbeat {
            Some(heartbeat) if must_name => heartbeat
                .incarnations
                .iter()
                .any(|(node, incarnation)| (*node, *incarnation) == (self.me, self.incarnation)),
            Some(_) => true,
            // Other messages count if a heartbeat of the same run has counted.
            None => false,
        };
        let vouched = match self.peers.get(&message.from) {
            Some(peer) if peer.incarnation == message.incarnation => Some(true),
            _ => self.vouch(message.from, message.incarnation),
        };
        let now = self.now;
        let is_off_until = self.new_run_is_off_until(message.from);
        let first = match self.peers.get_mut(&message.from) {
            Some(peer) if peer.incarnation == message.incarnation => {
                if heartbeat.is_some() && !named {
                    return Admission::Refused;
                }
                peer.mark(path, message.seq, now)
            }
            Some(peer) => {
                // Who is named by its heartbeats knows that they are no replays. Others go by what
                // the voters say, and else wait until the run that they know is silent.
                let former = peer.is_former(message.incarnation, message.seq);
                let replaced = must_name || vouched == Some(true) || peer.suspected;
                if !named || former || !replaced || (!must_name && vouched == Some(false)) {
                    None
                } else {
                    let ends = peer.last_heard() + self.parameters.promise;
                    peer.restart(message.incarnation, now);
                    peer.off_node_network_until = is_off_until;
                    let first = peer.mark(path, message.seq, now);
                    self.orphan(message.from, ends);
                    first
                }
            }
            None => {
                if !named {
                    return Admission::Refused;
                }
                let mut peer = Peer::new(message.incarnation, now);
                peer.off_node_network_until = is_off_until;
                let first = peer.mark(path, message.seq, now);
                self.peers.insert(message.from, peer);
                self.silence_check = self.silence_check.min(now + self.parameters.suspicion);
                first
            }
        };
        let Some(first) = first else {
            if heartbeat.is_some()
                && let Some(peer) = self.peers.get_mut(&message.from)
            {
                peer.note_stale(message.incarnation, now);
            }
            self.note(Transition::MessageDropped);
            return Admission::Refused;
        };
        self.heard_again(message.from);
        if first {
            Admission::First
        } else {
            Admission::Copy
        }
    }

    /// Whether the voters hear this run of a node: `None` if they say nothing about it.
    fn vouch(&self, node: NodeId, run: Incarnation) -> Option<bool> {
        self.voter_sets
            .current
            .voters
            .iter()
            .filter(|voter| **voter != node)
            .filter_map(|voter| self.peers.get(voter))
            .filter(|peer| !peer.suspected)
            .flat_map(|peer| peer.echoes(self.now))
            .filter(|echo| echo.node == node)
            .filter(|echo| !matches!(echo.answer, Answer::None | Answer::Stale))
            .map(|echo| echo.incarnation == run)
            .reduce(|one, other| one || other)
    }

    /// Remembers which run of a node is heard, so that it can be named. Two that have just started
    /// each wait to be named by the other. Another run than the one that counts is named only once
    /// that one is silent: it may be a replay.
    fn note_run(&mut self, message: &Message) {
        let named = match self.peers.get(&message.from) {
            Some(peer) if peer.is_former(message.incarnation, message.seq) => return,
            Some(peer) if peer.incarnation == message.incarnation || peer.suspected => {
                message.incarnation
            }
            Some(peer) => peer.incarnation,
            None => message.incarnation,
        };
        if self.runs.insert(message.from, named) != Some(named) {
            self.heartbeat_timer.hurry = true;
        }
    }

    /// Hands a message on to the part that it concerns.
    pub(super) fn dispatch(&mut self, message: &Message) {
        let stale = self
            .peers
            .get(&message.from)
            .is_some_and(|peer| message.epoch < peer.run_highest && message.epoch > Epoch(0));
        match &message.body {
            Body::Heartbeat(heartbeat) => self.hear_heartbeat(message, heartbeat, stale),
            _ if stale => self.note(Transition::MessageDropped),
            Body::Owned(owned) => self.hear_owned(message, owned),
            Body::Claim(claim) => self.hear_claim(message, claim),
            Body::Grant(grant) => self.hear_grant(message, grant),
            Body::HandOver {
                nonce,
                target,
                keys,
                loud,
            } => {
                if *target == self.me {
                    self.hear_hand_over(message.from, *nonce, keys, *loud);
                }
            }
            Body::Ready { nonce, to, keys } => {
                if *to == self.me {
                    self.hear_ready(message.from, *nonce, keys);
                }
            }
            Body::Prepared { nonce, to, keys } => {
                if *to == self.me {
                    self.hear_prepared(message.from, *nonce, keys);
                }
            }
            Body::SpokeLate { keys } => self.hear_late_speech(keys),
            Body::Connections { to, counts } => {
                if *to == self.me {
                    self.decide(Decision::Connections(ConnectionEvent::Counted {
                        from: message.from,
                        counts: counts.clone(),
                    }));
                }
            }
        }
    }

    fn hear_heartbeat(&mut self, message: &Message, heartbeat: &Arc<Heartbeat>, stale: bool) {
        let node = message.from;
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if message.seq <= peer.newest {
            self.hear_echoes(message, heartbeat);
            return;
        }
        let was_eligible = peer.is_eligible();
        let before = std::mem::replace(&mut peer.last, Arc::clone(heartbeat));
        if heartbeat.flags.node_network_down {
            let until = now + SAYS_SO;
            peer.off_node_network_until = peer.off_node_network_until.max(until);
        }
        let is_first = peer.newest == 0;
        peer.newest = message.seq;
        peer.generation = message.generation;
        if !stale {
            peer.run_epoch = message.epoch;
            peer.run_highest = peer.run_highest.max(message.epoch);
            peer.epoch = peer.epoch.max(message.epoch);
        } else {
            peer.run_epoch = Epoch(0);
        }
        let mut let_go = None;
        if message.epoch == Epoch(0) && peer.stated.revision < message.seq {
            // Without an epoch it holds nothing. Otherwise its statement tells for whom it let go.
            let keys = std::mem::take(&mut peer.stated.keys);
            peer.stated = Stated {
                revision: message.seq,
                ..Stated::default()
            };
            let_go = (!keys.is_empty()).then_some(keys);
        }
        if peer.is_known() {
            peer.unknown_since = None;
            peer.stated.revision = peer.stated.revision.max(message.seq);
        } else if peer.unknown_since.is_none() {
            peer.unknown_since = Some(now);
        }
        let is_eligible = peer.is_eligible();
        let suspects_changed = before.suspects != heartbeat.suspects;
        if is_first || is_eligible != was_eligible || before.flags != heartbeat.flags {
            self.claims.change_candidates();
            self.handovers.replan = true;
        }
        if is_first {
            self.heartbeat_timer.hurry = true;
        }
        if let Some(keys) = let_go {
            self.disown(
                node,
                &keys,
                &Vec::new(),
                heartbeat.flags.released,
                message.seq,
            );
        }
        if suspects_changed {
            self.count_suspicions();
        }
        self.hear_echoes(message, heartbeat);
        if !stale {
            self.vote_on_heartbeat(node);
        }
    }

    /// Takes in the copy of a message. That of a heartbeat may bear other echoes.
    pub(super) fn hear_copy(&mut self, message: &Message) {
        if let Body::Heartbeat(heartbeat) = &message.body {
            self.hear_echoes(message, heartbeat);
        }
    }

    /// Takes in what the sender says about this node and others. Several heartbeats that left at once,
    /// each with some of the echoes, need not come in the order in which they left: of what is said of
    /// a node the latest counts.
    ///
    /// That a voter accepts an own heartbeat counts however late it is heard, as long as that heartbeat
    /// does: the voter has made its promise, and never takes one back.
    fn hear_echoes(&mut self, message: &Message, heartbeat: &Heartbeat) {
        let voter = message.from;
        let mut is_latest = false;
        if let Some(peer) = self.peers.get_mut(&voter) {
            is_latest = peer.has_said_nothing_since(self.me, message.seq, self.now);
            peer.note_echoes(message.seq, heartbeat, self.now);
        }
        let Some(echo) = heartbeat.echoes.iter().find(|echo| echo.node == self.me) else {
            return;
        };
        if echo.answer == Answer::Stale && echo.incarnation == self.incarnation {
            self.membership.note_refused_by(voter, self.now);
        }
        let same_generation = self.serves_same_generation(message.generation);
        if is_latest && same_generation && self.voter_sets.has_voter(voter) {
            self.link_monitor
                .note_heard_by(voter, echo.on_segment, self.now);
            self.note_report(voter, echo);
        }
        let counts = is_latest || matches!(echo.answer, Answer::Accepted { .. });
        if counts && echo.incarnation == self.incarnation {
            self.note_answer(voter, echo.answer, same_generation);
        }
    }

    /// How exactly echoes must fit.
    pub(super) fn exactness(&self) -> Exactness {
        let rules = self.rules();
        Exactness {
            sequence: rules.echo_is_exact(),
            digest: rules.echo_names_the_set(),
            generation: rules
                .one_generation_at_a_time()
                .then_some(self.voter_sets.current.generation),
        }
    }

    fn hear_owned(&mut self, message: &Message, owned: &Owned) {
        let node = message.from;
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let Some((old, released, lapsed)) = peer.assemble(owned) else {
            return;
        };
        if peer.is_known() {
            peer.unknown_since = None;
        }
        let gone: BTreeSet<Key> = old.keys.difference(&peer.stated.keys).copied().collect();
        if !gone.is_empty() {
            peer.let_go = owned.revision;
        }
        let new: Vec<Key> = peer.stated.keys.difference(&old.keys).copied().collect();
        self.disown(node, &gone, &released, lapsed, owned.revision);
        for key in new {
            self.own(node, key);
        }
        self.vote_on_set(node, &released, lapsed);
        self.take_handed(node, &released, &gone);
        self.claims.replan = true;
        self.handovers.replan = true;
    }

    /// Notes that a node holds a key.
    pub(super) fn own(&mut self, node: NodeId, key: Key) {
        if let Some(former) = self.owners.insert(key, node)
            && former != node
        {
            self.quiet.has_spoken(key, former);
        }
        if self.held_keys.keys.contains_key(&key) {
            self.quiet.has_spoken(key, node);
        }
        // Whoever takes it next takes it over from that node: the neighbours may have been told.
        self.membership.lost.remove(&key);
        self.survivors.was_taken(key);
        self.probing.was_taken(key, self.now);
        self.claims.was_taken(key);
    }

    /// Notes that a node holds these no more.
    pub(super) fn disown(
        &mut self,
        node: NodeId,
        keys: &BTreeSet<Key>,
        released: &Released,
        lapsed: bool,
        seq: u64,
    ) {
        let Some(incarnation) = self.peers.get(&node).map(|peer| peer.incarnation) else {
            return;
        };
        for key in keys {
            self.quiet.has_spoken(*key, node);
            if self.owners.get(key) != Some(&node) {
                continue;
            }
            // Whose set is refused may have stated it for a moment.
            let other = self
                .peers
                .iter()
                .find(|(other, peer)| {
                    **other != node && !peer.gone && peer.stated.keys.contains(key)
                })
                .map(|(other, _)| *other);
            match other {
                Some(other) => {
                    self.owners.insert(*key, other);
                }
                None => {
                    self.owners.remove(key);
                }
            }
            let target = released
                .iter()
                .find(|(released, _)| released == key)
                .and_then(|(_, target)| *target);
            self.claims
                .was_released(*key, (node, incarnation, seq), target, lapsed, self.now);
        }
        self.claims.replan = true;
    }

    /// Somebody is heard who may have been silent.
    fn heard_again(&mut self, node: NodeId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        if !peer.suspected {
            return;
        }
        peer.suspected = false;
        peer.steady_since = now;
        let was_gone = std::mem::take(&mut peer.gone);
        if was_gone {
            let keys: Vec<Key> = peer.stated.keys.iter().copied().collect();
            for key in keys {
                self.owners.entry(key).or_insert(node);
            }
        }
        self.quiet.is_back(node, now);
        self.silence_check = self.silence_check.min(now + self.parameters.suspicion);
        self.claims.change_candidates();
        self.handovers.replan = true;
    }

    /// Looks who has been silent for too long.
    pub(super) fn check_silence(&mut self) {
        let now = self.now;
        let suspicion = self.parameters.suspicion;
        let long = self.parameters.promise + LONG_SILENCE;
        let mut next = Moment::NEVER;
        let mut silent = Vec::new();
        self.forget_long_gone();
        for (node, peer) in &mut self.peers {
            if peer.suspected {
                let due = peer.last_heard() + long;
                if !peer.gone && due > now {
                    next = next.min(due);
                } else if peer.gone {
                    next = next.min(now + FORGETS_EVERY);
                }
                continue;
            }
            let due = peer.last_heard() + suspicion;
            if due <= now {
                peer.suspected = true;
                silent.push(*node);
                let due = peer.last_heard() + long;
                if due > now {
                    next = next.min(due);
                }
            } else {
                next = next.min(due);
            }
        }
        self.silence_check = next;
        if silent.is_empty() {
            self.count_suspicions();
            return;
        }
        for node in silent {
            self.note(Transition::Suspected(node));
            self.suspect(node);
        }
        self.heartbeat_timer.hurry = true;
        self.claims.change_candidates();
        self.handovers.replan = true;
        self.count_suspicions();
    }

    /// Forgets those that were not heard for long, and of which nothing speaks any more: a segment may see many Nodes
    /// come and go.
    fn forget_long_gone(&mut self) {
        let now = self.now;
        let known = |node: &NodeId| {
            let is_in_view = |view: &View| view.known.contains_key(node);
            let votes = &self.voter_sets.current.voters;
            self.view.as_ref().is_none_or(is_in_view) || votes.contains(node)
        };
        let forgotten: Vec<NodeId> = self
            .peers
            .iter()
            .filter(|(node, peer)| peer.gone && !known(node))
            .filter(|(_, peer)| peer.last_heard() + FORGOTTEN <= now)
            .map(|(node, _)| *node)
            .collect();
        for node in forgotten {
            self.peers.remove(&node);
            self.runs.remove(&node);
        }
    }

    /// Counts who is suspected here and by most voters: only those are gone.
    pub(super) fn count_suspicions(&mut self) {
        let VoterSet { voters, .. } = &self.voter_sets.current;
        let majority = self.voter_sets.current.majority();
        let mut gone = Vec::new();
        for (node, peer) in &self.peers {
            if !peer.suspected || peer.gone {
                continue;
            }
            let accusers = voters
                .iter()
                .filter(|voter| {
                    **voter == self.me
                        || self.peers.get(voter).is_some_and(|other| {
                            !other.suspected && other.last.suspects.contains(node)
                        })
                })
                .count();
            let others = voters.iter().filter(|voter| *voter != node).count();
            // Whom it has not heard for longer than any promise lasts, it need not ask about: if
            // others hear that node, they refuse.
            let long = peer.last_heard() + self.parameters.promise + LONG_SILENCE <= self.now;
            if accusers >= majority.min(others).max(1) || long {
                gone.push(*node);
            }
        }
        for node in gone {
            if let Some(peer) = self.peers.get_mut(&node) {
                peer.gone = true;
                let ends = peer.last_heard() + self.parameters.promise;
                self.orphan(node, ends);
            }
        }
    }

    /// Nobody speaks any more for what a node held. The promises to it end then.
    fn orphan(&mut self, node: NodeId, ends: Moment) {
        let quiet = &mut self.quiet;
        let claims = &mut self.claims;
        self.owners.retain(|key, owner| {
            if *owner == node {
                quiet.has_spoken(*key, node);
                claims.was_orphaned(*key, ends);
            }
            *owner != node
        });
        self.claims.replan = true;
        self.handovers.replan = true;
    }
}
