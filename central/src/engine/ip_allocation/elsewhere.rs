//! What is known of the account beside the cluster's blocks and their network.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use ipnet::Ipv4Net;
use mooring_common::node_view::NodeView;
use tokio::time::Instant;

use crate::cloud_api::Entries;

/// It.
#[derive(Debug, Default)]
pub struct Elsewhere {
    /// All blocks, whoever's, by id, and when they were listed. `None`: nothing has called for it.
    blocks: Option<(Entries<(String, Ipv4Net)>, Instant)>,
    /// The addresses of Nodes.
    nodes: BTreeSet<Ipv4Addr>,
}

impl Elsewhere {
    /// The block that has this address, whoever's it is.
    #[must_use]
    pub fn block_of(&self, address: Ipv4Addr) -> Option<&str> {
        let (blocks, _) = self.blocks.as_ref()?;
        let found = blocks.read.iter().find(|(_, cidr)| cidr.contains(&address));
        found.map(|(id, _)| id.as_str())
    }

    /// Whether no block has this address, as far as all were asked for: each of them could be read.
    #[must_use]
    pub fn lacks(&self, address: Ipv4Addr) -> bool {
        let blocks = self.blocks.as_ref();
        blocks.is_none_or(|(all, _)| all.unread.is_empty()) && self.block_of(address).is_none()
    }

    /// Whether a Node has this address.
    #[must_use]
    pub fn is_a_nodes(&self, address: Ipv4Addr) -> bool {
        self.nodes.contains(&address)
    }

    /// The cluster has these Nodes.
    pub fn sees_nodes<'a>(&mut self, nodes: impl Iterator<Item = &'a Arc<NodeView>>) {
        let addresses = nodes.flat_map(|node| &node.addresses);
        let read = addresses.filter_map(|address| address.address.parse().ok());
        self.nodes = read.collect();
    }

    /// Whether all blocks were listed then or later.
    #[must_use]
    pub fn is_known(&self, since: Instant) -> bool {
        let known = self.blocks.as_ref();
        known.is_some_and(|(_, begun)| *begun >= since)
    }

    /// All blocks were listed; the listing was begun then.
    pub fn listed(&mut self, blocks: Entries<(String, Ipv4Net)>, begun: Instant) {
        self.blocks = Some((blocks, begun));
    }

    /// Forgets blocks that were listed before.
    pub fn expires(&mut self, before: Instant) {
        let known = self.blocks.take();
        self.blocks = known.filter(|(_, begun)| *begun >= before);
    }
}
