//! BGP: what those who speak it on a Node are told, in annotations of the Node.
//!
//! The keys are those that the Go controllers of this family write, so that kube-vip finds them with
//! its option `annotations`: peers are counted from 0, and what holds for all of them is repeated.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use mooring_common::names::reasons;
use mooring_common::node_addresses::AddressType;
use mooring_common::node_view::NodeView;

use super::super::annotations::BGP_PEERS;
use super::super::api::bgp::Peers;
use super::super::facts;
use super::super::setting::Setting;
use super::state::{Blocks, WrittenPeers};
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};
use crate::engine::cluster::NodeAnnotations;

/// The cloud's number.
const CLOUD_ASN: u32 = 65400;

/// Of how many routers that a peer group no longer has, what Nodes were told is taken back. All groups have two today.
const GONE: usize = 2;

/// When to look again for a peer group that is not ready.
const AGAIN: Duration = Duration::from_secs(60);

/// The annotations of a Node that speaks from this address.
pub(super) fn annotations(peers: &Peers, source: Ipv4Addr) -> NodeAnnotations {
    let mut routers = peers.routers.clone();
    routers.sort_unstable();
    let gone = std::iter::repeat_n(None, GONE);
    let mut all = BTreeMap::new();
    for (number, router) in routers.into_iter().map(Some).chain(gone).enumerate() {
        let ip = router.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let mut put = |key: &str, value: String| {
            let key = format!("{}{number}-{key}", BGP_PEERS.key);
            all.insert(key, router.map(|_| value));
        };
        put("node-asn", peers.asn.to_string());
        put("peer-asn", CLOUD_ASN.to_string());
        put("peer-ip", ip.to_string());
        put("src-ip", source.to_string());
        put("peer-multi-hop", peers.is_multi_hop.to_string());
    }
    all
}

/// The address that a Node peers from: it must be a public one. The routers are reached from no other cloud.
pub(super) fn source(node: &NodeView) -> Option<Ipv4Addr> {
    let is_here = node.provider_id.as_deref().is_none_or(facts::is_ours);
    let mut addresses = node.addresses.iter().filter(|_| is_here);
    addresses.find_map(|address| match address.kind {
        AddressType::ExternalIP => address.address.parse().ok(),
        _ => None,
    })
}

/// What is to be written on which Nodes: those that can peer, and do not say so yet.
pub(super) fn missing<'a>(
    peers: &Peers,
    nodes: &'a [Arc<NodeView>],
    told: &WrittenPeers,
) -> Vec<(&'a NodeView, (Ipv4Addr, NodeAnnotations))> {
    let wanted = nodes.iter().filter_map(|node| {
        let source = source(node)?;
        let wanted = (source, annotations(peers, source));
        let is_told = told.get(&node.uid) == Some(&wanted);
        (!is_told && !node.deleting).then_some((&**node, wanted))
    });
    wanted.collect()
}

impl Blocks {
    /// Tells Nodes of their peers, if addresses are announced by BGP. When to look again, if they could not be told.
    ///
    /// # Errors
    /// [`ReconcileError`] unless all have been told who can be.
    pub(super) async fn write_peers(
        &mut self,
        context: &dyn CollectorContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Setting::Bgp(group) = &self.settings.setting else {
            return Ok(None);
        };
        let nodes = context.nodes();
        let is_told = |node: &Arc<NodeView>| {
            let told = self.annotated.get(&node.uid).map(|(source, _)| *source);
            told == source(node) || source(node).is_none()
        };
        if nodes.iter().all(is_told) {
            return Ok(None);
        }
        let location = self.settings.location.as_deref().unwrap_or_default();
        let peers = self.cloud.peers(group.as_deref(), location).await?;
        let Some(peers) = peers.filter(|peers| peers.is_ready) else {
            let which = match group {
                Some(id) => format!("The BGP peer group {id} is not there, or not ready"),
                None => format!("There is no BGP peer group in {location} that is ready"),
            };
            let note = format!(
                "{which}, so that Nodes are not told whom to announce addresses to; see to it in the \
                 portal"
            );
            self.state
                .reports
                .warn(context, reasons::NO_PEER_GROUP, note)
                .await;
            return Ok(Some(AGAIN));
        };
        let is_there = |uid: &String| nodes.iter().any(|node| node.uid == *uid);
        self.annotated.retain(|uid, _| is_there(uid));
        for (node, wanted) in missing(&peers, &nodes, &self.annotated) {
            context.before_write()?;
            self.state
                .cluster
                .annotate_node(&node.name, &wanted.1)
                .await?;
            tracing::info!(node = node.name, "told a Node of its BGP peers");
            self.annotated.insert(node.uid.clone(), wanted);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use mooring_common::k8s::Slim;
    use serde_json::json;

    use super::*;

    fn node(name: &str, uid: &str, address: &str) -> Arc<NodeView> {
        let node = json!({
            "metadata": {"name": name, "uid": uid},
            "status": {"addresses": [{"type": "ExternalIP", "address": address}]},
        });
        let node: Node = serde_json::from_value(node).unwrap();
        Arc::new(NodeView::slim(node))
    }

    #[test]
    fn writes_both_routers_once_on_public_node() {
        let peers = Peers {
            asn: 65401,
            routers: ["169.254.247.1", "169.254.247.0"]
                .map(|a| a.parse().unwrap())
                .into(),
            is_multi_hop: true,
            is_ready: true,
            location: Some("PHX".to_owned()),
        };
        let with_id = |name, uid, id: &str| {
            let mut node = node(name, uid, "198.51.100.9");
            Arc::make_mut(&mut node).provider_id = Some(id.to_owned());
            node
        };
        let nodes = [
            node("a", "1", "198.51.100.1"),
            node("v6", "2", "2001:db8::1"),
            with_id("elsewhere", "4", "linode://7"),
            with_id("here", "5", "phoenixnap://5f1b0c2509268bc77fd06d21"),
        ];
        let told = |peers: &Peers, nodes: &[Arc<NodeView>], before: &WrittenPeers| {
            let missing = missing(peers, nodes, before).into_iter();
            missing
                .map(|(node, told)| (node.uid.clone(), told))
                .collect::<WrittenPeers>()
        };
        let first = told(&peers, &nodes, &WrittenPeers::new());
        assert_eq!(first.keys().collect::<Vec<_>>(), ["1", "5"]);
        let of_a: BTreeMap<_, _> = first["1"]
            .1
            .iter()
            .filter_map(|(k, v)| Some((k, v.as_ref()?)))
            .collect();
        assert_eq!(of_a.len(), 10);
        for (key, value) in [
            ("phoenixnap.com/bgp-peers-0-peer-ip", "169.254.247.0"),
            ("phoenixnap.com/bgp-peers-1-peer-ip", "169.254.247.1"),
            ("phoenixnap.com/bgp-peers-1-peer-asn", "65400"),
            ("phoenixnap.com/bgp-peers-0-node-asn", "65401"),
            ("phoenixnap.com/bgp-peers-0-src-ip", "198.51.100.1"),
            ("phoenixnap.com/bgp-peers-0-peer-multi-hop", "true"),
        ] {
            assert_eq!(of_a[&key.to_owned()], value, "{key}");
        }
        assert!(missing(&peers, &nodes, &first).is_empty());
        // Made again under its name, or with another address.
        for again in [
            node("a", "3", "198.51.100.1"),
            node("a", "1", "198.51.100.2"),
        ] {
            let uid = again.uid.clone();
            let again = told(&peers, &[again], &first);
            assert_eq!(again.keys().collect::<Vec<_>>(), [&uid]);
        }
        let one = Peers {
            routers: vec![Ipv4Addr::new(169, 254, 247, 0)],
            ..peers
        };
        let told = &told(&one, &nodes, &first)["1"].1;
        assert!(told["phoenixnap.com/bgp-peers-0-peer-ip"].is_some());
        assert_eq!(told["phoenixnap.com/bgp-peers-1-peer-ip"], None);
    }
}
