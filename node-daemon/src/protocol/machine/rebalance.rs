//! Evening out: a member that has too many groups for long hands some of them over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Machine;
use super::handover::LOOK;
use super::placement;
use crate::protocol::decision::Transition;
use crate::protocol::message::NodeId;
use crate::protocol::view::Group;

/// Evening out begins when loads differ for so long.
const IMBALANCE_LASTS: Duration = Duration::from_secs(60);
/// One group is moved in that time.
const ONE_GROUP: Duration = Duration::from_secs(1);

/// What an even split of groups gives one member, in 65,536ths of a group.
#[derive(Default)]
struct Split(u64);

impl Split {
    const GROUP: u64 = 1 << 16;

    /// Counts a group that these may hold, by their weights.
    fn count(&mut self, me: NodeId, members: impl IntoIterator<Item = (NodeId, u16)>) {
        let (mut own, mut all) = (0, 0);
        for (node, weight) in members {
            all += u64::from(weight);
            if node == me {
                own = u64::from(weight);
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
    pub(super) fn even_out(&mut self, others: &[(NodeId, u16)]) -> Option<(Group, NodeId)> {
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

    fn find_misplaced(&mut self, others: &[(NodeId, u16)]) -> Option<(Group, NodeId)> {
        let now = self.now;
        let me = (self.me, self.local.weight);
        let members: BTreeMap<NodeId, u16> = others.iter().copied().chain([me]).collect();
        if let Some(step) = self.bring_together(&members) {
            return Some(step);
        }
        let (held, places, misplaced) = self.weigh(others);
        let heavy = held * 5 > places * 6;
        let Some(misplaced) = misplaced.filter(|_| heavy) else {
            self.handovers.imbalanced_since = None;
            return None;
        };
        let since = *self.handovers.imbalanced_since.get_or_insert(now);
        (since + IMBALANCE_LASTS <= now).then_some(misplaced)
    }

    /// How many groups this member has something of, its share of them, and one that has its place
    /// elsewhere, with where. The share is the groups that have their place here, or what an even split
    /// makes it if that is more: to move the only group from one member to another evens nothing out.
    fn weigh(&self, others: &[(NodeId, u16)]) -> (usize, usize, Option<(Group, NodeId)>) {
        let me = (self.me, self.local.weight);
        let mut bests: BTreeMap<Group, Option<NodeId>> = BTreeMap::new();
        let mut held: BTreeSet<Group> = BTreeSet::new();
        let mut misplaced = None;
        let mut even = Split::default();
        for (key, wanted) in self.view.iter().flat_map(|view| &view.keys) {
            let candidates = &wanted.candidates;
            let best = *bests.entry(wanted.group).or_insert_with(|| {
                let all = others.iter().copied().chain([me]);
                let all = all.filter(|(node, _)| candidates.include(*node));
                even.count(self.me, all.clone());
                placement::best(wanted.group, all)
            });
            let Some(holding) = self.held_keys.keys.get(key) else {
                continue;
            };
            held.insert(wanted.group);
            if let Some(best) = best
                && best != self.me
                && misplaced.is_none()
                && holding.speaking
                && !self.handovers.concerns(*key)
                && self.grouping.may_move(wanted.group, self.now)
            {
                misplaced = Some((wanted.group, best));
            }
        }
        let here = Some(self.me);
        let places = bests.values().filter(|best| **best == here).count();
        (held.len(), places.max(even.groups()), misplaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_split_rounds_up() {
        let members = [1, 2, 3].map(|node| (NodeId(node), 100));
        for (groups, share) in [(0, 0), (1, 1), (3, 1), (4, 2), (6, 2), (100, 34)] {
            let mut split = Split::default();
            for _ in 0..groups {
                split.count(NodeId(1), members);
            }
            assert_eq!(split.groups(), share, "of {groups}");
        }
        let mut split = Split::default();
        split.count(NodeId(4), members);
        split.count(NodeId(1), [(NodeId(1), 0)]);
        assert_eq!(split.groups(), 0);
    }
}
