//! The member as a voter: what it does with heartbeats, sets and claims of others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::peers::{Released, Stated};
use super::placement;
use super::voter::{Run, Statement, Verdict};
use crate::protocol::decision::Transition;
use crate::protocol::message::{Body, Claim, Epoch, Grant, Incarnation, Key, Message, NodeId};
use crate::protocol::time::Moment;

/// A claim is kept until a promise ends if the holder has not been heard for so many heartbeats
/// (halves): a majority suspects it, and this voter may only have been the last to hear it.
const DOUBTFUL_HALVES: u32 = 3;

/// A claim that waits for promises to end.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pending {
    claimant: NodeId,
    incarnation: Incarnation,
    nonce: u32,
    /// Each with when its holder's promise ends.
    keys: BTreeMap<Key, Moment>,
}

/// Claims that wait for promises to end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WaitingClaims {
    pending: Vec<Pending>,
    awake_noted: bool,
    pub(super) due: Moment,
}

impl WaitingClaims {
    pub(super) const fn new(awake_at: Moment) -> Self {
        Self {
            pending: Vec::new(),
            awake_noted: false,
            due: awake_at,
        }
    }
}

impl Machine {
    /// Whether this node is a voter of the generation that it serves.
    pub(super) fn votes(&self) -> bool {
        self.voter_sets.has_voter(self.me)
    }

    /// Whether it may echo and grant by now (rule B).
    pub(super) fn is_awake(&self) -> bool {
        self.votes() && self.now >= self.voter.awake_at
    }

    /// Notes the end of rule B's wait.
    pub(super) fn note_waking(&mut self) {
        if !self.waiting.awake_noted && self.now >= self.voter.awake_at {
            self.waiting.awake_noted = true;
            self.waiting.due = self.waiting.due.max(self.now);
            if self.votes() {
                self.note(Transition::VoterAwake);
                self.heartbeat_timer.hurry = true;
            }
            self.reschedule_waiting();
        }
    }

    pub(super) fn serves_same_generation(&self, generation: u64) -> bool {
        generation == self.voter_sets.current.generation || !self.rules().one_generation_at_a_time()
    }

    /// Votes on the newest heartbeat of a node, once more if its set has become known since.
    pub(super) fn vote_on_heartbeat(&mut self, node: NodeId) {
        if !self.is_awake() {
            return;
        }
        let Some(peer) = self.peers.get(&node) else {
            return;
        };
        if !self.serves_same_generation(peer.generation) || peer.newest == 0 {
            return;
        }
        let run = Run {
            node,
            incarnation: peer.incarnation,
            epoch: peer.run_epoch,
        };
        let none = Vec::new();
        let stated = peer.is_known().then(|| Statement {
            revision: peer.newest,
            keys: &peer.stated.keys,
            released: &none,
            lapsed: peer.last.flags.released,
        });
        let changed = self
            .voter
            .hear(run, peer.newest, peer.last.digest, stated, self.now);
        if stated.is_none() {
            self.learn_from_vote(node);
        }
        if changed {
            // Somebody waits for this.
            self.heartbeat_timer.hurry = true;
            if self.voter.refuses(node) {
                self.note(Transition::Refused);
            }
        }
    }

    /// Notes what a node holds if its statement was missed, but the voter knows: it has let go only
    /// what others have taken meanwhile.
    fn learn_from_vote(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else {
            return;
        };
        let Some(keys) = self.voter.accepted_set(node, peer.last.digest) else {
            return;
        };
        let revision = peer.newest;
        let stated = Stated {
            revision,
            digest: peer.last.digest,
            keys: keys.clone(),
        };
        let old = std::mem::replace(&mut peer.stated, stated);
        peer.unknown_since = None;
        let gone = old.keys.difference(&peer.stated.keys).copied().collect();
        let new: Vec<Key> = peer.stated.keys.difference(&old.keys).copied().collect();
        self.disown(node, &gone, &Vec::new(), false, revision);
        for key in new {
            self.own(node, key);
        }
    }

    /// Votes on a set that a node has stated.
    pub(super) fn vote_on_set(&mut self, node: NodeId, released: &Released, lapsed: bool) {
        if !self.is_awake() {
            return;
        }
        let Some(peer) = self.peers.get(&node) else {
            return;
        };
        if !self.serves_same_generation(peer.generation) || peer.newest == 0 {
            return;
        }
        let run = Run {
            node,
            incarnation: peer.incarnation,
            epoch: peer.run_epoch,
        };
        let statement = Statement {
            revision: peer.stated.revision,
            keys: &peer.stated.keys,
            released,
            lapsed,
        };
        let freed = self.voter.accept(run, statement, self.now);
        if peer.is_known() {
            self.vote_on_heartbeat(node);
        }
        if freed {
            self.after_release();
        }
    }

    /// States the own set to the own voter.
    pub(super) fn vote_on_own_set(&mut self, revision: u64) {
        if !self.is_awake() {
            return;
        }
        let keys = self.held();
        let released: Released = self
            .held_keys
            .released
            .iter()
            .map(|(key, target, _)| (*key, *target))
            .collect();
        let statement = Statement {
            revision,
            keys: &keys,
            released: &released,
            lapsed: self.held_keys.lapsed,
        };
        let run = self.own_run();
        if self.voter.accept(run, statement, self.now) {
            self.after_release();
        }
    }

    fn own_run(&self) -> Run {
        Run {
            node: self.me,
            incarnation: self.incarnation,
            epoch: self.membership.epoch,
        }
    }

    /// Votes on a heartbeat of its own.
    pub(super) fn vote_on_own_heartbeat(&mut self, seq: u64) {
        if !self.is_awake() {
            return;
        }
        let run = self.own_run();
        let keys = self.held();
        let none = Vec::new();
        let statement = Statement {
            revision: seq,
            keys: &keys,
            released: &none,
            lapsed: self.held_keys.lapsed,
        };
        self.voter
            .hear(run, seq, self.held_keys.digest, Some(statement), self.now);
        let echo = self.echo_of_self();
        self.note_report(self.me, &echo);
        self.note_answer(self.me, echo.answer, true);
    }

    /// Something was let go: what was held back because of it may go on.
    fn after_release(&mut self) {
        for node in self.voter.refused() {
            if node != self.me {
                self.vote_on_heartbeat(node);
            }
        }
        if !self.waiting.pending.is_empty() {
            self.waiting.due = self.now;
            self.tick_waiting();
        }
    }

    /// Answers a claim.
    pub(super) fn hear_claim(&mut self, message: &Message, claim: &Claim) {
        let Some(peer) = self.peers.get_mut(&message.from) else {
            return;
        };
        if message.epoch == Epoch(0) || !peer.mark_claim(claim.nonce, message.seq) {
            return;
        }
        self.give_way(message.from, &claim.keys);
        // Who gives a claim up may do so because it serves another generation by now.
        let counts = self.serves_same_generation(message.generation) || claim.keys.is_empty();
        if !self.is_awake() || !counts {
            return;
        }
        if let Some(grant) = self.judge_claim(message.from, message.incarnation, claim) {
            self.tell_all_and(message.from, Body::Grant(grant));
        }
    }

    /// Judges a claim; what has to wait is kept.
    pub(super) fn judge_claim(
        &mut self,
        claimant: NodeId,
        incarnation: Incarnation,
        claim: &Claim,
    ) -> Option<Grant> {
        self.waiting
            .pending
            .retain(|pending| pending.claimant != claimant || pending.nonce != claim.nonce);
        // A claim that is repeated with fewer keys leaves the others to whoever wants them.
        self.voter.narrow(claimant, claim.nonce, &claim.keys);
        if claim.keys.is_empty() {
            return None;
        }
        if let Some(release) = claim.released_by {
            self.voter.relay_release(&claim.keys, release);
        }
        let mut grant = Grant {
            to: claimant,
            incarnation,
            nonce: claim.nonce,
            granted: Vec::new(),
            refused: Vec::new(),
        };
        let mut keys = BTreeMap::new();
        for key in &claim.keys {
            if self.survivors.doubt(*key) {
                grant.refused.push((*key, self.me));
                continue;
            }
            match self.voter.judge(*key, claimant, self.now) {
                Verdict::Preferred(holder, _) if self.would_take_back(*key, holder) => {
                    grant.refused.push((*key, holder));
                }
                Verdict::Held(holder, until) if self.is_doubtful(holder) => {
                    keys.insert(*key, until);
                }
                Verdict::Held(holder, _) => grant.refused.push((*key, holder)),
                Verdict::Reserved(holder) if !self.suits_better(*key, claimant, holder) => {
                    grant.refused.push((*key, holder));
                }
                Verdict::Reserved(_) | Verdict::Free | Verdict::Preferred(..) => {
                    self.voter.grant(*key, claimant, claim.nonce, self.now);
                    grant.granted.push(*key);
                }
            }
        }
        if !grant.granted.is_empty() {
            self.note(Transition::Granted);
        }
        if !grant.refused.is_empty() {
            self.note(Transition::Refused);
        }
        if !keys.is_empty() {
            self.waiting.pending.push(Pending {
                claimant,
                incarnation,
                nonce: claim.nonce,
                keys,
            });
            self.reschedule_waiting();
        }
        Some(grant)
    }

    /// Whether the last holder of a key, whose right ran out, is about to take it again (rule J).
    pub(super) fn would_take_back(&self, key: Key, holder: NodeId) -> bool {
        let view = self.view.as_ref();
        let wanted = view.and_then(|view| view.keys.get(&key));
        if wanted.is_some_and(|wanted| !wanted.candidates.include(holder)) {
            return false;
        }
        if holder == self.me {
            return self.hears_quorum() && self.may_hold();
        }
        self.peers.get(&holder).is_some_and(|peer| {
            let flags = peer.last.flags;
            !peer.suspected
                && flags.hears_quorum
                && !(flags.draining || flags.vlan_down || flags.unfit)
        })
    }

    /// Whether a holder has not been heard for a while.
    fn is_doubtful(&self, holder: NodeId) -> bool {
        let doubt = self.parameters.heartbeat * DOUBTFUL_HALVES / 2;
        holder != self.me
            && self
                .peers
                .get(&holder)
                .is_none_or(|peer| peer.last_heard() + doubt <= self.now)
    }

    /// Of two that claim the same key, all voters decide for the same one, if they agree on its group.
    /// If not, it may go to neither, and both try again.
    pub(super) fn suits_better(&self, key: Key, node: NodeId, other: NodeId) -> bool {
        let weight = |node: NodeId| {
            if node == self.me {
                self.local.weight
            } else {
                let peer = self.peers.get(&node);
                peer.map(|peer| peer.last.weight).unwrap_or_default()
            }
        };
        placement::suits_better(
            self.group_of(key),
            (node, weight(node)),
            (other, weight(other)),
        )
    }

    fn reschedule_waiting(&mut self) {
        let ends = self
            .waiting
            .pending
            .iter()
            .flat_map(|pending| pending.keys.values().copied());
        let waking = (!self.waiting.awake_noted).then_some(self.voter.awake_at);
        self.waiting.due = ends.chain(waking).min().unwrap_or(Moment::NEVER);
    }

    /// Answers claims whose promises have ended.
    pub(super) fn tick_waiting(&mut self) {
        if self.now < self.waiting.due {
            return;
        }
        self.note_waking();
        let pending = std::mem::take(&mut self.waiting.pending);
        for claim in pending {
            let again = Claim {
                nonce: claim.nonce,
                keys: claim.keys.keys().copied().collect(),
                released_by: None,
            };
            let Some(grant) = self.judge_claim(claim.claimant, claim.incarnation, &again) else {
                continue;
            };
            if grant.granted.is_empty() && grant.refused.is_empty() {
                continue;
            }
            if claim.claimant == self.me {
                self.note_grant(self.me, &grant);
            } else {
                self.tell_all_and(claim.claimant, Body::Grant(grant));
            }
        }
        self.reschedule_waiting();
        self.voter.tidy(self.now);
    }
}
