//! Claims: what nobody holds is taken by whom it suits best.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::decision::{Cause, Transition, Voice};
use super::super::message::{Body, Claim, Grant, Incarnation, Key, Message, NodeId};
use super::super::time::Moment;
use super::Machine;
use super::placement;

/// Keys of one claim.
const KEYS: usize = 128;
/// Views differ for a moment: the second best waits that long, the third twice as long.
const RANK_DELAY: Duration = Duration::from_millis(100);
/// Nobody waits longer than so many ranks.
const RANKS: usize = 5;
/// A claim is repeated that often while voters that live have not answered.
const REPEAT: Duration = Duration::from_millis(5);
const REPEATS: u32 = 60;
/// And that often while all have answered, but some wait for a promise to end: the answer that they
/// give then may be lost.
const REMIND: Duration = Duration::from_millis(50);
/// A claim that has not been decided by then is given up.
const PATIENCE: Duration = Duration::from_millis(700);
/// A key that could not be had is tried again after that time, and a random part of the second.
const RETRY: Duration = Duration::from_millis(100);
const RETRY_SPREAD: Duration = Duration::from_millis(50);
/// And no longer than so many times the first.
const RETRIES: u32 = 4;
/// Who has started within that time is waited for like the others.
const STARTING: Duration = Duration::from_secs(3);
/// How long a set that is not known yet is waited for before free keys are claimed.
const UNKNOWN_SET: Duration = Duration::from_millis(300);
/// How long the last holder of a lapsed key is given (rule J). Less than a second, so that another
/// still has the time to take it within one.
pub(super) const PREFERENCE: Duration = Duration::from_millis(700);

/// A key that nobody holds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Free {
    since: Moment,
    rank: u32,
    version: u64,
}

/// Who let a key go.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Release {
    by: (NodeId, Incarnation, u64),
    target: Option<NodeId>,
    lapsed: bool,
    at: Moment,
}

/// A claim on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Attempt {
    nonce: u32,
    /// Each with the voters that have granted and refused it.
    keys: BTreeMap<Key, (BTreeSet<NodeId>, BTreeSet<NodeId>)>,
    /// What was claimed, but for what is lost.
    wanted: BTreeSet<Key>,
    answered: BTreeSet<NodeId>,
    released_by: Option<(NodeId, Incarnation, u64)>,
    begun: Moment,
    next: Moment,
    repeats: u32,
    /// It is repeated no more: whoever has not answered by now cannot.
    over: bool,
}

impl Attempt {
    fn message(&self) -> Claim {
        Claim {
            nonce: self.nonce,
            keys: self.wanted.iter().copied().collect(),
            released_by: self.released_by,
        }
    }

    /// Whether all of these have granted or refused all that is claimed.
    fn is_decided_by(&self, voters: &BTreeSet<NodeId>) -> bool {
        self.keys.values().all(|(granted, refused)| {
            let mut voters = voters.iter();
            voters.all(|voter| granted.contains(voter) || refused.contains(voter))
        })
    }
}

/// Free keys, and claims on their way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Claims {
    free: BTreeMap<Key, Free>,
    releases: BTreeMap<Key, Release>,
    /// Whose holder is gone: when its promises end.
    orphans: BTreeMap<Key, Moment>,
    /// When to try again what could not be had, and how often that was.
    retry: BTreeMap<Key, (Moment, u32)>,
    attempts: Vec<Attempt>,
    nonce: u32,
    /// Counts changes among the candidates: ranks are computed anew for each.
    version: u64,
    plan_due: Option<Moment>,
    pub(super) replan: bool,
    pub(super) due: Moment,
}

impl Claims {
    /// Other members can hold keys than before.
    pub(super) const fn change_candidates(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.replan = true;
    }

    /// Somebody holds the key now.
    pub(super) fn was_taken(&mut self, key: Key) {
        self.releases.remove(&key);
        self.free.remove(&key);
        self.retry.remove(&key);
        self.orphans.remove(&key);
    }

    /// The holder of the key is gone, and the promises to it end then.
    pub(super) fn was_orphaned(&mut self, key: Key, ends: Moment) {
        self.orphans.insert(key, ends);
    }

    /// Somebody has let the key go.
    pub(super) fn was_released(
        &mut self,
        key: Key,
        by: (NodeId, Incarnation, u64),
        target: Option<NodeId>,
        lapsed: bool,
        at: Moment,
    ) {
        let release = Release {
            by,
            target,
            lapsed,
            at,
        };
        self.releases.insert(key, release);
        self.free.remove(&key);
        self.orphans.remove(&key);
    }

    fn is_claimed(&self, key: Key) -> bool {
        self.attempts
            .iter()
            .any(|attempt| attempt.keys.contains_key(&key))
    }

    /// The number and the keys of the first claim on its way.
    #[cfg(test)]
    pub(super) fn first(&self) -> Option<(u32, Vec<Key>)> {
        let attempt = self.attempts.first()?;
        Some((attempt.nonce, attempt.wanted.iter().copied().collect()))
    }

    fn reschedule(&mut self) {
        let repeats = self.attempts.iter().map(|attempt| attempt.next);
        self.due = repeats.chain(self.plan_due).min().unwrap_or(Moment::NEVER);
    }
}

impl Machine {
    /// Whether this member can take keys.
    pub(super) fn may_hold(&self) -> bool {
        let flags = self.flags();
        self.speaks_on_segment()
            && self.registry.exists()
            && !(flags.starting
                || flags.released
                || flags.draining
                || flags.vlan_down
                || flags.unfit)
    }

    /// Gives up all claims on their way, and tells the voters: what they have reserved, or would
    /// once a promise ends, is for others.
    pub(super) fn abandon_claims(&mut self) {
        self.claims.replan = true;
        for attempt in std::mem::take(&mut self.claims.attempts) {
            let withdrawal = Claim {
                nonce: attempt.nonce,
                keys: Vec::new(),
                released_by: None,
            };
            self.put_to_voters(&withdrawal);
        }
    }

    /// The others that could hold keys, with their weights.
    pub(super) fn eligible_others(&self) -> impl Iterator<Item = (NodeId, u16)> + '_ {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.is_eligible())
            .map(|(node, peer)| (*node, peer.last.weight))
    }

    /// Those that have just started, and are about to be able to: without them whoever joins first
    /// would take everything.
    fn starting_others(&self) -> impl Iterator<Item = (NodeId, u16)> + '_ {
        let lately = self.now - STARTING;
        self.peers
            .iter()
            .filter(move |(_, peer)| {
                let flags = peer.last.flags;
                let hindered = flags.released || flags.draining || flags.vlan_down || flags.unfit;
                flags.starting
                    && !hindered
                    && !peer.suspected
                    && peer.last.contact.mac.is_some()
                    && peer.steady_since >= lately
            })
            .map(|(node, peer)| (*node, peer.last.weight))
    }

    /// Claims what nobody holds and suits this member best.
    pub(super) fn plan_claims(&mut self) {
        self.claims.replan = false;
        self.claims.plan_due = None;
        let now = self.now;
        if !self.may_hold() || !self.hears_quorum() {
            if self.may_hold() {
                // What it would be granted would only be kept from others.
                self.claims.plan_due = Some(now + RANK_DELAY / 4);
            }
            self.claims.free.clear();
            self.claims.reschedule();
            return;
        }
        let uncertain = self.peers.values().any(|peer| {
            !peer.suspected
                && peer
                    .unknown_since
                    .is_some_and(|since| now < since + UNKNOWN_SET)
        });
        if uncertain {
            self.claims.plan_due = Some(now + RANK_DELAY / 4);
            self.claims.reschedule();
            return;
        }
        let wanted = self.find_free();
        let mut batches: BTreeMap<Option<(NodeId, Incarnation, u64)>, Vec<Key>> = BTreeMap::new();
        for key in wanted {
            let by = self.claims.releases.get(&key).map(|release| release.by);
            batches.entry(by).or_default().push(key);
        }
        for (released_by, keys) in batches {
            for keys in keys.chunks(KEYS) {
                self.claim(keys, released_by);
            }
        }
        self.claims.reschedule();
    }

    /// The free keys that are to be claimed now.
    fn find_free(&mut self) -> Vec<Key> {
        let now = self.now;
        let others: Vec<(NodeId, u16)> = self
            .eligible_others()
            .chain(self.starting_others())
            .collect();
        let mut free = BTreeMap::new();
        let mut wanted = Vec::new();
        let mut due: Option<Moment> = None;
        let claims = &self.claims;
        for (key, candidates) in self.view.iter().flat_map(|view| &view.keys) {
            if self.estate.keys.contains_key(key)
                || self.owners.contains_key(key)
                || claims.is_claimed(*key)
                || !candidates.include(self.me)
            {
                continue;
            }
            let known = claims.free.get(key).copied();
            let entry = match known {
                Some(known) if known.version == claims.version => known,
                _ => {
                    let rivals = others
                        .iter()
                        .copied()
                        .filter(|(node, _)| candidates.include(*node));
                    let rank = if self.standing.lost.contains_key(key) {
                        0
                    } else {
                        placement::rank(*key, (self.me, self.local.weight), rivals).min(RANKS)
                    };
                    Free {
                        since: known.map_or(now, |known| known.since),
                        rank: u32::try_from(rank).unwrap_or(u32::MAX),
                        version: claims.version,
                    }
                }
            };
            free.insert(*key, entry);
            let mut at = entry.since;
            if let Some(release) = claims.releases.get(key) {
                at = at.max(self.release_lasts(*key, release));
            }
            if let Some(ends) = claims.orphans.get(key)
                && entry.rank > 0
            {
                // The first claims ahead; until then nobody is late.
                at = at.max(*ends);
            }
            at = at + RANK_DELAY * entry.rank;
            if let Some((retry, _)) = claims.retry.get(key) {
                at = at.max(*retry);
            }
            if at <= now {
                wanted.push(*key);
            } else {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        self.claims.free = free;
        self.claims.plan_due = due;
        wanted
    }

    /// Until when a key is left to whom it was let go for, or who lost it.
    fn release_lasts(&self, key: Key, release: &Release) -> Moment {
        match release.target {
            Some(target) if target != self.me => release.at + self.parameters.promise,
            Some(_) => release.at,
            None if release.lapsed
                && self.rules().last_holder_is_preferred
                && !self.standing.lost.contains_key(&key)
                && self.would_take_back(key, release.by.0) =>
            {
                release.at + PREFERENCE
            }
            None => release.at,
        }
    }

    fn claim(&mut self, keys: &[Key], released_by: Option<(NodeId, Incarnation, u64)>) {
        self.note(Transition::Claimed);
        self.claims.nonce = self.claims.nonce.wrapping_add(1);
        let nonce = self.claims.nonce;
        let attempt = Attempt {
            nonce,
            keys: keys.iter().map(|key| (*key, Default::default())).collect(),
            wanted: keys.iter().copied().collect(),
            answered: BTreeSet::new(),
            released_by,
            begun: self.now,
            next: self.now + REPEAT,
            repeats: 0,
            over: false,
        };
        let claim = Claim {
            nonce,
            keys: keys.to_vec(),
            released_by,
        };
        self.claims.attempts.push(attempt);
        self.put_to_voters(&claim);
    }

    /// Asks all voters, this node among them. A claim that is repeated with fewer keys than before
    /// leaves the others to whoever wants them.
    fn put_to_voters(&mut self, claim: &Claim) {
        self.tell_all(Body::Claim(claim.clone()));
        if self.is_awake()
            && let Some(grant) = self.judge_claim(self.me, self.incarnation, claim)
        {
            self.note_grant(self.me, &grant);
        }
    }

    /// Takes a grant in.
    pub(super) fn hear_grant(&mut self, message: &Message, grant: &Grant) {
        let counts = message.generation == self.registry.current.generation
            || !self.rules().one_generation_at_a_time;
        if grant.to == self.me && grant.incarnation == self.incarnation && counts {
            self.note_grant(message.from, grant);
        }
    }

    /// Counts a grant.
    pub(super) fn note_grant(&mut self, voter: NodeId, grant: &Grant) {
        if !self.registry.has_voter(voter) {
            return;
        }
        let Some(attempt) = self
            .claims
            .attempts
            .iter_mut()
            .find(|attempt| attempt.nonce == grant.nonce)
        else {
            return;
        };
        attempt.answered.insert(voter);
        for key in &grant.granted {
            if let Some((granted, refused)) = attempt.keys.get_mut(key) {
                granted.insert(voter);
                refused.remove(&voter);
            }
        }
        for (key, _) in &grant.refused {
            if let Some((granted, refused)) = attempt.keys.get_mut(key) {
                refused.insert(voter);
                granted.remove(&voter);
            }
        }
        self.count_grants();
    }

    /// Takes what enough voters have granted, and gives up what they cannot grant any more.
    fn count_grants(&mut self) {
        let majority = self.registry.current.majority();
        let able: Vec<NodeId> = self.able_voters().collect();
        let mut won = Vec::new();
        let mut lost = Vec::new();
        for attempt in &self.claims.attempts {
            for (key, (granted, refused)) in &attempt.keys {
                let votes: usize = granted.iter().map(|node| self.weight_of_vote(*node)).sum();
                if votes >= majority {
                    won.push(*key);
                    continue;
                }
                // Nor can those that do not hear this node, although it hears them.
                let possible: usize = able
                    .iter()
                    .filter(|voter| !refused.contains(voter))
                    .filter(|voter| !attempt.over || attempt.answered.contains(voter))
                    .filter(|voter| granted.contains(voter) || self.may_hear(**voter))
                    .map(|voter| self.weight_of_vote(*voter))
                    .sum();
                if possible < majority {
                    lost.push(*key);
                }
            }
        }
        if !won.is_empty() {
            self.note(Transition::ClaimWon);
            for attempt in &mut self.claims.attempts {
                attempt.keys.retain(|key, _| !won.contains(key));
            }
        }
        for key in won {
            if !self.win(key) {
                lost.push(key);
            }
        }
        if !lost.is_empty() {
            self.lose(&lost);
        }
        self.claims
            .attempts
            .retain(|attempt| !attempt.keys.is_empty());
    }

    /// Somebody claims: what suits it better than this member is left to it.
    pub(super) fn give_way(&mut self, claimant: NodeId, keys: &[Key]) {
        if self.claims.attempts.is_empty() && self.claims.free.is_empty() {
            return;
        }
        let at = self.now + RETRY;
        let mut left = Vec::new();
        for key in keys {
            if !self.suits_better(*key, claimant, self.me) {
                continue;
            }
            if self.claims.is_claimed(*key) {
                left.push(*key);
            } else if self.claims.free.contains_key(key) {
                let (retry, _) = self.claims.retry.entry(*key).or_insert((at, 0));
                *retry = at.max(*retry);
                self.claims.replan = true;
            }
        }
        if !left.is_empty() {
            self.lose(&left);
        }
    }

    /// Holds a key that was granted; whether it can.
    fn win(&mut self, key: Key) -> bool {
        let wanted = self
            .view
            .as_ref()
            .is_some_and(|view| view.keys.contains_key(&key));
        if !wanted || !self.may_hold() || self.owners.contains_key(&key) {
            return false;
        }
        let was_mine = self.standing.lost.remove(&key).is_some();
        let former = if was_mine {
            Some(self.me)
        } else {
            self.quiet.last_speaker(key)
        };
        let cause = if former.is_some() {
            Cause::TakenOver
        } else {
            Cause::Unclaimed
        };
        self.gain(key, cause, former, Voice::Loud);
        self.claims.was_taken(key);
        true
    }

    /// Gives keys up, and tells the voters: what some have reserved is free for others at once.
    fn lose(&mut self, keys: &[Key]) {
        self.note(Transition::ClaimLost);
        for key in keys {
            self.put_off(*key);
        }
        let mut narrowed = Vec::new();
        for attempt in &mut self.claims.attempts {
            let before = attempt.wanted.len();
            attempt.keys.retain(|key, _| !keys.contains(key));
            attempt.wanted.retain(|key| !keys.contains(key));
            if attempt.wanted.len() < before {
                narrowed.push(attempt.message());
            }
        }
        self.claims
            .attempts
            .retain(|attempt| !attempt.keys.is_empty());
        for claim in narrowed {
            self.put_to_voters(&claim);
        }
    }

    /// The voters that can grant: those that live, and this node itself.
    pub(super) fn able_voters(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.registry
            .current
            .voters
            .iter()
            .copied()
            .filter(|voter| {
                *voter == self.me || self.peers.get(voter).is_some_and(|peer| !peer.suspected)
            })
    }

    /// Whether a voter may have heard what this node sent.
    fn may_hear(&self, voter: NodeId) -> bool {
        voter == self.me || self.is_reporting(voter)
    }

    /// Tries a key again later: the better it suits others, the later.
    pub(super) fn put_off(&mut self, key: Key) {
        let candidates = self.view.as_ref().and_then(|view| view.keys.get(&key));
        let rivals = self
            .eligible_others()
            .filter(|(node, _)| candidates.is_none_or(|candidates| candidates.include(*node)));
        let rank = placement::rank(key, (self.me, self.local.weight), rivals);
        let rank = u32::try_from(rank.min(RANKS)).unwrap_or(u32::MAX);
        let times = self
            .claims
            .retry
            .get(&key)
            .map_or(1, |(_, times)| (times + 1).min(RETRIES));
        let pause = RETRY * times + RANK_DELAY * rank + self.random.up_to(RETRY_SPREAD);
        self.claims.retry.insert(key, (self.now + pause, times));
        self.claims.replan = true;
    }

    /// Repeats claims, and gives up those that take too long.
    pub(super) fn tick_claims(&mut self) {
        let now = self.now;
        if now < self.claims.due {
            return;
        }
        let awaited: BTreeSet<NodeId> = self
            .able_voters()
            .filter(|voter| *voter != self.me || self.votes())
            .collect();
        let mut repeats = Vec::new();
        let mut late = Vec::new();
        for attempt in &mut self.claims.attempts {
            if attempt.begun + PATIENCE <= now {
                late.extend(attempt.keys.keys().copied());
                continue;
            }
            if attempt.next > now {
                continue;
            }
            let answered = awaited.is_subset(&attempt.answered);
            if attempt.repeats >= REPEATS || attempt.is_decided_by(&awaited) {
                attempt.over |= !answered;
                attempt.next = attempt.begun + PATIENCE;
            } else {
                attempt.repeats += 1;
                attempt.next = now + if answered { REMIND } else { REPEAT };
                repeats.push(attempt.message());
            }
        }
        for claim in repeats {
            self.put_to_voters(&claim);
        }
        self.count_grants();
        if !late.is_empty() {
            self.lose(&late);
        }
        self.claims.reschedule();
    }
}
