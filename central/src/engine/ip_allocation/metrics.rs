//! How many IP blocks there are, and what they cost every month.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

/// The blocks of this cluster, as far as this process knows. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct BlockMetrics {
    provider: &'static str,
    blocks: Family<BlockLabels, Gauge>,
    limit: Gauge,
    cost: Family<CostLabels, Gauge<f64, AtomicU64>>,
    /// The identifiers of what was counted last.
    held: Arc<watch::Sender<BTreeSet<String>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct BlockLabels {
    provider: &'static str,
    /// `28`, or `unknown` while the block is being bought.
    prefix_length: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CostLabels {
    provider: &'static str,
}

impl BlockMetrics {
    /// Registers them; `limit` is `--max-ip-blocks`.
    #[must_use]
    pub fn register(registry: &mut Registry, provider: &'static str, limit: usize) -> Self {
        let metrics = Self {
            provider,
            ..Self::default()
        };
        metrics.limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
        registry.register(
            "mooring_ip_blocks",
            "IP blocks that the cluster has, each of which costs money, by size and state",
            metrics.blocks.clone(),
        );
        registry.register(
            "mooring_ip_blocks_limit",
            "How many IP blocks the cluster may have: --max-ip-blocks",
            metrics.limit.clone(),
        );
        registry.register(
            "mooring_ip_blocks_cost_dollars_per_month",
            "What the IP blocks of the cluster cost per month in US dollars, as the billing of the cloud rates them",
            metrics.cost.clone(),
        );
        metrics
    }

    /// These are all: of each its id, its prefix length, unless it is being bought, and what it is in a word.
    pub fn count<'a>(&self, blocks: impl Iterator<Item = (&'a str, Option<u8>, &'static str)>) {
        let mut counts = BTreeMap::new();
        let mut held = BTreeSet::new();
        for (id, prefix, state) in blocks {
            held.insert(id.to_owned());
            let labels = BlockLabels {
                provider: self.provider,
                prefix_length: prefix.map_or_else(|| "unknown".to_owned(), |it| it.to_string()),
                state,
            };
            *counts.entry(labels).or_insert(0) += 1;
        }
        self.blocks.clear();
        for (labels, count) in counts {
            self.blocks.get_or_create(&labels).set(count);
        }
        self.held.send_if_modified(|known| {
            let is_new = *known != held;
            *known = held;
            is_new
        });
    }

    /// The identifiers of the blocks, as they are counted.
    pub fn held(&self) -> watch::Receiver<BTreeSet<String>> {
        self.held.subscribe()
    }

    /// What they cost per month in US dollars. `None`: there are none.
    pub fn set_cost(&self, cost: Option<f64>) {
        self.cost.clear();
        if let Some(cost) = cost {
            let provider = self.provider;
            self.cost.get_or_create(&CostLabels { provider }).set(cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_size_and_state_and_forgets_what_is_released() {
        let mut registry = Registry::default();
        let metrics = BlockMetrics::register(&mut registry, "cloud", 7);
        let blocks = [
            ("a", Some(28), "assigned"),
            ("b", Some(28), "assigned"),
            ("c", Some(29), "releasing"),
            ("d", None, "creating"),
        ];
        metrics.count(blocks.into_iter());
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let line = |prefix: &str, state: &str, count: u8| {
            format!(
                "mooring_ip_blocks{{provider=\"cloud\",prefix_length=\"{prefix}\",state=\"{state}\"}} {count}"
            )
        };
        for line in [
            line("28", "assigned", 2),
            line("29", "releasing", 1),
            line("unknown", "creating", 1),
            "mooring_ip_blocks_limit 7".to_owned(),
        ] {
            assert!(text().lines().any(|l| l == line), "{line}: {}", text());
        }
        metrics.count(blocks.into_iter().take(1));
        assert!(text().contains(&line("28", "assigned", 1)), "{}", text());
        assert!(!text().contains("releasing"), "{}", text());
    }
}
