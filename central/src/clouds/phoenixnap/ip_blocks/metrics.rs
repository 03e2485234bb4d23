//! How many IP blocks there are: each costs money every month.

use std::collections::BTreeMap;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::ownership::{Owned, Owner};
use crate::clouds::phoenixnap::api::ip_blocks::BlockStatus;

/// The blocks of this cluster, as far as this process knows. Clones count together.
#[derive(Clone, Debug, Default)]
pub(in crate::clouds::phoenixnap) struct BlockMetrics {
    blocks: Family<BlockLabels, Gauge>,
    limit: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct BlockLabels {
    provider: &'static str,
    /// `28`, or `unknown` while the block is being bought.
    prefix_length: String,
    state: &'static str,
}

/// What a block is, in a word.
const fn state(owned: &Owned) -> &'static str {
    match (owned.block.status, &owned.owner) {
        (status, _) if status.is_error() => "error",
        (BlockStatus::Creating, _) => "creating",
        (_, Owner::Marked) => "releasing",
        (_, Owner::Unclear) => "unclear",
        (BlockStatus::Assigned, _) => "assigned",
        _ => "unassigned",
    }
}

impl BlockMetrics {
    /// Registers them; `limit` is `--max-ip-blocks`.
    #[must_use]
    pub(in crate::clouds::phoenixnap) fn register(registry: &mut Registry, limit: usize) -> Self {
        let metrics = Self::default();
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
        metrics
    }

    /// These are all.
    pub(super) fn count(&self, blocks: &[Owned]) {
        let mut counts = BTreeMap::new();
        for owned in blocks {
            let prefix_length = match owned.block.status {
                BlockStatus::Creating => "unknown".to_owned(),
                _ => owned.block.cidr.prefix_len().to_string(),
            };
            let labels = BlockLabels {
                provider: super::NAME,
                prefix_length,
                state: state(owned),
            };
            *counts.entry(labels).or_insert(0) += 1;
        }
        self.blocks.clear();
        for (labels, count) in counts {
            self.blocks.get_or_create(&labels).set(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::block;
    use super::*;

    #[test]
    fn counts_by_size_and_state_and_forgets_what_is_released() {
        let mut registry = Registry::default();
        let metrics = BlockMetrics::register(&mut registry, 7);
        let owned = |id: &str, cidr: &str, status: BlockStatus, owner: Owner| {
            let mut block = block(id, cidr);
            block.status = status;
            Owned { block, owner }
        };
        let pool = || Owner::Pool("net".to_owned());
        let blocks = [
            owned("a", "192.0.2.0/28", BlockStatus::Assigned, pool()),
            owned("b", "192.0.2.16/28", BlockStatus::Assigned, pool()),
            owned("c", "192.0.2.32/29", BlockStatus::Assigned, Owner::Marked),
            owned("d", "192.0.2.40/29", BlockStatus::ErrorAssigning, pool()),
        ];
        metrics.count(&blocks);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let line = |prefix: u8, state: &str, count: u8| {
            format!(
                "mooring_ip_blocks{{provider=\"phoenixnap\",prefix_length=\"{prefix}\",state=\"{state}\"}} {count}"
            )
        };
        for line in [
            line(28, "assigned", 2),
            line(29, "releasing", 1),
            line(29, "error", 1),
            "mooring_ip_blocks_limit 7".to_owned(),
        ] {
            assert!(text().lines().any(|l| l == line), "{line}: {}", text());
        }
        metrics.count(&blocks[..1]);
        assert!(text().contains(&line(28, "assigned", 1)), "{}", text());
        assert!(!text().contains("releasing"), "{}", text());
    }
}
