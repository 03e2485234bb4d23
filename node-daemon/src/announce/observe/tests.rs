use mooring_common::k8s::Slim;
use serde_json::{Value, json};

use super::*;

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn slice(value: Value) -> SliceView {
    SliceView::read(read(value), "a").unwrap()
}

fn lease(value: Value) -> Option<LeaseView> {
    LeaseView::read(read(value))
}

#[test]
fn a_service_is_reduced_to_what_announcing_needs() {
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
fn a_service_of_another_class_is_on_no_network_of_ours() {
    let view = ServiceView::read(read(json!({
        "metadata": {"annotations": {"mooring.dev/allocated-l2-network": "public"}},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.com/lb"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}},
    })))
    .unwrap();
    assert_eq!(view.network, None);
}

#[test]
fn endpoints_are_sorted_by_what_they_can_do() {
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
fn an_endpoint_off_the_nodes_is_an_endpoint_all_the_same() {
    let view = slice(json!({
        "metadata": {"name": "web-x", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["203.0.113.1"]}],
    }));
    assert!(view.any_ready && view.ready_nodes.is_empty());
}

#[test]
fn a_lease_names_its_node_and_what_it_speaks_from() {
    let view = lease(json!({
        "metadata": {
            "name": "node-rack-1.example", "resourceVersion": "7",
            "annotations": {"mooring.dev/segments": "{\"public\":\"02:00:00:00:00:01\"}"},
        },
        "spec": {"holderIdentity": "rack-1.example_abc"},
    }))
    .unwrap();
    assert_eq!(view.node, "rack-1.example");
    assert_eq!(
        view.segments,
        [("public".to_owned(), Mac::new([2, 0, 0, 0, 0, 1]))].into()
    );
}

#[test]
fn what_is_no_lease_of_a_daemon_is_not_kept() {
    for name in ["cloud-controller-manager", "other", ""] {
        assert_eq!(lease(json!({"metadata": {"name": name}})), None, "{name:?}");
    }
}

#[test]
fn segments_that_cannot_be_read_are_none() {
    for text in ["", "[]", "{\"public\": \"no mac\"}"] {
        let view = lease(json!({"metadata": {
            "name": "node-a", "annotations": {"mooring.dev/segments": text},
        }}))
        .unwrap();
        assert!(view.segments.is_empty(), "{text:?}");
    }
}

#[test]
fn only_the_slices_of_the_service_are_its_own() {
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

#[test]
fn a_node_drains_for_four_reasons() {
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
        json!({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}),
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}),
    ] {
        assert!(snapshot(value.clone()).draining(), "{value}");
    }
}
