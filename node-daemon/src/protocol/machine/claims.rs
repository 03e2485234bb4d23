//! Claims: what nobody holds is taken by whom it suits best.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::attempts::Attempt;
use super::placement;
use super::probing::PROBING;
use crate::protocol::message::{Incarnation, Key, NodeId};
use crate::protocol::time::Moment;
use crate::protocol::view::Wanted;
use crate::protocol::weight::Weight;

/// Keys of one claim.
const KEYS: usize = 128;
/// Views differ for a moment: the second best waits that long, the third twice as long. Before all
/// comes who holds something of the key's group.
const RANK_DELAY: Duration = Duration::from_millis(100);
/// Nobody waits longer than so many ranks.
const RANKS: usize = 5;
/// A key that could not be had is tried again after that time, and a random part of the second.
const RETRY: Duration = Duration::from_millis(100);
const RETRY_SPREAD: Duration = Duration::from_millis(50);
/// And no longer than so many times the first.
const RETRIES: u32 = 3;
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

/// Free keys, and claims on their way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Claims {
    free: BTreeMap<Key, Free>,
    releases: BTreeMap<Key, Release>,
    /// Whose holder is gone: when its promises end.
    orphans: BTreeMap<Key, Moment>,
    /// When to try again what could not be had, and how often that was.
    retry: BTreeMap<Key, (Moment, u32)>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) nonce: u32,
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

    pub(super) fn reschedule(&mut self) {
        let repeats = self.attempts.iter().map(|attempt| attempt.next);
        self.due = repeats.chain(self.plan_due).min().unwrap_or(Moment::NEVER);
    }
}

impl Machine {
    /// Whether this member can take keys.
    pub(super) fn may_hold(&self) -> bool {
        let flags = self.flags();
        self.speaks_on_segment()
            && self.voter_sets.exists()
            && !(flags.starting
                || flags.released
                || flags.draining
                || flags.vlan_down
                || flags.unfit)
    }

    /// The others that could hold keys, with their weights.
    pub(super) fn eligible_others(&self) -> impl Iterator<Item = (NodeId, Weight)> + '_ {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.is_eligible())
            .map(|(node, peer)| (*node, peer.last.weight))
    }

    /// All that could hold keys, this member among them, with their weights.
    pub(super) fn eligible(&self) -> BTreeMap<NodeId, Weight> {
        let me = (self.me, self.local.weight);
        self.eligible_others().chain([me]).collect()
    }

    /// Those that have just started, and are about to be able to: without them whoever joins first
    /// would take everything.
    fn starting_others(&self) -> impl Iterator<Item = (NodeId, Weight)> + '_ {
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
        let others: Vec<(NodeId, Weight)> = self
            .eligible_others()
            .chain(self.starting_others())
            .collect();
        let connected = self.on_node_network(&others);
        let is_off = self.node_network.is_lost && !connected.is_empty();
        let others = self.or_all_if_lost(connected, &others);
        let claims = &self.claims;
        let keys: Vec<(Key, &Wanted)> = self
            .view
            .iter()
            .flat_map(|view| &view.keys)
            .filter(|(key, wanted)| {
                !self.held_keys.keys.contains_key(key)
                    && !self.owners.contains_key(key)
                    && !claims.is_claimed(**key)
                    && !self.survivors.doubt(**key)
                    && wanted.may_go_to(self.me)
            })
            .map(|(key, wanted)| (*key, wanted))
            .collect();
        if keys.is_empty() {
            self.claims.free.clear();
            self.claims.plan_due = None;
            return Vec::new();
        }
        let groups = keys.iter().map(|(_, wanted)| wanted.group).collect();
        let anchors = self.anchors(&groups, &self.eligible());
        let mut free = BTreeMap::new();
        let mut wanted_now = Vec::new();
        let mut unknown = Vec::new();
        let mut due: Option<Moment> = None;
        for (key, wanted) in keys {
            let candidates = &wanted.candidates;
            let known = claims.free.get(&key).copied();
            let entry = match known {
                Some(known) if known.version == claims.version => known,
                _ => {
                    let rivals = others
                        .iter()
                        .copied()
                        .filter(|(node, _)| candidates.include(*node));
                    let me = (self.me, self.local.weight);
                    let rank = if is_off {
                        RANKS
                    } else {
                        placement::rank(wanted.group, me, rivals).min(RANKS)
                    };
                    Free {
                        since: known.map_or(now, |known| known.since),
                        rank: u32::try_from(rank).unwrap_or(u32::MAX),
                        version: claims.version,
                    }
                }
            };
            free.insert(key, entry);
            let rank = match anchors.get(&wanted.group) {
                _ if self.membership.lost.contains_key(&key) => 0,
                Some(anchor) if *anchor == self.me => 0,
                // It has something of the group. If it does not take this too, others do.
                Some(_) => entry.rank + 1,
                None => entry.rank,
            };
            let mut at = entry.since;
            if let Some(release) = claims.releases.get(&key) {
                at = at.max(self.release_lasts(key, release));
            }
            if let Some(ends) = claims.orphans.get(&key)
                && rank > 0
            {
                // The first claims ahead; until then nobody is late.
                at = at.max(*ends);
            }
            let probes = self.parameters.probe_addresses
                && !wanted.spoken_here
                && self.probing.is_needed(key)
                && !self.membership.lost.contains_key(&key);
            if probes && rank > 0 {
                // The first asks ahead on the wire.
                at = at + PROBING;
            }
            at = at + RANK_DELAY * rank;
            if let Some((retry, _)) = claims.retry.get(&key) {
                at = at.max(*retry);
            }
            if at <= now && probes && !self.probing.found_free(key, now) {
                unknown.push((key, rank == 0));
            } else if at <= now {
                wanted_now.push(key);
            } else {
                due = Some(due.map_or(at, |due| due.min(at)));
            }
        }
        self.claims.free = free;
        self.claims.plan_due = due;
        for (key, favoured) in unknown {
            self.probing.ask(key, favoured, now);
        }
        wanted_now
    }

    /// Until when a key is left to whom it was let go for, or who lost it.
    fn release_lasts(&self, key: Key, release: &Release) -> Moment {
        match release.target {
            Some(target) if target != self.me => release.at + self.parameters.promise,
            Some(_) => release.at,
            None if release.lapsed
                && self.rules().last_holder_is_preferred()
                && !self.membership.lost.contains_key(&key)
                && self.would_take_back(key, release.by.0) =>
            {
                release.at + PREFERENCE
            }
            None => release.at,
        }
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

    /// Tries keys again later: the better one suits others, the later. Those of one group are tried together.
    pub(super) fn put_off(&mut self, keys: &[Key]) {
        let spread = self.random.up_to(RETRY_SPREAD);
        for key in keys {
            let wanted = self.view.as_ref().and_then(|view| view.keys.get(key));
            let rivals = self
                .eligible_others()
                .filter(|(node, _)| wanted.is_none_or(|wanted| wanted.candidates.include(*node)));
            let me = (self.me, self.local.weight);
            let rank = placement::rank(self.group_of(*key), me, rivals);
            let rank = u32::try_from(rank.min(RANKS)).unwrap_or(u32::MAX);
            let times = self
                .claims
                .retry
                .get(key)
                .map_or(1, |(_, times)| (times + 1).min(RETRIES));
            let pause = RETRY * times + RANK_DELAY * rank + spread;
            self.claims.retry.insert(*key, (self.now + pause, times));
        }
        self.claims.replan = true;
    }
}
