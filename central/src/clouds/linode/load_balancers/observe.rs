//! Reads a NodeBalancer with all its parts.

use std::net::SocketAddr;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use mooring_common::names::linode_tags;
use tokio::time::Instant;

use super::super::api::node_balancers::{self, ListedConfig, ListedNode, NodeBalancer, marked};
use super::super::{NAME, pages};
use super::NodeBalancers;
use super::model::{ConfigSpec, NodeSpec};
use super::observed::{Config, Observed};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::engine::provider::Listed as _;
use crate::engine::step::Part;

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
        let client = &self.cloud.client;
        let configs: Vec<ListedConfig> =
            pages::all(client, &node_balancers::configs(&listed.id)).await?;
        let configs: Vec<Config> = stream::iter(configs)
            .map(|config| async move {
                let request = node_balancers::nodes(&listed.id, &config.id.to_string());
                let nodes: Vec<ListedNode> = pages::all(client, &request).await?;
                read(config, nodes)
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
        let is_own = |firewall: &&&super::firewalls::Firewall| {
            let marked = marked(&firewall.tags, linode_tags::SERVICE);
            marked.is_some() && marked == owner && firewall.entities.is_empty()
        };
        let observed = Observed {
            balancer: listed.clone(),
            configs,
            attached: attached.into_iter().cloned().collect(),
            loose: others.iter().filter(is_own).copied().cloned().collect(),
        };
        Ok((observed, begun.min(firewalls.begun)))
    }
}

fn read(config: ListedConfig, nodes: Vec<ListedNode>) -> Result<Config, CloudError> {
    let nodes: Result<Vec<_>, _> = nodes.into_iter().map(node).collect();
    Ok(Config {
        part: Part {
            id: config.id.to_string(),
            spec: ConfigSpec {
                port: config.port,
                protocol: config.protocol,
                proxy_protocol: config.proxy_protocol,
                algorithm: config.algorithm,
                stickiness: config.stickiness,
                check: config.check,
                check_interval: config.check_interval,
                check_timeout: config.check_timeout,
                check_attempts: config.check_attempts,
                check_path: config.check_path,
                check_body: config.check_body,
                check_passive: config.check_passive,
                udp_check_port: config.udp_check_port,
                tls: None,
            },
        },
        fingerprint: config.ssl_fingerprint,
        nodes: nodes?,
    })
}

fn node(listed: ListedNode) -> Result<Part<NodeSpec>, CloudError> {
    let Ok(target) = listed.address.parse::<SocketAddr>() else {
        let what = format!("node {} has the address {:?}", listed.id, listed.address);
        return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
    };
    Ok(Part {
        id: listed.id.to_string(),
        spec: NodeSpec {
            label: listed.label,
            ip: target.ip().to_string(),
            port: target.port(),
            weight: listed.weight,
            // Of UDP there is none to set.
            mode: listed.mode.filter(|mode| mode != "none"),
            subnet: None,
        },
    })
}
