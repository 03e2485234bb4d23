//! Rendezvous hashing: which of several candidates an address goes to.
//!
//! Every daemon computes the same answer from the same candidates, without a word between them.
//! When a candidate comes or goes, only addresses that it gains or had move.

use sha2::{Digest, Sha256};

/// A node that may take the address, and how much of all addresses it should get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<'a> {
    /// The Node's name.
    pub node: &'a str,
    /// Its share relative to the others; zero and below take nothing.
    pub weight: f64,
}

impl<'a> Candidate<'a> {
    /// A candidate that counts like any other.
    #[must_use]
    pub const fn new(node: &'a str) -> Self {
        Self { node, weight: 1.0 }
    }
}

/// The candidate with the highest score for `key`; `None` if there is none.
///
/// The score is `-weight / ln(h)`, with `h` in (0, 1) made of node and key by SHA-256, so that a
/// candidate gets addresses in proportion to its weight. Equal scores go to the lesser name.
#[must_use]
pub fn choose<'a>(
    key: &str,
    candidates: impl IntoIterator<Item = Candidate<'a>>,
) -> Option<&'a str> {
    candidates
        .into_iter()
        .filter(|candidate| candidate.weight > 0.0)
        .map(|candidate| (score(key, candidate), candidate.node))
        .max_by(|(a, left), (b, right)| a.total_cmp(b).then_with(|| right.cmp(left)))
        .map(|(_, node)| node)
}

fn score(key: &str, candidate: Candidate<'_>) -> f64 {
    // No node's name holds a '#', so that no two pairs of node and key make the same text.
    let mut hasher = Sha256::new();
    hasher.update(candidate.node.as_bytes());
    hasher.update(b"#");
    hasher.update(key.as_bytes());
    let digest = hasher.finalize();
    let first = digest
        .iter()
        .take(7)
        .fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
    // 52 bits, so that the half below is exact and h is neither 0 nor 1.
    let bits = u32::try_from(first >> 30).unwrap_or(u32::MAX);
    let low = u32::try_from(first >> 4 & 0x3ff_ffff).unwrap_or(u32::MAX);
    let h = (f64::from(bits) * 67_108_864.0 + f64::from(low) + 0.5) / 4_503_599_627_370_496.0;
    -candidate.weight / h.ln()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn pick<'a>(key: &str, nodes: &'a [String]) -> Option<&'a str> {
        choose(key, nodes.iter().map(|node| Candidate::new(node)))
    }

    fn nodes(count: usize) -> Vec<String> {
        (0..count).map(|i| format!("node-{i}")).collect()
    }

    fn keys() -> impl Iterator<Item = String> {
        (0..4000).map(|i| format!("10.0.{}.{}", i / 250, i % 250))
    }

    #[test]
    fn the_answers_never_change() {
        // Two releases side by side must agree, so these may not be edited.
        let nodes = nodes(3);
        let picks: Vec<_> = ["192.0.2.10", "192.0.2.11", "192.0.2.12", "2001:db8::10"]
            .iter()
            .map(|key| pick(key, &nodes).unwrap())
            .collect();
        assert_eq!(picks, ["node-0", "node-1", "node-2", "node-2"]);
    }

    #[test]
    fn nobody_is_chosen_from_nobody() {
        assert_eq!(choose("192.0.2.10", []), None);
        let nothing = Candidate {
            node: "a",
            weight: 0.0,
        };
        assert_eq!(choose("192.0.2.10", [nothing]), None);
    }

    #[test]
    fn addresses_are_shared_evenly() {
        let nodes = nodes(8);
        let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
        for key in keys() {
            *shares.entry(pick(&key, &nodes).unwrap()).or_default() += 1;
        }
        assert_eq!(shares.len(), 8);
        for (node, share) in shares {
            assert!(
                (400..600).contains(&share),
                "{node} has {share} of 4000, not about 500"
            );
        }
    }

    #[test]
    fn addresses_are_shared_by_weight() {
        let candidates = [
            Candidate {
                node: "heavy",
                weight: 3.0,
            },
            Candidate {
                node: "light",
                weight: 1.0,
            },
        ];
        let heavy = keys()
            .filter(|key| choose(key, candidates) == Some("heavy"))
            .count();
        assert!(
            (2850..3150).contains(&heavy),
            "{heavy} of 4000, not about 3000"
        );
    }

    proptest! {
        #[test]
        fn only_what_a_leaving_node_had_moves(count in 2..20_usize, leaver in 0..20_usize) {
            let all = nodes(count);
            let mut rest = all.clone();
            let gone = rest.remove(leaver % count);
            for key in keys().take(300) {
                let before = pick(&key, &all);
                if before != Some(gone.as_str()) {
                    prop_assert_eq!(before, pick(&key, &rest));
                }
            }
        }

        #[test]
        fn the_order_of_the_candidates_does_not_matter(seed in any::<u64>(), count in 1..10_usize) {
            let all = nodes(count);
            let mut turned = all.clone();
            turned.rotate_left(usize::try_from(seed % 10).unwrap() % count);
            let key = format!("10.0.0.{}", seed % 256);
            prop_assert_eq!(pick(&key, &all), pick(&key, &turned));
        }
    }
}
