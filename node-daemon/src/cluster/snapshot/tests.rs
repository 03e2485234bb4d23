use mooring_common::k8s::Slim;
use serde_json::{Value, json};

use super::*;

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn slice(value: Value) -> SliceView {
    SliceView::read(read(value), "a").unwrap()
}

#[test]
fn reads_service() {
    let view = ServiceView::read(read(json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1",
            "annotations": {"mooring.dev/allocated-l2-network": "public", "other": "x"},
        },
        "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local"},
        "status": {"loadBalancer": {"ingress": [
            {"ip": "2001:db8::10"}, {"ip": "192.0.2.10"}, {"hostname": "lb.example"},
            {"ip": "nonsense"}, {"ip": "192.0.2.10"},
        ]}},
    })))
    .unwrap();
    let expected: Vec<IpAddr> = vec![
        "192.0.2.10".parse().unwrap(),
        "2001:db8::10".parse().unwrap(),
    ];
    assert_eq!(view.addresses, expected, "IPv4 first, each once");
    assert_eq!(view.network.as_deref(), Some("public"));
    assert_eq!(view.policy, TrafficPolicy::Local);
    let cluster_ip = json!({"metadata": {"name": "web"}, "spec": {"type": "ClusterIP"}});
    assert_eq!(ServiceView::read(read(cluster_ip)), None);
}

#[test]
fn service_with_a_class_has_what_central_recorded_alone() {
    let of = |recorded: &str| {
        let view = ServiceView::read(read(json!({
            "metadata": {"annotations": {
                "mooring.dev/allocated-l2-network": "public",
                "mooring.dev/allocated-addresses": recorded,
            }},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/lb"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}},
        })));
        view.unwrap().addresses
    };
    assert_eq!(of("192.0.2.10"), ["192.0.2.10".parse::<IpAddr>().unwrap()]);
    assert_eq!(of("192.0.2.11"), Vec::<IpAddr>::new());
}

#[test]
fn sorts_endpoints_by_condition() {
    let view = slice(json!({
        "metadata": {"name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.0.0.1"], "nodeName": "a"},
            {"addresses": ["10.0.0.2"], "nodeName": "a", "conditions": {"ready": true}},
            {"addresses": ["10.0.0.3"], "nodeName": "b",
             "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["10.0.0.4"], "nodeName": "c",
             "conditions": {"ready": false, "serving": false, "terminating": true}},
            {"addresses": ["10.0.0.5"], "nodeName": "d", "conditions": {"ready": false}},
            {"addresses": ["10.0.0.6"], "conditions": {"ready": true}},
        ],
    }));
    assert_eq!(view.service, "web");
    assert_eq!(view.ready_nodes, ["a".to_owned()].into());
    assert_eq!(view.leaving_nodes, ["b".to_owned()].into());
    assert_eq!(view.local_ready.len(), 2);
    assert!(view.any_ready && view.any_leaving);
}

#[test]
fn counts_endpoint_without_node() {
    let view = slice(json!({
        "metadata": {"name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["203.0.113.1"]}],
    }));
    assert!(view.any_ready && view.ready_nodes.is_empty());
}

#[test]
fn keeps_addresses_of_peers() {
    let network = |addresses: Value| {
        let network = json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network", "metadata": {"name": "lan"},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"]},
            "status": {
                "nodes": [
                    {"name": "a", "ready": true, "reason": "Ready"},
                    {"name": "b", "ready": true, "reason": "Ready", "address": "10.0.0.2",
                     "mac": "02:00:00:00:00:02", "addresses": addresses},
                    {"name": "w", "ready": true, "reason": "Witness", "witness": true,
                     "address": "10.0.0.9"},
                ],
                "voters": {"generation": 3, "nodes": ["a", "b", "w"]},
            },
        });
        L2NetworkView::read(read(network), "a")
    };
    let view = network(json!([]));
    assert_eq!(view.entry.as_ref().unwrap().name, "a");
    assert_eq!(view.voters.as_ref().unwrap().generation, 3);
    let b = PeerNode {
        address: Some("10.0.0.2".parse().unwrap()),
        mac: Some(Mac::new([2, 0, 0, 0, 0, 2])),
        witness: false,
    };
    assert_eq!(view.others["b"], b);
    assert!(view.others["w"].witness);
    let moved = json!([{
        "address": "192.0.2.17", "since": "2026-11-22T05:00:00Z", "reason": "TakenOver",
    }]);
    assert_eq!(
        network(moved),
        view,
        "what others speak for is no change here"
    );
}

#[test]
fn unready_node_has_smaller_share() {
    let share = |status: &str| {
        let conditions = json!([{"type": "Ready", "status": status}]);
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}});
        let snapshot = Snapshot {
            node: Some(Arc::new(NodeView::slim(read(node)))),
            ..Snapshot::default()
        };
        (snapshot.share(), snapshot.draining())
    };
    let usual = Weight::USUAL.share();
    assert_eq!(share("True"), (usual, false));
    assert_eq!(share("False"), (SHARE_NOT_READY, false));
    assert_eq!(Snapshot::default().share(), usual);
}

#[test]
fn groups_slices_by_service() {
    let of = |service: &str| {
        Arc::new(SliceView {
            service: service.to_owned(),
            ..SliceView::default()
        })
    };
    let slices = [
        (ObjectKey::new("a", "web-1"), of("web")),
        (ObjectKey::new("b", "anything"), of("web")),
        (ObjectKey::new("b", "web-1"), of("web")),
        (ObjectKey::new("b", "web-2"), of("web-2")),
        (ObjectKey::new("c", "web-1"), of("web")),
    ];
    let snapshot = Snapshot {
        slices: Arc::new(by_service(&slices.into())),
        ..Snapshot::default()
    };
    assert_eq!(snapshot.slices_of(&ObjectKey::new("b", "web")).len(), 2);
    assert_eq!(snapshot.slices_of(&ObjectKey::new("b", "none")).len(), 0);
}

fn network(include_excluded_nodes: bool) -> L2Network {
    let spec = json!({
        "subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.8/29"],
        "includeExcludedNodes": include_excluded_nodes,
    });
    L2Network::new("lan", read(spec))
}

#[test]
fn node_shuts_down_if_it_is_cordoned_or_not_ready() {
    let snapshot = |value: Value| Snapshot {
        node: Some(Arc::new(NodeView::slim(read(value)))),
        ..Snapshot::default()
    };
    let ready =
        |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    assert!(!Snapshot::default().shuts_down());
    assert!(!snapshot(ready("True")).shuts_down());
    assert!(
        !snapshot(ready("Unknown")).shuts_down(),
        "its kubelet is silent, which says nothing"
    );
    assert!(snapshot(ready("False")).shuts_down());
    assert!(snapshot(json!({"spec": {"unschedulable": true}})).shuts_down());
}

#[test]
fn node_drains_for_five_reasons() {
    let snapshot = |value: Value| Snapshot {
        node: Some(Arc::new(NodeView::slim(read(value)))),
        ..Snapshot::default()
    };
    assert!(!Snapshot::default().draining());
    assert!(
        !snapshot(json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}})).draining()
    );
    for value in [
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"metadata": {"labels": {"node.kubernetes.io/exclude-from-external-load-balancers": ""}}}),
        json!({"metadata": {"annotations": {"mooring.dev/maintenance": ""}}}),
        json!({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}),
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}),
    ] {
        assert!(snapshot(value.clone()).draining(), "{value}");
        let segment = Segment::try_from(&network(true)).unwrap();
        let is_excluded = value.to_string().contains("exclude-from");
        assert_eq!(
            snapshot(value.clone()).drains_on(&segment),
            !is_excluded,
            "{value}"
        );
        let segment = Segment::try_from(&network(false)).unwrap();
        assert!(snapshot(value.clone()).drains_on(&segment), "{value}");
    }
}

#[test]
fn node_drains_until_its_maintenance_ends() {
    let node = json!({"metadata": {"annotations": {
        "mooring.dev/maintenance": "until=2026-11-25T22:00:00Z",
    }}});
    let drains = |looked_at: &str| {
        let snapshot = Snapshot {
            node: Some(Arc::new(NodeView::slim(read(node.clone())))),
            looked_at: looked_at.parse().unwrap(),
            ..Snapshot::default()
        };
        snapshot.draining()
    };
    assert!(drains("2026-11-25T21:59:59Z"));
    assert!(!drains("2026-11-25T22:00:00Z"));
}

/// Whoever can write an entry can write any text into it.
#[test]
fn ignores_special_peer_addresses() {
    let address_of = |text: &str| {
        let network = serde_json::json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network", "metadata": {"name": "lan"},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"]},
            "status": {"nodes": [
                {"name": "other", "ready": true, "reason": "Ready", "address": text},
            ]},
        });
        let view = L2NetworkView::read(serde_json::from_value(network).unwrap(), "me");
        view.others["other"].address
    };
    assert_eq!(address_of("192.0.2.7"), Some("192.0.2.7".parse().unwrap()));
    for text in [
        "255.255.255.255",
        "224.0.0.1",
        "ff02::1",
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "::",
        "x",
    ] {
        assert_eq!(address_of(text), None, "{text}");
    }
}
