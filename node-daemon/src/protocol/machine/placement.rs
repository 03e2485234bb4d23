//! Which of several candidates a group of keys goes to: those that are preferred most, and of these by
//! weighted rendezvous hashing.
//!
//! Every member computes the same order from the same candidates. The score is `-share / ln(h)`
//! with `h` in (0, 1) made of node and group, so that equally preferred nodes get groups in proportion to
//! their shares, and only those of a node that comes or goes move. All of it is done in integers: the logarithm of
//! a floating-point library may differ in its last bit from one machine to another, and two members
//! would each think the other first.

use std::cmp::Ordering;

use crate::protocol::message::NodeId;
use crate::protocol::random::mix;
use crate::protocol::view::Group;
use crate::protocol::weight::Weight;

/// How well a node suits a group: its preference, then its share over the negated logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    weight: Weight,
    /// `-log2(h)`, with 32 bits after the point. Never zero.
    distance: u64,
    node: NodeId,
}

impl Score {
    pub(super) fn new(group: Group, node: NodeId, weight: Weight) -> Self {
        let hash = mix(mix(node.0) ^ group.0);
        Self {
            weight,
            distance: negative_log2(hash),
            node,
        }
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    /// The better one is the greater. Equal scores: the lesser id is the better.
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.weight.share()) * u128::from(other.distance);
        let right = u128::from(other.weight.share()) * u128::from(self.distance);
        let preference = self.weight.preference().cmp(&other.weight.preference());
        preference
            .then_with(|| left.cmp(&right))
            .then_with(|| other.node.cmp(&self.node))
    }
}

/// `-log2((n + 1) / 2^64)`, with 32 bits after the point, and at least one unit.
fn negative_log2(n: u64) -> u64 {
    let n = n.saturating_add(1);
    let whole = n.ilog2();
    // The mantissa in [1, 2), with 63 bits after the point.
    let mut mantissa = n << (63 - whole);
    let mut log = u64::from(whole);
    for _ in 0..32 {
        // Squaring doubles the logarithm: what reaches two is its next bit. The square has 126
        // bits after the point, of which the upper 64 bits are kept.
        let square = u128::from(mantissa) * u128::from(mantissa);
        let upper = u64::try_from(square >> 64).unwrap_or(u64::MAX);
        let carry = upper >> 63;
        log = (log << 1) | carry;
        mantissa = if carry == 1 { upper } else { upper << 1 };
    }
    (64_u64 << 32).saturating_sub(log).max(1)
}

/// The best of these for the group. Shares of zero take nothing.
pub(super) fn best(
    group: Group,
    candidates: impl IntoIterator<Item = (NodeId, Weight)>,
) -> Option<NodeId> {
    candidates
        .into_iter()
        .filter(|(_, weight)| weight.share() > 0)
        .map(|(node, weight)| Score::new(group, node, weight))
        .max()
        .map(|score| score.node)
}

/// Whether the first suits the group better than the second.
pub(super) fn suits_better(group: Group, one: (NodeId, Weight), other: (NodeId, Weight)) -> bool {
    Score::new(group, one.0, one.1) > Score::new(group, other.0, other.1)
}

/// How many of these suit the group better than `me` does.
pub(super) fn rank(
    group: Group,
    me: (NodeId, Weight),
    others: impl IntoIterator<Item = (NodeId, Weight)>,
) -> usize {
    let mine = Score::new(group, me.0, me.1);
    others
        .into_iter()
        .filter(|(node, weight)| Score::new(group, *node, *weight) > mine)
        .count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn pick(key: u64, nodes: &[(u64, u16)]) -> u64 {
        pick_preferred(key, nodes, 0)
    }

    /// The same where one node is preferred.
    fn pick_preferred(key: u64, nodes: &[(u64, u16)], preferred: u64) -> u64 {
        let nodes = nodes.iter().map(|(node, share)| {
            let preference = u16::from(*node == preferred);
            (NodeId(*node), Weight::new(preference, *share))
        });
        best(Group(mix(key)), nodes).unwrap().0
    }

    #[test]
    fn logarithm_is_right_to_nine_digits() {
        for n in [0, 1, 2, 1000, u64::MAX / 3, u64::MAX / 2, u64::MAX - 1] {
            let expected = 64.0 - ((n as f64) + 1.0).log2();
            let found = negative_log2(n) as f64 / f64::from(u32::MAX);
            assert!(
                (found - expected).abs() < 1e-7,
                "{n}: {found} not {expected}"
            );
        }
    }

    #[test]
    fn placement_is_stable_across_versions() {
        // Two releases side by side must agree, so these may not be edited.
        let picks: Vec<_> = (0..12)
            .map(|key| pick(key, &[(1, 100), (2, 100), (3, 50)]))
            .collect();
        assert_eq!(picks, [2, 1, 2, 2, 2, 2, 3, 3, 1, 2, 1, 3]);
    }

    #[test]
    fn keys_spread_by_weight() {
        let mut shares: BTreeMap<u64, u32> = BTreeMap::new();
        for key in 0..4000 {
            *shares
                .entry(pick(key, &[(1, 75), (2, 25), (3, 0)]))
                .or_default() += 1;
        }
        assert!((2850..3150).contains(&shares[&1]), "{shares:?}");
        assert_eq!(shares.get(&3), None);
    }

    #[test]
    fn only_keys_of_leaving_node_move() {
        for key in 0..1000 {
            let before = pick(key, &[(1, 100), (2, 100), (3, 100)]);
            if before != 3 {
                assert_eq!(before, pick(key, &[(1, 100), (2, 100)]));
            }
        }
    }

    #[test]
    fn preferred_node_gets_every_key() {
        for key in 0..1000 {
            assert_eq!(pick_preferred(key, &[(1, 100), (2, 25), (3, 100)], 2), 2);
            let without = pick_preferred(key, &[(1, 100), (3, 100)], 2);
            assert_eq!(without, pick(key, &[(1, 100), (3, 100)]));
        }
    }

    #[test]
    fn preferred_nodes_are_first_in_rank() {
        let member = |node: u64, preference| (NodeId(node), Weight::new(preference, 100));
        let others = [member(1, 0), member(2, 7), member(3, 200)];
        for key in 0..1000 {
            let rank = |preference| rank(Group(mix(key)), member(4, preference), others);
            assert_eq!(rank(201), 0);
            assert_eq!(rank(8), 1);
            assert_eq!(rank(6), 2);
            assert!(rank(0) >= 2);
        }
    }
}
