use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use mooring_common::k8s::Slim as _;
use mooring_common::l2_network::L2Network;
use mooring_common::node_view::NodeView;
use serde_json::json;

use super::*;

/// A network with the Nodes `me` and `other` on it, and one Service with this status and record.
fn snapshot(status: &[&str], record: &str) -> Snapshot {
    let network: L2Network = serde_json::from_value(json!({
        "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
        "metadata": {"name": "lan", "uid": "u"},
        "spec": {
            "subnets": [{"cidr": "192.0.2.0/24", "gateway": "192.0.2.1"}, {"cidr": "2001:db8::/64"}],
            "ranges": ["192.0.2.0/27", "2001:db8::/120"],
        },
        "status": {"nodes": [
            {"name": "other", "ready": true, "reason": "Ready", "address": "192.0.2.12"},
            {"name": "far", "ready": true, "reason": "Ready", "address": "192.0.2.112"},
        ]},
    }))
    .unwrap();
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "me"},
        "status": {"addresses": [
            {"type": "InternalIP", "address": "192.0.2.11"}, {"type": "Hostname", "address": "me"},
        ]},
    }))
    .unwrap();
    let ingress: Vec<_> = status.iter().map(|ip| json!({"ip": ip})).collect();
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "web", "namespace": "shop", "annotations": {
            "mooring.dev/allocated-l2-network": "lan", "mooring.dev/allocated-addresses": record,
        }},
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": ingress}},
    }))
    .unwrap();
    let view = ServiceView::read(service).unwrap();
    let network = L2NetworkView::read(network, "me");
    Snapshot {
        services: Arc::new([(ObjectKey::new("shop", "web"), Arc::new(view))].into()),
        networks: Arc::new([(ObjectKey::cluster_wide("lan"), Arc::new(network))].into()),
        node: Some(Arc::new(NodeView::slim(node))),
        ..Snapshot::default()
    }
}

fn why(address: &str, record: &str) -> Option<String> {
    let refused = refused(&snapshot(&[address], record));
    let reasons = refused.into_values().flat_map(BTreeMap::into_values);
    reasons.map(|why| why.to_string()).next()
}

#[test]
fn permits_address_in_range_or_recorded() {
    assert_eq!(why("192.0.2.10", ""), None, "in a range");
    assert_eq!(
        why("192.0.2.100", "192.0.2.100"),
        None,
        "a range was taken away"
    );
    assert_eq!(why("2001:db8::10", "garbage"), None);
}

#[test]
fn refuses_foreign_address_even_if_recorded() {
    for (address, words) in [
        ("192.0.2.1", "the router"),
        ("192.0.2.0", "the first address of a subnet"),
        ("192.0.2.255", "the broadcast address"),
        ("2001:db8::", "the first address of a subnet"),
        ("192.0.2.11", "an address of Node me"),
        ("192.0.2.112", "an address of Node far"),
        ("169.254.169.254", "in no subnet"),
    ] {
        for record in ["", address] {
            let told = why(address, record).unwrap();
            assert!(told.contains(words), "{address}: {told}");
        }
    }
    assert!(
        why("192.0.2.100", "192.0.2.101")
            .unwrap()
            .contains("in no range")
    );
}

/// What another daemon says of its Node silences no Service that central has given an address to.
#[test]
fn recorded_range_address_overrides_other_daemon() {
    assert_eq!(why("192.0.2.12", "192.0.2.12"), None);
    assert!(why("192.0.2.12", "").unwrap().contains("Node other"));
}
