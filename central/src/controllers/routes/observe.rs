//! The Nodes with machines of the cloud, the routes that there are, and those that there were to be.

use std::collections::HashMap;
use std::sync::Arc;

use ipnet::IpNet;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use super::Controller;
use crate::cloud_api::CloudError;
use crate::cloud_provider::pod_network::{Route, RouteListing, RouteTable};

/// One Node of the cloud.
#[derive(Clone, Debug)]
pub(super) struct NodeRoutes {
    pub(super) node: Arc<NodeView>,
    pub(super) machine: ProviderId,
    pub(super) pod_cidrs: Vec<IpNet>,
}

/// What a pass goes by.
#[derive(Clone, Debug, Default)]
pub(super) struct Observed {
    /// The oldest first.
    pub(super) nodes: Vec<NodeRoutes>,
    pub(super) table: RouteTable,
    /// What Nodes have called for, and the last Node that did.
    pub(super) seen: HashMap<Route, String>,
}

impl Controller {
    /// With a listing that was begun at `since` or later; `None`: an older one will do.
    pub(super) async fn observe(&self, since: Option<Instant>) -> Result<Observed, CloudError> {
        let RouteListing { begun, mut table } = self.routes.list(since).await?;
        self.attempts().show_written(begun, &mut table);
        // After the listing: a route that is on its way to a Node that has just come is no orphan.
        let nodes = self.context.nodes.all().into_iter();
        let mut nodes: Vec<NodeRoutes> = nodes.filter_map(|(_, node)| self.node(node)).collect();
        nodes.sort_by_cached_key(|one| (one.node.created, one.node.name.clone()));
        Ok(Observed {
            nodes,
            table,
            seen: self.history.all(),
        })
    }

    /// None of another provider, nor of one whose machine is not known yet.
    fn node(&self, node: Arc<NodeView>) -> Option<NodeRoutes> {
        let id = self
            .context
            .instances
            .read_id(node.provider_id.as_deref()?)?;
        let machine = id.ok().filter(|id| id.scheme() == self.routes.provider())?;
        let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse().ok());
        Some(NodeRoutes {
            pod_cidrs: cidrs.collect(),
            machine,
            node,
        })
    }
}
