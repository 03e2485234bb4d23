//! SEC-05 to SEC-14: each node daemon writes what it is there to write on its own Node, nothing
//! else there, and nothing at all elsewhere. Everybody else writes as before. Labels and
//! annotations are in `fence_metadata.rs`. No two tests use one address or provider ID: the control plane
//! is shared, and no Node takes another's (`fence_identity.rs`).

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::names::{NAMESPACE, labels, taints};
use mooring_test_cluster::objects::unique;
use serde_json::{Value, json};

use super::deployed::{
    annotation, assert_denied, deployed, label, node_with_daemon, patch_node, patch_node_status,
    refusal,
};

async fn read(client: &Client, name: &str) -> Node {
    Api::<Node>::all(client.clone()).get(name).await.unwrap()
}

async fn taints_of(client: &Client, name: &str) -> Vec<Taint> {
    read(client, name).await.spec.unwrap().taints.unwrap()
}

fn without(taints: &[Taint], key: &str) -> Value {
    let rest: Vec<_> = taints.iter().filter(|taint| taint.key != key).collect();
    json!({ "spec": { "taints": rest } })
}

#[tokio::test]
async fn sec_05_a_daemon_describes_its_own_node() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    let addresses = json!({ "status": { "addresses": [
        { "type": "InternalIP", "address": "192.0.2.105" },
        { "type": "InternalIP", "address": "2001:db8::105" },
        { "type": "ExternalIP", "address": "198.51.100.7" },
        { "type": "InternalDNS", "address": "n7.example" },
        { "type": "Hostname", "address": node },
    ] } });
    patch_node_status(&daemon, &node, &addresses).await.unwrap();

    // One JSON patch, as the daemon sends it: provider ID, labels, and the taint last.
    let all = taints_of(&daemon, &node).await;
    let place = all
        .iter()
        .position(|taint| taint.key == taints::UNINITIALIZED)
        .unwrap();
    let path = |key: &str| format!("/metadata/labels/{}", key.replace('/', "~1"));
    let mut operations =
        vec![json!({"op": "add", "path": "/spec/providerID", "value": "cloudlycke://n-05"})];
    for key in [
        labels::INSTANCE_TYPE,
        labels::INSTANCE_TYPE_BETA,
        labels::ZONE,
        labels::ZONE_BETA,
        labels::REGION,
        labels::REGION_BETA,
    ] {
        operations.push(json!({"op": "add", "path": path(key), "value": "a"}));
    }
    let taint = format!("/spec/taints/{place}");
    operations.push(json!({"op": "remove", "path": taint}));
    let patch: Patch<()> = Patch::Json(serde_json::from_value(Value::Array(operations)).unwrap());
    let written = Api::<Node>::all(daemon.clone())
        .patch(&node, &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(written.spec.unwrap().taints.unwrap().len(), all.len() - 1);

    // Later on, too: a resized machine.
    patch_node(&daemon, &node, &label(labels::INSTANCE_TYPE, Some("b")))
        .await
        .unwrap();
}

#[tokio::test]
async fn sec_06_a_daemon_does_not_reach_another_node() {
    let control_plane = deployed().await;
    let (_, daemon) = node_with_daemon(control_plane).await;
    let (other, _) = node_with_daemon(control_plane).await;
    let words = format!("may not write {other}");
    let zone = label(labels::ZONE, Some("a"));
    assert_denied("a zone", patch_node(&daemon, &other, &zone).await, &words);
    let id = json!({ "spec": { "providerID": "cloudlycke://n-06" } });
    assert_denied("an ID", patch_node(&daemon, &other, &id).await, &words);
    let taints = taints_of(&daemon, &other).await;
    let fewer = without(&taints, taints::UNINITIALIZED);
    assert_denied("a taint", patch_node(&daemon, &other, &fewer).await, &words);
    let addresses =
        json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "192.0.2.106" }] } });
    let verdict = patch_node_status(&daemon, &other, &addresses).await;
    assert_denied("addresses", verdict, &words);
}

#[tokio::test]
async fn sec_07_a_daemon_does_not_steer_scheduling() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    let cordon = json!({ "spec": { "unschedulable": true } });
    let words = "the provider ID and the taints only";
    assert_denied("cordon", patch_node(&daemon, &node, &cordon).await, words);

    let all = taints_of(&daemon, &node).await;
    let fewer = without(&all, "dedicated");
    let words = "the only taint that the node daemon may remove";
    assert_denied("removal", patch_node(&daemon, &node, &fewer).await, words);

    let words = "may not add or change taints";
    let mut more = all.clone();
    more.push(Taint {
        key: taints::SHUTDOWN.into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    });
    let more = json!({ "spec": { "taints": more } });
    assert_denied("addition", patch_node(&daemon, &node, &more).await, words);

    let mut other = all;
    for taint in &mut other {
        taint.effect = "NoExecute".into();
    }
    let other = json!({ "spec": { "taints": other } });
    assert_denied("change", patch_node(&daemon, &node, &other).await, words);
}

#[tokio::test]
async fn sec_09_a_provider_id_is_written_once_and_of_a_known_scheme() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    let words = "may set a provider ID once, of a scheme that the chart's values name";
    for id in [
        "aws:///zone/i-1",
        "LINODE://1",
        "linode:/1",
        "cloudlyckex://n",
        "cloudlycke://",
        "cloudlycke://a b",
        "x-cloudlycke://n",
        "n-1",
    ] {
        let patch = json!({ "spec": { "providerID": id } });
        assert_denied(id, patch_node(&daemon, &node, &patch).await, words);
    }
    let first = json!({ "spec": { "providerID": "cloudlycke://n-09" } });
    patch_node(&daemon, &node, &first).await.unwrap();
    // Kubernetes itself refuses a change, whoever asks; the fence also refuses it before that.
    let second = json!({ "spec": { "providerID": "cloudlycke://n-2" } });
    patch_node(&daemon, &node, &second).await.unwrap_err();
}

#[tokio::test]
async fn sec_09_every_providers_scheme_is_known() {
    for id in [
        "linode://12345678",
        "cloudscale://47cec963-fcd2-482f-bdb6-24461b2d47b1",
        "brightbox://srv-1",
        "phoenixnap://60473a6115e34466c9f8f083",
        "cloudlycke://n-09-each",
    ] {
        let (node, daemon) = node_with_daemon(deployed().await).await;
        let patch = json!({ "spec": { "providerID": id } });
        patch_node(&daemon, &node, &patch).await.unwrap();
    }
}

#[tokio::test]
async fn sec_10_the_rest_of_the_status_is_the_kubelets() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    let kubelets = "conditions and resources are the kubelet's";
    let only = "may write the addresses only";
    for (status, words) in [
        (
            json!({ "conditions": [{ "type": "Ready", "status": "False" }] }),
            kubelets,
        ),
        (json!({ "conditions": null }), kubelets),
        (json!({ "capacity": { "cpu": "1000" } }), kubelets),
        (json!({ "allocatable": { "memory": "1Ti" } }), kubelets),
        (
            json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": 4194 } } }),
            only,
        ),
        (json!({ "nodeInfo": { "kubeletVersion": "v0.0.1" } }), only),
        (json!({ "volumesInUse": ["x"] }), only),
        (
            json!({ "images": [{ "names": ["x"], "sizeBytes": 1 }] }),
            only,
        ),
        (
            json!({ "features": { "supplementalGroupsPolicy": true } }),
            only,
        ),
        (
            json!({ "addresses": [{ "type": "Hostname", "address": "other" }] }),
            "no hostname but the Node's own",
        ),
    ] {
        let patch = json!({ "status": status });
        let verdict = patch_node_status(&daemon, &node, &patch).await;
        assert_denied(&status.to_string(), verdict, words);
    }
    let many: Vec<_> = (0..33)
        .map(|n| json!({ "type": "InternalIP", "address": format!("192.0.2.{n}") }))
        .collect();
    let patch = json!({ "status": { "addresses": many } });
    let verdict = patch_node_status(&daemon, &node, &patch).await;
    assert_denied("33 addresses", verdict, "at most 32 addresses");
}

#[tokio::test]
async fn sec_12_a_daemon_neither_makes_nor_deletes_nodes() {
    let (node, daemon) = node_with_daemon(deployed().await).await;
    let nodes = Api::<Node>::all(daemon);
    let mut new = Node::default();
    new.metadata.name = Some(unique("new"));
    let made = nodes.create(&PostParams::default(), &new).await;
    assert!(refusal(made.unwrap_err()).contains("forbidden"));
    let deleted = nodes.delete(&node, &DeleteParams::default()).await;
    assert!(refusal(deleted.unwrap_err()).contains("forbidden"));
}

#[tokio::test]
async fn sec_13_a_token_without_a_node_writes_nothing() {
    let control_plane = deployed().await;
    let (node, _) = node_with_daemon(control_plane).await;
    let loose = control_plane
        .client_for(NAMESPACE, "mooring-node", None)
        .await
        .unwrap();
    let words = "this token names no Node";
    let zone = label(labels::ZONE, Some("a"));
    assert_denied("a zone", patch_node(&loose, &node, &zone).await, words);
    let verdict = patch_node_status(&loose, &node, &zone).await;
    assert_denied("a zone", verdict, words);
}

#[tokio::test]
async fn sec_14_kubelet_and_central_write_as_before() {
    let control_plane = deployed().await;
    let (node, _) = node_with_daemon(control_plane).await;
    let kubelet = control_plane
        .client_for_user(&format!("system:node:{node}"), Some("system:nodes"))
        .await
        .unwrap();
    let ready = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "False", "reason": "Test" }],
        "capacity": { "cpu": "4" },
    } });
    patch_node_status(&kubelet, &node, &ready).await.unwrap();
    let own = annotation(
        "volumes.kubernetes.io/controller-managed-attach-detach",
        Some("true"),
    );
    patch_node(&kubelet, &node, &own).await.unwrap();

    let central = control_plane
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap();
    let addresses =
        json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "192.0.2.114" }] } });
    patch_node_status(&central, &node, &addresses)
        .await
        .unwrap();
    let mut more = taints_of(&central, &node).await;
    more.retain(|taint| taint.key != taints::UNINITIALIZED);
    more.push(Taint {
        key: taints::SHUTDOWN.into(),
        effect: "NoSchedule".into(),
        ..Taint::default()
    });
    let patch = json!({
        "metadata": { "labels": { labels::ZONE: "a" } },
        "spec": { "providerID": "cloudlycke://n-1", "taints": more },
    });
    patch_node(&central, &node, &patch).await.unwrap();
    Api::<Node>::all(central)
        .delete(&node, &DeleteParams::default())
        .await
        .unwrap();
}
