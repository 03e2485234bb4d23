//! What is known of the account beside the cluster's blocks and its public network.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::Ipv4Net;
use mooring_common::node_view::NodeView;
use tokio::time::Instant;

/// It.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// All blocks, whoever's, and when they were listed. `None`: nothing has called for it.
    pub(super) blocks: Option<(Vec<(String, Ipv4Net)>, Instant)>,
    /// The addresses of Nodes.
    nodes: BTreeSet<Ipv4Addr>,
}

impl Elsewhere {
    /// The block that has this address, whoever's it is.
    pub(super) fn block_of(&self, address: Ipv4Addr) -> Option<&str> {
        let (blocks, _) = self.blocks.as_ref()?;
        let found = blocks.iter().find(|(_, cidr)| cidr.contains(&address));
        found.map(|(id, _)| id.as_str())
    }

    /// Whether a Node has this address.
    pub(super) fn is_a_nodes(&self, address: Ipv4Addr) -> bool {
        self.nodes.contains(&address)
    }

    /// The cluster has these Nodes.
    pub(super) fn sees_nodes(&mut self, nodes: &[Arc<NodeView>]) {
        let addresses = nodes.iter().flat_map(|node| &node.addresses);
        let read = addresses.filter_map(|address| address.address.parse().ok());
        self.nodes = read.collect();
    }

    /// Forgets blocks that were listed before.
    pub(super) fn expires(&mut self, before: Instant) {
        let known = self.blocks.take();
        self.blocks = known.filter(|(_, begun)| *begun >= before);
    }
}
