//! What is left to central's token: of Nodes, Leases, L2Networks and Secrets what central is there
//! for. What it does to Services is in `fence_services.rs`.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::L2Network;
use mooring_common::names::{
    LEADER_LEASE, LEADER_LEASE_NAMESPACE, NAMESPACE, annotations, labels, taints,
};
use mooring_test_cluster::control_plane::ControlPlane;
use serde_json::{Value, json};

use super::deployed::{
    Verdict, annotation, assert_denied, deployed, label, make_network, patch_node,
    patch_node_status, refusal, tempting_node,
};

/// A Node with everything on it that somebody with central's token might be tempted by, and central.
async fn prepare() -> (&'static ControlPlane, String, Client) {
    let control_plane = deployed().await;
    let name = tempting_node(&control_plane.admin()).await;
    (control_plane, name, central_of(control_plane).await)
}

async fn central_of(control_plane: &ControlPlane) -> Client {
    control_plane
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap()
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[tokio::test]
async fn sec_16_central_describes_taints_and_deletes_nodes() {
    let (control_plane, node, central) = prepare().await;
    let addresses = json!([{ "type": "InternalIP", "address": "192.0.2.116" },
        { "type": "Hostname", "address": "another" }]);
    let addresses = json!({ "status": { "addresses": addresses } });
    patch_node_status(&central, &node, &addresses)
        .await
        .unwrap();
    let nodes = Api::<Node>::all(control_plane.admin());
    let all = nodes
        .get(&node)
        .await
        .unwrap()
        .spec
        .unwrap()
        .taints
        .unwrap();
    let kept: Vec<_> = all
        .iter()
        .filter(|taint| taint.key != taints::UNINITIALIZED)
        .collect();
    let mut stopped = json!(kept);
    stopped
        .as_array_mut()
        .unwrap()
        .push(json!({ "key": taints::SHUTDOWN, "effect": "NoSchedule" }));
    let described = json!({
        "metadata": {
            "labels": {
                labels::ZONE: "a", labels::ZONE_BETA: "a",
                labels::REGION: "b", labels::REGION_BETA: "b",
                labels::INSTANCE_TYPE: "c", labels::INSTANCE_TYPE_BETA: "c",
                labels::LINODE_HOST_UUID: "d",
            },
            "annotations": {
                annotations::LINODE_PRIVATE_IP: "192.0.2.7",
                annotations::LINODE_PUBLIC_IPV6: "2001:db8::7/128",
                annotations::KUBELET_ADDRESSES: "192.0.2.7",
                annotations::CORRECTED_BY_CENTRAL: "addresses",
            },
        },
        "spec": { "providerID": "linode://7", "taints": stopped },
    });
    patch_node(&central, &node, &described).await.unwrap();
    let well = spec(json!({ "taints": kept }));
    patch_node(&central, &node, &well).await.unwrap();
    let unsaid = annotation(annotations::CORRECTED_BY_CENTRAL, None);
    patch_node(&central, &node, &unsaid).await.unwrap();
    let nodes = Api::<Node>::all(central);
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn sec_16_central_does_not_play_the_kubelet() {
    let (_, node, central) = prepare().await;
    let words = "the addresses only";
    for status in [
        json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": 4444 } } }),
        json!({ "conditions": [{ "type": "Ready", "status": "True" }] }),
        json!({ "capacity": { "cpu": "4000" } }),
        json!({ "nodeInfo": { "kubeletVersion": "v1.0.0" } }),
    ] {
        let patch = json!({ "status": status });
        let verdict = patch_node_status(&central, &node, &patch).await;
        assert_denied(&patch.to_string(), verdict, words);
    }
}

#[tokio::test]
async fn sec_16_central_does_not_steer_scheduling() {
    let (control_plane, node, central) = prepare().await;
    let read = Api::<Node>::all(control_plane.admin());
    let all = read.get(&node).await.unwrap().spec.unwrap().taints.unwrap();
    let dedicated = all.iter().find(|taint| taint.key == "dedicated");
    let others: Vec<_> = all.iter().filter(|t| t.key != "dedicated").collect();
    let mut more = json!(all);
    more.as_array_mut()
        .unwrap()
        .push(json!({ "key": "mine", "effect": "NoExecute" }));
    let mut evicting = json!([dedicated]);
    evicting
        .as_array_mut()
        .unwrap()
        .push(json!({ "key": taints::SHUTDOWN, "effect": "NoExecute" }));
    for (patch, words) in [
        (
            spec(json!({ "unschedulable": true })),
            "the provider ID and the taints only",
        ),
        (
            spec(json!({ "podCIDR": "10.0.0.0/8", "podCIDRs": ["10.0.0.0/8"] })),
            "the provider ID and the taints only",
        ),
        (
            spec(json!({ "taints": others })),
            "the only taints that central may remove",
        ),
        (
            spec(json!({ "taints": more })),
            "the only taint that central may set",
        ),
        (
            spec(json!({ "taints": evicting })),
            "the only taint that central may set",
        ),
        (spec(json!({ "providerID": "other:1" })), "in the form"),
        (
            label("node-role.kubernetes.io/control-plane", Some("")),
            "may not set these labels: node-role",
        ),
        (
            label("example.com/pool", Some("a")),
            "nodeDaemon.additionalLabelKeys",
        ),
        (
            label("team", Some("blue")),
            "may not set these labels: team",
        ),
        (label("team", None), "may not remove these labels: team"),
        (
            label(labels::EXCLUDE_FROM_LOAD_BALANCERS, Some("")),
            "may not set these labels",
        ),
        (
            annotation("owner", Some("bob")),
            "may not set these annotations: owner",
        ),
        (annotation("owner", None), "may remove no annotation"),
        (
            annotation(annotations::MAINTENANCE, Some("")),
            "may not set these annotations",
        ),
        (
            annotation(annotations::PROVIDED_NODE_IP, Some("192.0.2.9")),
            "may not set these annotations",
        ),
        (
            json!({ "metadata": { "finalizers": ["example.com/stay"] } }),
            "finalizers and owners",
        ),
        (
            json!({ "metadata": { "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "0",
            }] } }),
            "finalizers and owners",
        ),
    ] {
        let verdict = patch_node(&central, &node, &patch).await;
        assert_denied(&patch.to_string(), verdict, words);
    }
    let known = spec(json!({ "providerID": "linode://7" }));
    patch_node(&central, &node, &known).await.unwrap();
    let moved = spec(json!({ "providerID": "linode://8" }));
    let moved = patch_node(&central, &node, &moved).await;
    // The API server itself refuses that as well; whichever comes first.
    assert!(moved.is_err());
}

#[tokio::test]
async fn sec_16_central_has_one_lease() {
    let control_plane = deployed().await;
    let central = central_of(control_plane).await;
    let leases = Api::<Lease>::namespaced(central.clone(), LEADER_LEASE_NAMESPACE);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let named = |name: &str| {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        lease
    };
    let words = format!("the Lease {LEADER_LEASE_NAMESPACE}/{LEADER_LEASE} only");
    for other in ["kube-scheduler", "kube-controller-manager", "any"] {
        let made = leases.create(&dry, &named(other)).await;
        assert_denied(other, made.map(drop).map_err(refusal), &words);
    }
    let mut generated = Lease::default();
    generated.metadata.generate_name = Some(LEADER_LEASE.to_owned());
    let made = leases.create(&dry, &generated).await;
    assert_denied("a generated name", made.map(drop).map_err(refusal), &words);
    let mut kept = named(LEADER_LEASE);
    kept.metadata.finalizers = Some(vec!["example.com/stay".to_owned()]);
    let made = leases.create(&dry, &kept).await;
    let verdict = made.map(drop).map_err(refusal);
    assert_denied("a finalizer", verdict, "finalizers and owners");
}

async fn network(control_plane: &ControlPlane) -> String {
    let name = make_network(&control_plane.admin()).await;
    let node = |name: &str| json!({ "name": name, "ready": true, "reason": "Ready" });
    let status = json!({
        "nodes": [node("a"), node("b"), node("c")],
        "voters": { "generation": 3, "nodes": ["a", "b", "c"] },
    });
    merge(&control_plane.admin(), &name, &json!({ "status": status }))
        .await
        .unwrap();
    name
}

async fn merge(client: &Client, name: &str, patch: &Value) -> Verdict {
    Api::<L2Network>::all(client.clone())
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

#[tokio::test]
async fn sec_16_central_has_no_vote_and_speaks_for_no_node() {
    let control_plane = deployed().await;
    let name = network(control_plane).await;
    let central = central_of(control_plane).await;
    let node = |name: &str, ready: bool| json!({ "name": name, "ready": ready, "reason": "Ready" });
    let counters = "conditions, counters and speakers";
    let own = "its own daemon alone writes";
    for (status, words) in [
        (
            json!({ "voters": { "generation": 4, "nodes": ["a", "b"] } }),
            counters,
        ),
        (json!({ "voters": null }), counters),
        (
            json!({ "nodes": [node("a", false), node("b", true), node("c", true)] }),
            own,
        ),
        (
            json!({ "nodes": [node("a", true), node("b", true), node("c", true), node("d", true)] }),
            own,
        ),
        (json!({ "nodes": [node("a", true), node("c", false)] }), own),
    ] {
        let patch = json!({ "status": status });
        let verdict = merge(&central, &name, &patch).await;
        assert_denied(&patch.to_string(), verdict, words);
    }
    let gone = json!({ "status": {
        "nodes": [node("a", true), node("c", true)], "usedAddresses": 1, "speakers": "nobody",
    } });
    merge(&central, &name, &gone).await.unwrap();
}

fn secret(name: &str, type_: &str) -> Secret {
    let mut secret = Secret {
        type_: Some(type_.to_owned()),
        ..Secret::default()
    };
    secret.metadata.name = Some(name.to_owned());
    secret
}

/// A Secret of the type of tokens would be a token of any ServiceAccount of the namespace.
#[tokio::test]
async fn sec_16_central_makes_one_secret_and_no_token() {
    let control_plane = deployed().await;
    let central = central_of(control_plane).await;
    let secrets = Api::<Secret>::namespaced(central.clone(), NAMESPACE);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let words = "may only create the Secret mooring-system/mooring-heartbeat";
    let mut token = secret("mooring-heartbeat", "kubernetes.io/service-account-token");
    let account = ("kubernetes.io/service-account.name", "mooring-node");
    token.metadata.annotations = Some([(account.0.to_owned(), account.1.to_owned())].into());
    let mut kept = secret("mooring-heartbeat", "Opaque");
    kept.metadata.finalizers = Some(vec!["example.com/stay".to_owned()]);
    for wrong in [secret("any", "Opaque"), token, kept] {
        let made = secrets.create(&dry, &wrong).await;
        let what = format!("{:?}", wrong.metadata);
        assert_denied(&what, made.map(drop).map_err(refusal), words);
    }
    let right = secret("mooring-heartbeat", "Opaque");
    secrets.create(&dry, &right).await.unwrap();
    let elsewhere = Api::<Secret>::namespaced(central, "default");
    let made = elsewhere.create(&dry, &right).await;
    assert!(refusal(made.unwrap_err()).contains("forbidden"));
}
