//! BGP: what those who speak it on a Node are told, in annotations of the Node.
//!
//! The keys are those that the Go controllers of this family write, so that kube-vip finds them with
//! its option `annotations`: peers are counted from 0, and what holds for all of them is repeated.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use mooring_common::node_addresses::NodeAddressKind;
use mooring_common::node_view::NodeView;

/// How the keys begin.
pub(super) const PREFIX: &str = "phoenixnap.com/";
/// The cloud's number.
const CLOUD_ASN: u32 = 65400;

/// A peer group, as far as Nodes are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::clouds::phoenixnap) struct Peers {
    /// The number of the side that Nodes are on.
    pub(in crate::clouds::phoenixnap) asn: u32,
    /// The routers.
    pub(in crate::clouds::phoenixnap) routers: Vec<Ipv4Addr>,
    /// Whether they are more than one hop away.
    pub(in crate::clouds::phoenixnap) is_multi_hop: bool,
}

/// The annotations of a Node that speaks from this address.
pub(super) fn annotations(peers: &Peers, source: Ipv4Addr) -> BTreeMap<String, String> {
    let mut routers = peers.routers.clone();
    routers.sort_unstable();
    let mut all = BTreeMap::new();
    for (number, router) in routers.iter().enumerate() {
        let mut put = |key: &str, value: String| {
            all.insert(format!("{PREFIX}bgp-peers-{number}-{key}"), value);
        };
        put("node-asn", peers.asn.to_string());
        put("peer-asn", CLOUD_ASN.to_string());
        put("peer-ip", router.to_string());
        put("src-ip", source.to_string());
        put("peer-multi-hop", peers.is_multi_hop.to_string());
    }
    all
}

/// The address that a Node peers from: it must be a public one.
pub(super) fn source(node: &NodeView) -> Option<Ipv4Addr> {
    let external = |kind| kind == NodeAddressKind::ExternalIp;
    let mut public = node.addresses.iter().filter(|address| external(address.kind));
    public.find_map(|address| address.address.parse().ok())
}

/// What is to be written on which Nodes, by name: those that can peer, and do not say so yet.
pub(super) fn missing(
    peers: &Peers,
    nodes: &[Arc<NodeView>],
    written: &BTreeMap<String, BTreeMap<String, String>>,
) -> BTreeMap<String, BTreeMap<String, String>> {
    let wanted = nodes.iter().filter_map(|node| {
        let wanted = annotations(peers, source(node)?);
        let is_written = written.get(&node.name) == Some(&wanted);
        (!is_written && !node.deleting).then(|| (node.name.clone(), wanted))
    });
    wanted.collect()
}
