//! Whether to announce an address or only to answer for it (rule L): flows of a node that still forwards are
//! not to be moved.
//!
//! Neighbours that have learnt the MAC of a former speaker go on sending there. As long as that
//! node's kernel answers for its own address, that works, and telling them of another MAC would
//! break their connections. Once it does not, the address must be announced at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::held_keys::Holding;
use super::placement;
use crate::protocol::decision::{AnnounceMode, Cause, Decision};
use crate::protocol::message::{Key, NodeId};
use crate::protocol::time::Moment;
use crate::protocol::view::{Group, Wanted};

/// Between two questions to a kernel, for the first second and afterwards.
const FAST: Duration = Duration::from_millis(50);
const SLOW: Duration = Duration::from_millis(100);
const FAST_LASTS: Duration = Duration::from_secs(1);
/// So many questions without an answer, and it is dead.
const MISSES: u32 = 3;
/// An address that is only answered for is announced after that time at the latest.
const QUIET_LASTS: Duration = Duration::from_secs(60);
/// The same where voters come from files: the address of a control plane stays on its node for a little longer.
pub const UNANNOUNCED_FROM_FILE: Duration = Duration::from_secs(25);
/// And where the daemon of the former speaker is back, and says for so long that nothing is behind the address there:
/// one that has just started does not know yet.
const SAYS_NOTHING_IS_BEHIND: Duration = Duration::from_secs(2);
/// What was found out is kept for so long.
const KEPT: Duration = Duration::from_secs(5);
/// Former speakers that are remembered of a key.
const FORMERS: usize = 8;

/// Questions to a node's kernel.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Probe {
    since: Moment,
    next: Moment,
    /// How many were sent since the last answer.
    unanswered: u32,
    answered: Option<Moment>,
    /// Since when its daemon says that nothing is behind the address there.
    #[serde(default)]
    nothing_behind_since: Option<Moment>,
    /// Since when it is known not to answer.
    dead: Option<Moment>,
}

/// Former speakers, and whether their nodes forward on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FormerSpeakers {
    /// Who has spoken for a key since this member started, the last one last.
    formers: BTreeMap<Key, Vec<NodeId>>,
    /// What is held without an announcement, from whom, and since when.
    #[serde(rename = "quietly")]
    unannounced: BTreeMap<Key, (NodeId, Moment)>,
    probes: BTreeMap<NodeId, Probe>,
    pub(super) due: Moment,
}

impl FormerSpeakers {
    pub(super) const fn new() -> Self {
        Self {
            formers: BTreeMap::new(),
            unannounced: BTreeMap::new(),
            probes: BTreeMap::new(),
            due: Moment::NEVER,
        }
    }

    /// Notes that a node has spoken for a key.
    pub(super) fn has_spoken(&mut self, key: Key, node: NodeId) {
        let formers = self.formers.entry(key).or_default();
        if formers.last() == Some(&node) {
            return;
        }
        formers.retain(|former| *former != node);
        formers.push(node);
        if formers.len() > FORMERS {
            formers.remove(0);
        }
    }

    /// Who spoke for a key last, apart from this node.
    pub(super) fn last_speaker(&self, key: Key) -> Option<NodeId> {
        self.formers.get(&key)?.last().copied()
    }

    /// Forgets that a key is held without an announcement.
    pub(super) fn forget(&mut self, key: Key) {
        self.unannounced.remove(&key);
    }

    /// Forgets keys that are no more.
    pub(super) fn keep_only(&mut self, keys: &BTreeMap<Key, Wanted>) {
        self.formers.retain(|key, _| keys.contains_key(key));
    }

    /// To whom a key belongs that is held without an announcement.
    pub(super) fn give_back(&self, key: Key) -> Option<NodeId> {
        self.unannounced.get(&key).map(|(former, _)| *former)
    }

    /// A kernel has answered.
    pub(super) fn answered(&mut self, node: NodeId, now: Moment) {
        if let Some(probe) = self.probes.get_mut(&node) {
            probe.unanswered = 0;
            probe.answered = Some(now);
            probe.dead = None;
        }
    }

    /// The daemon of a node is heard again. What is held in its place is not given back yet.
    pub(super) fn is_back(&mut self, node: NodeId, now: Moment) {
        self.probes.remove(&node);
        if self.unannounced.values().any(|(former, _)| *former == node) {
            self.ask(node, now);
        }
    }

    /// Begins to ask a kernel, anew if it was dead.
    fn ask(&mut self, node: NodeId, now: Moment) {
        let anew = Probe {
            since: now,
            next: now,
            unanswered: 0,
            answered: None,
            nothing_behind_since: None,
            dead: None,
        };
        let probe = self.probes.entry(node).or_insert(anew);
        if probe.dead.is_some() {
            *probe = anew;
        }
        self.due = self.due.min(now);
    }

    fn is_former_of_held(&self, node: NodeId, held: &BTreeMap<Key, Holding>) -> bool {
        held.keys()
            .any(|key| self.formers.get(key).is_some_and(|all| all.contains(&node)))
    }
}

impl Machine {
    /// Somebody has fallen silent: its kernel is asked if this member may have to speak in its
    /// place, or speaks for what it once spoke for.
    pub(super) fn suspect(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get(&node) else {
            return;
        };
        let me = (self.me, self.local.weight);
        let others = self.eligible_others().filter(|(other, _)| *other != node);
        let others: Vec<_> = others.collect();
        let rivals = self.or_all_if_lost(self.on_node_network(&others), &others);
        let may_take = self.may_hold()
            && peer.stated.keys.iter().any(|key| {
                let rivals = rivals.iter().copied();
                placement::rank(self.group_of(*key), me, rivals) == 0
            });
        let passes_on = self.keeping.needs(node);
        if may_take || passes_on || self.quiet.is_former_of_held(node, &self.held_keys.keys) {
            let now = self.now;
            self.quiet.ask(node, now);
            self.tick_quiet();
        }
    }

    /// Whether to announce that a key is here now.
    pub(super) fn choose_mode(&mut self, key: Key, holding: &Holding) -> AnnounceMode {
        let now = self.now;
        let mode = self.find_mode(holding);
        match (mode, holding.former) {
            (AnnounceMode::OnRequest, Some(former)) if former != self.me => {
                self.quiet.has_spoken(key, former);
                if holding.cause == Cause::GivenBack {
                    // It is this node that the neighbours know.
                    return mode;
                }
                self.quiet.unannounced.insert(key, (former, now));
                self.quiet.ask(former, now);
            }
            (AnnounceMode::OnRequest, _) => {}
            (AnnounceMode::Unsolicited, _) => {
                self.quiet.formers.remove(&key);
                self.quiet.unannounced.remove(&key);
            }
        }
        mode
    }

    fn find_mode(&self, holding: &Holding) -> AnnounceMode {
        let Some(former) = holding.former else {
            return AnnounceMode::Unsolicited;
        };
        if holding.cause != Cause::TakenOver {
            return holding.mode;
        }
        // Whoever has lost its right cannot know who has spoken since. The node of a daemon that was killed has an
        // address from a file no more, two seconds later.
        if self.has_voters_from_file() {
            return AnnounceMode::Unsolicited;
        }
        let Some(peer) = self.peers.get(&former) else {
            return AnnounceMode::Unsolicited;
        };
        let flags = peer.last.flags;
        let hidden = peer.last.contact.own_addresses.is_empty();
        if flags.draining || flags.vlan_down || hidden {
            return AnnounceMode::Unsolicited;
        }
        match self.quiet.probes.get(&former) {
            Some(probe) if probe.dead.is_some() || probe.unanswered >= MISSES => {
                AnnounceMode::Unsolicited
            }
            _ => AnnounceMode::OnRequest,
        }
    }

    /// Asks kernels, and announces the keys of one that does not answer any more.
    pub(super) fn tick_quiet(&mut self) {
        let now = self.now;
        if now < self.quiet.due {
            return;
        }
        let lasts = if self.has_voters_from_file() {
            UNANNOUNCED_FROM_FILE
        } else {
            QUIET_LASTS
        };
        let mut probes = std::mem::take(&mut self.quiet.probes);
        let mut dead = Vec::new();
        let mut next = Moment::NEVER;
        probes.retain(|node, probe| {
            if probe.dead.is_some_and(|at| at + KEPT <= now) {
                return false;
            }
            let concerned = self
                .quiet
                .unannounced
                .values()
                .any(|(former, _)| former == node)
                || self.keeping.needs(*node)
                || self.quiet.is_former_of_held(*node, &self.held_keys.keys);
            if !concerned && probe.since + KEPT <= now {
                return false;
            }
            if probe.next <= now && probe.dead.is_none() {
                self.ask_kernel(*node, probe);
                let old = probe.since + lasts <= now;
                let nothing_behind = self.has_nothing_behind(*node, probe);
                if (probe.unanswered > MISSES || old || nothing_behind) && concerned {
                    probe.dead = Some(now);
                    dead.push(*node);
                }
            }
            let due = match probe.dead {
                Some(at) => at + KEPT,
                None => probe.next,
            };
            next = next.min(due);
            true
        });
        self.quiet.probes = probes;
        self.quiet.due = next;
        for node in dead {
            self.burst_for(node);
            self.former_is_gone(node);
        }
    }

    /// Whether the daemon of a former speaker is heard and says, long enough, that no API server is behind the address
    /// there. Elsewhere it says the same of a node whose connections go on.
    fn has_nothing_behind(&self, node: NodeId, probe: &mut Probe) -> bool {
        let peer = self.peers.get(&node).filter(|peer| !peer.suspected);
        let says_so =
            self.has_voters_from_file() && peer.is_some_and(|peer| peer.last.flags.draining);
        let since = says_so.then(|| probe.nothing_behind_since.unwrap_or(self.now));
        probe.nothing_behind_since = since;
        since.is_some_and(|since| since + SAYS_NOTHING_IS_BEHIND <= self.now)
    }

    fn ask_kernel(&mut self, node: NodeId, probe: &mut Probe) {
        let now = self.now;
        let pause = if now < probe.since + FAST_LASTS {
            FAST
        } else {
            SLOW
        };
        probe.next = now + pause;
        let Some(peer) = self.peers.get(&node) else {
            probe.unanswered = probe.unanswered.saturating_add(1);
            return;
        };
        // Also where its daemon is heard: a node that hears nobody forwards nothing, and cannot answer.
        probe.unanswered = probe.unanswered.saturating_add(1);
        let addresses = peer.last.contact.own_addresses.clone();
        if !addresses.is_empty() {
            self.decide(Decision::ProbeKernel { node, addresses });
        }
    }

    /// A former speaker's node forwards no more: its keys are announced.
    fn burst_for(&mut self, node: NodeId) {
        let keys: Vec<Key> = self.speaking().collect();
        for key in keys {
            self.announce(key, node);
        }
    }

    /// Once something of a group is announced, all of it that was taken over from the same node is. Else the rest
    /// would be given back without it.
    pub(super) fn announce_whole_groups(&mut self) {
        let unannounced = &self.quiet.unannounced;
        if unannounced.is_empty() {
            return;
        }
        let held = self.held_keys.keys.iter().filter(|(key, holding)| {
            let was_taken_over = holding.speaking && holding.cause == Cause::TakenOver;
            was_taken_over && !unannounced.contains_key(key)
        });
        let announced: BTreeSet<(Group, NodeId)> = held
            .filter_map(|(key, holding)| Some((self.group_of(*key), holding.former?)))
            .collect();
        let rest = unannounced.iter().map(|(key, (former, _))| (*key, *former));
        let rest: Vec<(Key, NodeId)> = rest
            .filter(|(key, former)| announced.contains(&(self.group_of(*key), *former)))
            .collect();
        for (key, former) in rest {
            self.announce(key, former);
        }
    }

    /// Announces a key for which a node spoke before, which forwards no more or is not waited for.
    fn announce(&mut self, key: Key, node: NodeId) {
        let formers = self.quiet.formers.get_mut(&key);
        let spoke = formers.is_some_and(|formers| {
            let before = formers.len();
            formers.retain(|former| *former != node);
            formers.len() < before
        });
        let unannounced = self.quiet.give_back(key) == Some(node);
        if unannounced {
            self.quiet.unannounced.remove(&key);
        }
        if spoke || unannounced {
            self.decide(Decision::Burst { key });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMER: NodeId = NodeId(7);
    const NOW: Moment = Moment(1_000_000_000);

    /// A kernel that has just been found dead.
    fn dead() -> FormerSpeakers {
        let mut quiet = FormerSpeakers::new();
        quiet.ask(FORMER, NOW);
        quiet.probes.get_mut(&FORMER).unwrap().dead = Some(NOW);
        quiet.due = NOW + KEPT;
        quiet
    }

    #[test]
    fn probes_dead_kernel_again_at_once() {
        let mut quiet = dead();
        quiet.ask(FORMER, NOW + FAST);
        let probe = quiet.probes[&FORMER];
        assert_eq!((probe.dead, probe.since), (None, NOW + FAST));
        assert_eq!(quiet.due, NOW + FAST);
    }

    #[test]
    fn keeps_probing_returned_node_while_holding_its_keys() {
        let mut quiet = dead();
        quiet.is_back(FORMER, NOW);
        assert!(quiet.probes.is_empty());
        quiet.unannounced.insert(Key(1), (FORMER, NOW));
        quiet.is_back(FORMER, NOW);
        assert!(quiet.probes.contains_key(&FORMER));
    }
}
