//! Evening out: a member that has too many groups for long hands some of them over, and one that has what
//! preferred members should have hands that over once they have been there for long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Machine;
use super::handover::LOOK;
use super::placement;
use crate::protocol::decision::Transition;
use crate::protocol::message::NodeId;
use crate::protocol::view::Group;
use crate::protocol::weight::Weight;

/// Evening out begins when loads differ for so long.
const IMBALANCE_LASTS: Duration = Duration::from_secs(60);
/// A member that is preferred gets what is its own when it has been there for so long: one that comes and
/// goes would take what it cannot keep.
const RETURNED: Duration = Duration::from_secs(60);
/// One group is moved in that time.
const ONE_GROUP: Duration = Duration::from_secs(1);

/// What an even split of groups gives one member, in 65,536ths of a group.
#[derive(Default)]
struct Split(u64);

impl Split {
    const GROUP: u64 = 1 << 16;

    /// Counts a group that these may hold: those that are preferred most, by their shares.
    fn count(&mut self, me: NodeId, members: impl Iterator<Item = (NodeId, Weight)> + Clone) {
        let preferences = members.clone().map(|(_, weight)| weight.preference());
        let most = preferences.max();
        let (mut own, mut all) = (0, 0);
        for (node, weight) in members {
            if Some(weight.preference()) != most {
                continue;
            }
            let share = u64::from(weight.share());
            all += share;
            if node == me {
                own = share;
            }
        }
        self.0 += (own * Self::GROUP).checked_div(all).unwrap_or(0);
    }

    /// In whole groups, rounded up.
    fn groups(&self) -> usize {
        usize::try_from(self.0.div_ceil(Self::GROUP)).unwrap_or(usize::MAX)
    }
}

impl Machine {
    /// Which group to move so that loads become even, or so that it is whole: at most one a second. Loads
    /// count as groups, since that is what moves: one is moved whose place is elsewhere among those that
    /// can hold it now, and only after this member has had more than a fifth too many for a minute.
    pub(super) fn even_out(&mut self, others: &[(NodeId, Weight)]) -> Option<(Group, NodeId)> {
        let now = self.now;
        if now < self.handovers.look_at {
            self.wake_handovers(self.handovers.look_at.since(now));
            return None;
        }
        let step = self.find_misplaced(others);
        if let Some((group, _)) = step {
            self.grouping.note_move(group, now);
            self.note(Transition::Rebalanced);
        }
        let pause = match (step, self.handovers.imbalanced_since) {
            (Some(_), _) => ONE_GROUP,
            (None, None) => LOOK,
            (None, Some(since)) => LOOK.min((since + IMBALANCE_LASTS).since(now)),
        };
        self.handovers.look_at = now + pause;
        self.wake_handovers(pause);
        step
    }

    fn find_misplaced(&mut self, others: &[(NodeId, Weight)]) -> Option<(Group, NodeId)> {
        let now = self.now;
        let me = (self.me, self.local.weight);
        let members: BTreeMap<NodeId, Weight> = others.iter().copied().chain([me]).collect();
        if let Some(step) = self.bring_together(&members) {
            return Some(step);
        }
        self.note_preferred(&members);
        let loads = self.weigh(&members);
        if loads.outranked.is_some() {
            return loads.outranked;
        }
        let heavy = loads.held * 5 > loads.places * 6;
        let Some(misplaced) = loads.misplaced.filter(|_| heavy) else {
            self.handovers.imbalanced_since = None;
            return None;
        };
        let since = *self.handovers.imbalanced_since.get_or_insert(now);
        (since + IMBALANCE_LASTS <= now).then_some(misplaced)
    }

    /// Notes since when which members have been preferred to this one.
    fn note_preferred(&mut self, members: &BTreeMap<NodeId, Weight>) {
        let (now, own) = (self.now, self.local.weight.preference());
        let preferred = members
            .iter()
            .filter(|(_, weight)| weight.preference() > own);
        let known = std::mem::take(&mut self.handovers.preferred_since);
        self.handovers.preferred_since = preferred
            .map(|(node, _)| {
                // It may have been away between two looks.
                let steady = self.peers.get(node).map_or(now, |peer| peer.steady_since);
                (*node, known.get(node).copied().unwrap_or(now).max(steady))
            })
            .collect();
    }

    fn weigh(&self, members: &BTreeMap<NodeId, Weight>) -> Loads {
        let mut bests: BTreeMap<Group, Option<NodeId>> = BTreeMap::new();
        let mut held: BTreeSet<Group> = BTreeSet::new();
        let mut loads = Loads::default();
        let mut even = Split::default();
        let preferred = &self.handovers.preferred_since;
        for (key, wanted) in self.view.iter().flat_map(|view| &view.keys) {
            let candidates = &wanted.candidates;
            let best = *bests.entry(wanted.group).or_insert_with(|| {
                let all = members.iter().map(|(node, weight)| (*node, *weight));
                let all = all.filter(|(node, _)| candidates.include(*node));
                even.count(self.me, all.clone());
                placement::best(wanted.group, all)
            });
            let Some(holding) = self.held_keys.keys.get(key) else {
                continue;
            };
            held.insert(wanted.group);
            let Some(best) = best.filter(|best| *best != self.me) else {
                continue;
            };
            let found = match preferred.get(&best) {
                None => &mut loads.misplaced,
                Some(since) if *since + RETURNED <= self.now => &mut loads.outranked,
                Some(_) => continue,
            };
            if found.is_none()
                && holding.speaking
                && !self.handovers.concerns(*key)
                && self.grouping.may_move(wanted.group, self.now)
            {
                *found = Some((wanted.group, best));
            }
        }
        let here = Some(self.me);
        let places = bests.values().filter(|best| **best == here).count();
        loads.held = held.len();
        loads.places = places.max(even.groups());
        loads
    }
}

/// What this member has, and what it should have.
#[derive(Default)]
struct Loads {
    /// How many groups it has something of.
    held: usize,
    /// Its share of them: the groups that have their place here, or what an even split makes it if that is
    /// more. To move the only group from one member to another evens nothing out.
    places: usize,
    /// A group that has its place with another that is equally preferred, and which.
    misplaced: Option<(Group, NodeId)>,
    /// A group that has its place with another that is preferred, and has been there for long.
    outranked: Option<(Group, NodeId)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_split_rounds_up() {
        let members = [1, 2, 3].map(|node| (NodeId(node), Weight::USUAL));
        for (groups, share) in [(0, 0), (1, 1), (3, 1), (4, 2), (6, 2), (100, 34)] {
            let mut split = Split::default();
            for _ in 0..groups {
                split.count(NodeId(1), members.into_iter());
            }
            assert_eq!(split.groups(), share, "of {groups}");
        }
        let mut split = Split::default();
        split.count(NodeId(4), members.into_iter());
        split.count(NodeId(1), [(NodeId(1), Weight::new(0, 0))].into_iter());
        assert_eq!(split.groups(), 0);
    }

    #[test]
    fn preferred_members_split_among_themselves() {
        let members = [(1, 0), (2, 5), (3, 5)];
        let members = members.map(|(node, more)| (NodeId(node), Weight::new(more, 100)));
        for (node, share) in [(1, 0), (2, 5), (3, 5)] {
            let mut split = Split::default();
            for _ in 0..10 {
                split.count(NodeId(node), members.into_iter());
            }
            assert_eq!(split.groups(), share, "of {node}");
        }
    }
}
