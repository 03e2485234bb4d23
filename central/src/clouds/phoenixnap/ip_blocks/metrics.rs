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
