//! Groups: keys that had better be on one node, such as both addresses of a dual-stack Service.
//!
//! That is a preference. A right is to a key, and members need not agree on what belongs together.
//! What nobody holds is left first to whoever has something of its group. What is held stays, also
//! apart from its group, and is brought together slowly.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use super::placement;
use crate::protocol::message::{Key, NodeId};
use crate::protocol::time::Moment;
use crate::protocol::view::Group;
use crate::protocol::weight::Weight;

/// A group that is apart for so long is brought together.
const APART_LASTS: Duration = Duration::from_secs(60);
/// A group that was moved to even out, or to be whole, stays for so long if it comes back, the next
/// time for twice as long, and so on up to the most: members whose views differ could else send it
/// back and forth for ever.
const STAYS: Duration = Duration::from_secs(60);
const STAYS_MOST: Duration = Duration::from_secs(3600);

/// A group that was moved while its holder lives.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Moved {
    until: Moment,
    lasts: Duration,
}

/// What is known of groups.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Grouping {
    /// Since when a part is here, and would better be with the rest.
    apart: BTreeMap<Group, Moment>,
    moved: BTreeMap<Group, Moved>,
}

impl Grouping {
    /// Whether a group may be moved although its holder lives and can serve it.
    pub(super) fn may_move(&self, group: Group, now: Moment) -> bool {
        self.moved
            .get(&group)
            .is_none_or(|moved| moved.until <= now)
    }

    /// Notes that a group is moved.
    pub(super) fn note_move(&mut self, group: Group, now: Moment) {
        self.moved.retain(|_, moved| now < moved.until + STAYS_MOST);
        let before = self.moved.get(&group);
        let lasts = before.map_or(STAYS, |moved| (moved.lasts * 2).min(STAYS_MOST));
        let until = now + lasts;
        self.moved.insert(group, Moved { until, lasts });
    }
}

impl Machine {
    /// The group of a key, as far as this member knows.
    pub(super) fn group_of(&self, key: Key) -> Group {
        let view = self.view.as_ref();
        view.map_or_else(|| Group::alone(key), |view| view.group_of(key))
    }

    /// Of each of these groups: who of `members` holds something of it, and suits it best of those.
    pub(super) fn anchors(
        &self,
        groups: &BTreeSet<Group>,
        members: &BTreeMap<NodeId, Weight>,
    ) -> BTreeMap<Group, NodeId> {
        let mut anchors: BTreeMap<Group, NodeId> = BTreeMap::new();
        if groups.is_empty() {
            return anchors;
        }
        for (key, wanted) in self.view.iter().flat_map(|view| &view.keys) {
            if !groups.contains(&wanted.group) {
                continue;
            }
            let holder = if self.held_keys.keys.contains_key(key) {
                Some(self.me)
            } else {
                self.owners.get(key).copied()
            };
            let Some((node, weight)) = holder
                .filter(|node| wanted.candidates.include(*node))
                .and_then(|node| Some((node, *members.get(&node)?)))
            else {
                continue;
            };
            let best = anchors.entry(wanted.group).or_insert(node);
            let present = members.get(best).copied().unwrap_or_default();
            if placement::suits_better(wanted.group, (node, weight), (*best, present)) {
                *best = node;
            }
        }
        anchors
    }

    /// A group of which this member has had a part for long that would better be with another, which
    /// has more of it; and that other.
    pub(super) fn bring_together(
        &mut self,
        members: &BTreeMap<NodeId, Weight>,
    ) -> Option<(Group, NodeId)> {
        let now = self.now;
        let view = self.view.as_ref()?;
        let of = |key: &Key| view.group_of(*key);
        let elsewhere: BTreeSet<Group> = self.owners.keys().map(of).collect();
        let mut split: BTreeSet<Group> = self.held_keys.keys.keys().map(of).collect();
        split.retain(|group| elsewhere.contains(group));
        let mut better = self.anchors(&split, members);
        better.retain(|_, anchor| *anchor != self.me);
        let grouping = &mut self.grouping;
        grouping.apart.retain(|group, _| better.contains_key(group));
        better.into_iter().find(|(group, _)| {
            let since = *grouping.apart.entry(*group).or_insert(now);
            since + APART_LASTS <= now && grouping.may_move(*group, now)
        })
    }
}
