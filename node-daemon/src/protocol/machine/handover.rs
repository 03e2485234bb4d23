//! Hand-over: a key moves while its holder lives, without a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::node_network::Targets;
use super::peers::Released;
use super::placement;
use crate::protocol::decision::{AnnounceMode, Cause, ConnectionEvent, Decision, Transition};
use crate::protocol::message::{Body, Key, NodeId};
use crate::protocol::time::Moment;
use crate::protocol::view::{Group, Wanted};
use crate::protocol::weight::Weight;

/// Keys of one hand-over.
const KEYS: usize = 128;
/// It is repeated that often until it is answered (rule M).
const REPEAT: Duration = Duration::from_millis(5);
const REPEATS: u32 = 60;
/// And that often where two kernels may have to be told before: for a second.
const REPEATS_KEEPING: u32 = 200;
/// Whoever did not answer is left out for so long.
const SHUNNED: Duration = Duration::from_secs(1);
/// And whoever does not take all: it may soon be able to.
const DECLINED: Duration = Duration::from_millis(200);
/// A service proxy that does not work for longer costs the node its keys.
const UNFIT: Duration = Duration::from_secs(3);
/// A daemon that ends waits no longer for others to take what it holds.
const ENDING: Duration = Duration::from_secs(2);
/// And no longer for the voters to hear that it holds nothing any more.
const LAST_STATEMENT_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a member that is to take a key expects it.
const EXPECTED: Duration = Duration::from_secs(2);
/// Loads are compared that often.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// A key that is not spoken for as its neighbours are told is burst for no more often.
const BURST_AGAIN: Duration = Duration::from_secs(1);

/// Keys that are being handed over.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct HandOver {
    nonce: u32,
    target: NodeId,
    keys: Vec<Key>,
    loud: bool,
    cause: Cause,
    next: Moment,
    repeats: u32,
}

/// A key that another is about to hand over.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Expected {
    from: NodeId,
    loud: bool,
    until: Moment,
}

/// Hand-overs in both directions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct HandOvers {
    under_way: Vec<HandOver>,
    expected: BTreeMap<Key, Expected>,
    shunned: BTreeMap<NodeId, Moment>,
    nonce: u32,
    pub(super) unfit_since: Option<Moment>,
    pub(super) ending_since: Option<Moment>,
    /// When the last key was let go by a daemon that ends.
    emptied_at: Option<Moment>,
    pub(super) imbalanced_since: Option<Moment>,
    /// Since when members have been there that are preferred to this one.
    #[serde(default)]
    pub(super) preferred_since: BTreeMap<NodeId, Moment>,
    /// When to compare loads next.
    pub(super) look_at: Moment,
    burst_at: BTreeMap<Key, Moment>,
    plan_due: Option<Moment>,
    pub(super) replan: bool,
    pub(super) due: Moment,
}

impl HandOvers {
    /// Gives up what is under way.
    pub(super) fn abandon(&mut self) {
        self.under_way.clear();
        self.replan = true;
    }

    pub(super) fn concerns(&self, key: Key) -> bool {
        self.under_way
            .iter()
            .any(|hand_over| hand_over.keys.contains(&key))
    }

    /// The keys of a hand-over that is under way.
    pub(super) fn keys_of(&self, target: NodeId, nonce: u32) -> &[Key] {
        let mut under_way = self.under_way.iter();
        let hand_over = under_way.find(|it| it.nonce == nonce && it.target == target);
        hand_over.map_or(&[], |hand_over| &hand_over.keys)
    }

    fn reschedule(&mut self) {
        let repeats = self.under_way.iter().map(|hand_over| hand_over.next);
        self.due = repeats.chain(self.plan_due).min().unwrap_or(Moment::NEVER);
    }
}

/// Why and where a key is to move.
struct Move {
    target: NodeId,
    loud: bool,
    cause: Cause,
}

impl Machine {
    /// Whether all was handed over that could be, after [`super::Local::ending`].
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let told = self.is_known_to_voters() && !self.held_keys.dirty
            || self
                .handovers
                .emptied_at
                .is_some_and(|at| at + LAST_STATEMENT_TIMEOUT <= self.now);
        self.local.ending && self.held_keys.keys.is_empty() && told
    }

    /// Begins the hand-overs that are called for.
    pub(super) fn plan_handovers(&mut self) {
        self.handovers.replan = false;
        let now = self.now;
        self.handovers.plan_due = None;
        self.handovers.shunned.retain(|_, until| now < *until);
        self.handovers
            .expected
            .retain(|_, expected| now < expected.until);
        if self.held_keys.keys.is_empty() {
            if self.local.ending && self.handovers.emptied_at.is_none() {
                self.handovers.emptied_at = Some(now);
            }
            if self.local.ending {
                self.wake_handovers(LAST_STATEMENT_TIMEOUT);
            }
            self.handovers.imbalanced_since = None;
            self.handovers.preferred_since.clear();
            self.handovers.reschedule();
            return;
        }
        let all: Vec<(NodeId, Weight)> = self
            .eligible_others()
            .filter(|(node, _)| !self.handovers.shunned.contains_key(node))
            .collect();
        let targets = Targets::of(self, all);
        let evened = self.even_out(&targets.preferred);
        let anchors = self.anchors_of_leaving(&targets);
        let mut batches: BTreeMap<(NodeId, bool, Cause), Vec<Key>> = BTreeMap::new();
        let mut stuck = Vec::new();
        let speaking: Vec<Key> = self.speaking().collect();
        for key in speaking {
            if self.handovers.concerns(key) {
                continue;
            }
            match self.find_move(key, &targets, &anchors, evened) {
                Some(step) => batches
                    .entry((step.target, step.loud, step.cause))
                    .or_default()
                    .push(key),
                None => stuck.push(key),
            }
        }
        for ((target, loud, cause), keys) in batches {
            for keys in keys.chunks(KEYS) {
                self.hand_over(target, keys, loud, cause);
            }
        }
        if self.local.ending {
            self.end(&stuck);
        }
        let long_unfit = self.handovers.unfit_since.map(|since| since + UNFIT);
        let later = long_unfit.filter(|at| now < *at);
        if let Some(at) = later.iter().chain(self.handovers.shunned.values()).min() {
            self.wake_handovers(at.since(now));
        }
        self.handovers.reschedule();
    }

    /// Lets go of what nobody takes from a daemon that ends.
    fn end(&mut self, stuck: &[Key]) {
        let now = self.now;
        let late = self
            .handovers
            .ending_since
            .is_none_or(|since| since + ENDING <= now);
        // Whoever is left out for a moment may still answer.
        if !late && !self.handovers.shunned.is_empty() {
            return;
        }
        let mut keys: BTreeSet<Key> = stuck.iter().copied().collect();
        keys.extend(self.held_keys.unconfirmed.iter().copied());
        if late {
            keys.extend(self.held_keys.keys.keys().copied());
            self.handovers.under_way.clear();
        }
        for key in keys {
            self.release(key, None, Cause::Ended);
        }
        self.wake_handovers(LAST_STATEMENT_TIMEOUT);
    }

    /// Something was gained: loads are compared, also if nothing else happens.
    pub(super) fn weigh_soon(&mut self) {
        self.wake_handovers(LOOK);
        self.handovers.reschedule();
    }

    pub(super) fn wake_handovers(&mut self, after: Duration) {
        let at = self.now + after;
        let due = self.handovers.plan_due;
        self.handovers.plan_due = Some(due.map_or(at, |due| due.min(at)));
    }

    /// Whether a service proxy that does not work costs this node its keys by now.
    fn is_long_unfit(&self) -> bool {
        let since = self.handovers.unfit_since;
        since.is_some_and(|since| since + UNFIT <= self.now)
    }

    /// Whether this node is to have a key no more, if another can.
    fn must_leave(&self, wanted: &Wanted) -> bool {
        let all = self.local.draining || self.local.ending || self.is_long_unfit();
        all || !wanted.candidates.include(self.me)
    }

    /// Of the groups of what is to leave this node: who has something of them.
    fn anchors_of_leaving(&self, targets: &Targets) -> BTreeMap<Group, NodeId> {
        let leaving = self.speaking().filter_map(|key| {
            let wanted = self.view.as_ref()?.keys.get(&key)?;
            (targets.is_off || self.must_leave(wanted)).then_some(wanted.group)
        });
        let preferred = targets.preferred.iter().copied().collect();
        self.anchors(&leaving.collect(), &preferred)
    }

    /// Where a key should go, if anywhere.
    fn find_move(
        &self,
        key: Key,
        targets: &Targets,
        anchors: &BTreeMap<Group, NodeId>,
        evened: Option<(Group, NodeId)>,
    ) -> Option<Move> {
        let wanted = self.view.as_ref()?.keys.get(&key)?;
        let candidates = &wanted.candidates;
        let must_leave = self.must_leave(wanted);
        if must_leave || targets.is_off {
            let rivals = targets.among(candidates, must_leave);
            let anchor = anchors.get(&wanted.group).copied();
            let anchor = anchor.filter(|node| candidates.include(*node));
            // The node itself forwards on if only its daemon ends.
            let forwards_no_more = self.local.draining || self.is_long_unfit() || targets.is_off;
            return Some(Move {
                target: anchor.or_else(|| placement::best(wanted.group, rivals))?,
                loud: forwards_no_more || !candidates.include(self.me),
                cause: if self.local.ending {
                    Cause::Ended
                } else {
                    Cause::HandedOver
                },
            });
        }
        let others = &targets.preferred;
        if let Some(target) = self.quiet.give_back(key)
            && candidates.include(target)
            && others.iter().any(|(node, _)| *node == target)
        {
            return Some(Move {
                target,
                loud: false,
                cause: Cause::GivenBack,
            });
        }
        let (chosen, target) = evened?;
        (chosen == wanted.group && candidates.include(target)).then_some(Move {
            target,
            loud: true,
            cause: Cause::HandedOver,
        })
    }

    fn hand_over(&mut self, target: NodeId, keys: &[Key], loud: bool, cause: Cause) {
        self.note(Transition::HandOverBegun);
        self.handovers.nonce = self.handovers.nonce.wrapping_add(1);
        let hand_over = HandOver {
            nonce: self.handovers.nonce,
            target,
            keys: keys.to_vec(),
            loud,
            cause,
            next: self.now + REPEAT,
            repeats: 0,
        };
        self.offer(&hand_over);
        self.handovers.under_way.push(hand_over);
    }

    fn offer(&mut self, hand_over: &HandOver) {
        let body = Body::HandOver {
            nonce: hand_over.nonce,
            target: hand_over.target,
            keys: hand_over.keys.clone(),
            loud: hand_over.loud,
        };
        self.tell_all_and(hand_over.target, body);
    }

    /// Repeats offers, and looks for somebody else where nobody answers.
    pub(super) fn tick_handovers(&mut self) {
        let now = self.now;
        if now < self.handovers.due {
            return;
        }
        let mut under_way = std::mem::take(&mut self.handovers.under_way);
        let keeps = self.parameters.keep_connections;
        under_way.retain_mut(|hand_over| {
            if hand_over.next > now {
                return true;
            }
            let most = if hand_over.loud && keeps {
                REPEATS_KEEPING
            } else {
                REPEATS
            };
            if hand_over.repeats >= most {
                self.note(Transition::HandOverFailed);
                self.handovers
                    .shunned
                    .insert(hand_over.target, now + SHUNNED);
                self.handovers.replan = true;
                return false;
            }
            hand_over.repeats += 1;
            hand_over.next = now + REPEAT;
            self.offer(hand_over);
            true
        });
        self.handovers.under_way = under_way;
        self.handovers.reschedule();
    }

    /// Somebody offers keys.
    pub(super) fn hear_hand_over(&mut self, from: NodeId, nonce: u32, keys: &[Key], loud: bool) {
        if !self.may_hold() {
            return;
        }
        let until = self.now + EXPECTED;
        let mut ready = Vec::new();
        for key in keys {
            let can = self
                .view
                .as_ref()
                .and_then(|view| view.keys.get(key))
                .is_some_and(|wanted| wanted.may_go_to(self.me));
            if !can {
                continue;
            }
            ready.push(*key);
        }
        // What is not announced stays with the former speaker by itself.
        if loud && self.prepares(from, &ready) {
            return;
        }
        for key in &ready {
            if !self.held_keys.keys.contains_key(key) {
                let expected = Expected { from, loud, until };
                self.handovers.expected.insert(*key, expected);
            }
        }
        let keys = self.keeping.prepared_for(from, &ready);
        if loud && !keys.is_empty() {
            let to = from;
            self.tell_all_and(from, Body::Prepared { nonce, to, keys });
        }
        let body = Body::Ready {
            nonce,
            to: from,
            keys: ready,
        };
        self.tell_all_and(from, body);
    }

    /// Whoever was offered keys takes them: they are let go for it.
    pub(super) fn hear_ready(&mut self, from: NodeId, nonce: u32, keys: &[Key]) {
        let Some(index) = self
            .handovers
            .under_way
            .iter()
            .position(|hand_over| hand_over.nonce == nonce && hand_over.target == from)
        else {
            return;
        };
        if self.waits_to_hand_on(from, keys) {
            // The offer is repeated, and answered again.
            return;
        }
        let hand_over = self.handovers.under_way.swap_remove(index);
        let mut moved = 0;
        for key in &hand_over.keys {
            let holds = self
                .held_keys
                .keys
                .get(key)
                .is_some_and(|holding| holding.speaking);
            if keys.contains(key) && holds {
                self.decide(Decision::Connections(ConnectionEvent::HandedOn {
                    key: *key,
                    to: from,
                    is_announced: hand_over.loud,
                }));
                self.release(*key, Some(from), hand_over.cause);
                moved += 1;
            }
        }
        if moved < hand_over.keys.len() {
            self.handovers.shunned.insert(from, self.now + DECLINED);
        }
        self.note(if moved == 0 {
            Transition::HandOverFailed
        } else if hand_over.cause == Cause::GivenBack {
            Transition::GivenBack
        } else {
            Transition::HandOverDone
        });
        self.handovers.replan = true;
    }

    /// Takes what a node has let go for this one.
    pub(super) fn take_handed(&mut self, from: NodeId, released: &Released, gone: &BTreeSet<Key>) {
        for (key, target) in released {
            if *target != Some(self.me)
                || self.held_keys.keys.contains_key(key)
                || self.owners.contains_key(key)
            {
                continue;
            }
            let expected = self.handovers.expected.remove(key);
            if expected.is_none() && !gone.contains(key) {
                // It is repeated for a while, and the key may have moved on.
                continue;
            }
            let wanted = self
                .view
                .as_ref()
                .and_then(|view| view.keys.get(key))
                .is_some_and(|wanted| wanted.candidates.include(self.me));
            if !wanted || !self.may_hold() {
                continue;
            }
            let loud = expected.is_none_or(|expected| expected.loud || expected.from != from);
            let leaving = self
                .peers
                .get(&from)
                .is_some_and(|peer| peer.last.flags.draining);
            let cause = if loud || leaving {
                Cause::HandedOver
            } else {
                Cause::GivenBack
            };
            let mode = if loud {
                AnnounceMode::Unsolicited
            } else {
                AnnounceMode::OnRequest
            };
            self.keeping.was_taken(*key, from);
            self.gain(*key, cause, Some(from), mode);
            self.claims.was_taken(*key);
        }
    }

    /// Somebody spoke for these after its right to them had ended.
    pub(super) fn hear_late_speech(&mut self, keys: &[Key]) {
        let now = self.now;
        for key in keys {
            let speaks = self
                .held_keys
                .keys
                .get(key)
                .is_some_and(|holding| holding.speaking);
            let lately = self
                .handovers
                .burst_at
                .get(key)
                .is_some_and(|at| now < *at + BURST_AGAIN);
            if speaks && !lately {
                self.handovers.burst_at.insert(*key, now);
                self.decide(Decision::Burst { key: *key });
            }
        }
    }
}
