//! Servers that are to be members of the public network: its VLAN reaches no others.

use std::sync::Arc;
use std::time::Duration;

use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;
use tokio::time::Instant;

use super::super::api::public_networks::Network;
use super::super::facts;
use super::garbage_collector::AFTER_FAILURE;
use super::state::Blocks;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};
use crate::engine::address_blocks::Observe as _;

/// The Nodes that carry traffic and whose servers are not in the network, by name, with the server's id.
/// Nothing follows for a Node that is not (yet) known to be one of this cloud.
pub(super) fn non_members(network: &Network, nodes: &[Arc<NodeView>]) -> Vec<(String, String)> {
    let Some(members) = &network.servers else {
        return Vec::new();
    };
    let non_member = |node: &Arc<NodeView>| {
        let id = facts::parse_id(node.provider_id.as_deref()?).ok()?;
        let server = id.instance().to_owned();
        let is_missing = node.carries_traffic() && !members.contains(&server);
        is_missing.then(|| (node.name.clone(), server))
    };
    let mut all: Vec<_> = nodes.iter().filter_map(non_member).collect();
    all.sort();
    all
}

/// Whether a refusal says that the server is a member of the network. The same status (409) says that
/// the network takes no change now, so that the words decide.
fn is_already_member(error: &CloudError) -> bool {
    let words = error.words.as_deref().unwrap_or_default().to_lowercase();
    error.kind == ErrorKind::Busy && words.contains("already") && words.contains("member")
}

impl Blocks {
    /// Those of these Nodes whose servers are not in the network, by what is known of it.
    fn non_members_of(&self, nodes: &[Arc<NodeView>]) -> Vec<(String, String)> {
        let network = self.network.as_ref();
        network.map_or_else(Vec::new, |(network, _)| non_members(network, nodes))
    }

    /// These servers are not in the network. When the last of them was seen first: only what is younger
    /// proves it. `None`: there are none.
    fn sees_non_members(&mut self, all: &[(String, String)]) -> Option<Instant> {
        let is_one = |server: &str| all.iter().any(|(_, one)| one == server);
        self.non_members.retain(|server, _| is_one(server));
        self.refused_servers.retain(|server| is_one(server));
        for (_, server) in all {
            let seen = self.non_members.entry(server.clone());
            seen.or_insert_with(Instant::now);
        }
        self.non_members.values().max().copied()
    }

    /// Makes Nodes' servers members of the network, or tells which of them are not. When to look
    /// again if some are on their way: while one joins, the network may take no other, and then
    /// each of them must not cost more than that.
    ///
    /// # Errors
    /// [`ReconcileError`] if the process is to do nothing any more.
    pub(super) async fn look_after_members(
        &mut self,
        context: &dyn CollectorContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        let nodes = context.nodes();
        let Some(network) = self.network.as_ref().map(|(network, _)| network.id.clone()) else {
            return Ok(None);
        };
        // A server may have become a member after the network was looked at.
        let suspected = self.non_members_of(&nodes);
        if let Some(since) = self.sees_non_members(&suspected) {
            self.look_at_network(since).await?;
        }
        let all = self.non_members_of(&nodes);
        if all.is_empty() {
            return Ok(None);
        }
        let reason = reasons::NODE_NOT_IN_NETWORK;
        if !self.settings.flags.attaches_nodes {
            let names: Vec<&str> = all.iter().map(|(node, _)| node.as_str()).collect();
            let note = format!(
                "The servers of these Nodes are not in the public network {network}, so that its \
                 VLAN does not reach them and they cannot announce addresses: {}. Add them in the \
                 portal, or start mooring-central with --attach-nodes",
                names.join(", ")
            );
            self.state.reports.warn(context, reason, note).await;
            return Ok(None);
        }
        for (node, server) in all {
            if let Some(left) = self.busy.left(&network) {
                return Ok(Some(left));
            }
            if self.refused_servers.left(&server).is_some() {
                continue;
            }
            context.before_write()?;
            match self.cloud.add_server(&network, &server).await {
                Err(error) if !is_already_member(&error) => {
                    if error.kind == ErrorKind::Busy {
                        if self.is_busy(&network).await {
                            return Ok(Some(self.set_busy(&network, &error)));
                        }
                        if !self.refused_servers.add(&server) {
                            continue;
                        }
                    }
                    let note = format!(
                        "The server {server} of the Node {node} cannot be made a member of the public \
                         network {network}: {error}"
                    );
                    self.state.reports.warn(context, reason, note).await;
                    continue;
                }
                _ => tracing::info!(node, server, network, "a server is a member of the network"),
            }
            if let Some((network, _)) = &mut self.network {
                network.servers.get_or_insert_default().push(server);
            }
        }
        Ok(Some(AFTER_FAILURE))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use mooring_common::k8s::Slim;
    use serde_json::json;

    use super::*;
    use crate::clouds::phoenixnap::ip_blocks::testing::network;

    fn node(name: &str, id: Option<&str>) -> Arc<NodeView> {
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": id}});
        let node: Node = serde_json::from_value(node).unwrap();
        Arc::new(NodeView::slim(node))
    }

    #[test]
    fn lists_known_non_members_of_this_cloud_only() {
        let nodes = [
            node("b", Some("phoenixnap://5f1b0c2509268bc77fd06d22")),
            node("a", Some("phoenixnap://5f1b0c2509268bc77fd06d21")),
            node("in", Some("phoenixnap://5f1b0c2509268bc77fd06d20")),
            node("new", None),
            node("other", Some("aws:///x")),
        ];
        let mut network = network();
        network.servers = Some(vec!["5f1b0c2509268bc77fd06d20".to_owned()]);
        let names: Vec<String> = non_members(&network, &nodes)
            .into_iter()
            .map(|(node, _)| node)
            .collect();
        assert_eq!(names, ["a", "b"]);
        network.servers = None;
        assert!(non_members(&network, &nodes).is_empty());
    }
}
