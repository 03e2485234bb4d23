//! Reads a NodeBalancer with all its parts.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use mooring_common::names::linode_tags;
use tokio::time::Instant;

use super::super::api::node_balancers::{CONFIGS, NODES, NodeBalancer, marked};
use super::NodeBalancers;
use super::observed::{Config, Observed};
use crate::cloud_api::CloudError;
use crate::engine::provider::Listed as _;

/// How many lists of nodes are asked for at once.
const NODE_LISTS: usize = 4;

impl NodeBalancers {
    /// A NodeBalancer with all its parts as they were at `since` or later, and since when that holds.
    pub(super) async fn observe_parts(
        &self,
        listed: &NodeBalancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        let begun = Instant::now();
        let firewalls = self.firewalls.get(since).await?;
        let configs: Vec<Config> = self.cloud.all(&CONFIGS, &[&listed.id]).await?;
        let configs: Vec<Config> = stream::iter(configs)
            .map(|mut config| async move {
                let of = [&*listed.id, &*config.part.id];
                config.nodes = self.cloud.all(&NODES, &of).await?;
                Ok::<_, CloudError>(config)
            })
            .buffered(NODE_LISTS)
            .try_collect()
            .await?;
        let owner = listed.owner();
        let protecting = |firewall: &&_| super::firewalls::Firewall::protects(firewall, &listed.id);
        let (attached, others): (Vec<_>, Vec<_>) = firewalls
            .all
            .iter()
            .partition(|firewall| protecting(firewall));
        // One that nobody has marked yet may become any Service's, whose plan knows its own marks.
        let may_be_own = |firewall: &&&super::firewalls::Firewall| {
            let marked = marked(&firewall.tags, linode_tags::SERVICE);
            marked.is_some() && (marked == owner || owner.is_none())
        };
        let observed = Observed {
            balancer: listed.clone(),
            configs,
            attached: attached.into_iter().cloned().collect(),
            loose: others.iter().filter(may_be_own).copied().cloned().collect(),
        };
        Ok((observed, begun.min(firewalls.begun)))
    }
}
