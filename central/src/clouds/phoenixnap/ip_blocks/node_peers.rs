//! What Nodes were told of their BGP peers.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Annotations of a Node; `None`: there is to be none.
pub(super) type Annotations = BTreeMap<String, Option<String>>;

/// What a Node was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodePeers {
    /// The address that it peers from.
    pub(super) source: Ipv4Addr,
    pub(super) annotations: Annotations,
}

/// What Nodes were told, by UID: a Node that is made again under its name knows nothing of it.
pub(super) type WrittenPeers = BTreeMap<String, NodePeers>;
