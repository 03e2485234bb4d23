//! Each node daemon writes its own entry in the status of an L2Network, and nothing else there.

use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use mooring_common::names::NAMESPACE;
use mooring_tests::objects::unique;
use serde_json::{Value, json};

use super::deployed::{Verdict, assert_denied, deploy, deployed, node_with_daemon, refusal};

/// An L2Network about which central and another Node's daemon have said something.
async fn network(admin: &Client) -> String {
    let name = unique("lan");
    let spec = L2NetworkSpec {
        subnets: vec![Subnet {
            cidr: "192.0.2.0/24".to_owned(),
            gateway: None,
        }],
        ranges: vec!["192.0.2.16/28".to_owned()],
        ..L2NetworkSpec::default()
    };
    let networks = Api::<L2Network>::all(admin.clone());
    networks
        .create(&PostParams::default(), &L2Network::new(&name, spec))
        .await
        .unwrap();
    let status = json!({ "status": {
        "usedAddresses": 3,
        "conditions": [condition("True")],
        "nodes": [{ "name": "other", "ready": true, "reason": "Ready" }],
    } });
    merge(admin, &name, &status).await.unwrap();
    name
}

fn condition(status: &str) -> Value {
    json!({
        "type": "Ready", "status": status, "reason": "Ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

async fn merge(client: &Client, name: &str, patch: &Value) -> Verdict {
    Api::<L2Network>::all(client.clone())
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

/// As the daemons write: server-side apply, each as a manager of its own.
async fn apply(client: &Client, name: &str, manager: &str, nodes: Value) -> Verdict {
    let patch = json!({
        "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
        "metadata": { "name": name }, "status": { "nodes": nodes },
    });
    Api::<L2Network>::all(client.clone())
        .patch_status(
            name,
            &PatchParams::apply(manager).force(),
            &Patch::Apply(patch),
        )
        .await
        .map(drop)
        .map_err(refusal)
}

fn entry(node: &str, ready: bool) -> Value {
    json!({ "name": node, "ready": ready, "reason": "Ready" })
}

#[tokio::test]
async fn sec_05_a_daemon_writes_changes_and_removes_its_own_entry() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let admin = control_plane.admin();
    let name = network(&admin).await;
    for ready in [true, false] {
        let own = json!([entry(&node, ready)]);
        apply(&daemon, &name, &node, own).await.unwrap();
    }
    let networks = Api::<L2Network>::all(admin);
    let status = networks.get(&name).await.unwrap().status.unwrap();
    let told: Vec<_> = status
        .nodes
        .iter()
        .map(|entry| (entry.name.as_str(), entry.ready))
        .collect();
    assert_eq!(told, [("other", true), (node.as_str(), false)]);
    apply(&daemon, &name, &node, json!([])).await.unwrap();
    let status = networks.get(&name).await.unwrap().status.unwrap();
    assert_eq!(status.nodes.len(), 1, "{status:?}");
    assert_eq!(
        (status.used_addresses, status.conditions.len()),
        (Some(3), 1)
    );
}

/// The policy compares all others' entries: the largest list must not be too much for it.
#[tokio::test]
async fn sec_05_a_daemon_writes_its_entry_among_many() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let admin = control_plane.admin();
    let name = network(&admin).await;
    let others: Vec<_> = (0..499)
        .map(|n| {
            let mut other = entry(&format!("{n}-{}", "n".repeat(200)), false);
            other["message"] = json!("m".repeat(512));
            other
        })
        .collect();
    let many = json!({ "status": { "nodes": others } });
    merge(&admin, &name, &many).await.unwrap();
    let own = json!([entry(&node, true)]);
    apply(&daemon, &name, &node, own).await.unwrap();
    let (late, late_daemon) = node_with_daemon(control_plane).await;
    let own = json!([entry(&late, true)]);
    let verdict = apply(&late_daemon, &name, &late, own).await;
    assert!(verdict.unwrap_err().contains("at most 500 items"));
}

#[tokio::test]
async fn sec_06_a_daemon_does_not_reach_another_entry() {
    let control_plane = deployed().await;
    let (node, daemon) = node_with_daemon(control_plane).await;
    let name = network(&control_plane.admin()).await;
    let words = format!("may write the entry of {node} only");
    for (what, nodes) in [
        ("another's, changed", json!([entry("other", false)])),
        ("a new one", json!([entry("third", true)])),
        ("both", json!([entry(&node, true), entry("third", true)])),
    ] {
        let verdict = apply(&daemon, &name, &node, nodes).await;
        assert_denied(what, verdict, &words);
    }
    for (what, nodes) in [
        ("all of them, removed", Value::Null),
        ("another's, removed", json!([entry(&node, true)])),
    ] {
        let verdict = merge(&daemon, &name, &json!({ "status": { "nodes": nodes } })).await;
        assert_denied(what, verdict, &words);
    }
    let verdict = merge(&daemon, &name, &json!({ "status": null })).await;
    assert_denied("the whole status, removed", verdict, &words);
}

#[tokio::test]
async fn sec_10_the_rest_of_an_l2_network_is_not_the_daemons() {
    let control_plane = deployed().await;
    let (_, daemon) = node_with_daemon(control_plane).await;
    let admin = control_plane.admin();
    let name = network(&admin).await;
    for status in [
        json!({ "usedAddresses": 0 }),
        json!({ "usedAddresses": null }),
        json!({ "conditions": [condition("False")] }),
        json!({ "conditions": null }),
    ] {
        let verdict = merge(&daemon, &name, &json!({ "status": status })).await;
        let words = "may write its entry in nodes, and voters, only";
        assert_denied(&status.to_string(), verdict, words);
    }
    let networks = Api::<L2Network>::all(daemon.clone());
    let other = json!({ "spec": { "ranges": ["192.0.2.32/28"] } });
    let patched = networks
        .patch(&name, &PatchParams::default(), &Patch::Merge(&other))
        .await;
    assert!(refusal(patched.unwrap_err()).contains("cannot patch resource"));
    // By way of the status, the API server takes neither a spec nor labels.
    let mut sly = other;
    sly["metadata"]["labels"]["team"] = json!("red");
    merge(&daemon, &name, &sly).await.unwrap();
    let found = Api::<L2Network>::all(admin).get(&name).await.unwrap();
    assert_eq!(found.spec.ranges, ["192.0.2.16/28"]);
    assert_eq!(found.metadata.labels, None);
}

#[tokio::test]
async fn sec_12_a_daemon_neither_makes_nor_deletes_l2_networks() {
    let control_plane = deployed().await;
    let (_, daemon) = node_with_daemon(control_plane).await;
    let name = network(&control_plane.admin()).await;
    let networks = Api::<L2Network>::all(daemon);
    let new = L2Network::new(&unique("lan"), L2NetworkSpec::default());
    let made = networks.create(&PostParams::default(), &new).await;
    assert!(refusal(made.unwrap_err()).contains("forbidden"));
    let deleted = networks.delete(&name, &DeleteParams::default()).await;
    assert!(refusal(deleted.unwrap_err()).contains("forbidden"));
}

#[tokio::test]
async fn sec_13_a_token_without_a_node_writes_no_entry() {
    let control_plane = deployed().await;
    let name = network(&control_plane.admin()).await;
    let loose = control_plane
        .client_for(NAMESPACE, "mooring-node", None)
        .await
        .unwrap();
    let verdict = apply(&loose, &name, "loose", json!([entry("n", true)])).await;
    assert_denied("an entry", verdict, "this token names no Node");
}

/// Of the list of nodes, central removes those that are gone.
#[tokio::test]
async fn sec_14_central_writes_the_status_as_before() {
    let control_plane = deployed().await;
    let name = network(&control_plane.admin()).await;
    let central = control_plane
        .client_for(NAMESPACE, "mooring-central", None)
        .await
        .unwrap();
    let status = json!({ "usedAddresses": 4, "conditions": [condition("False")] });
    merge(&central, &name, &json!({ "status": status }))
        .await
        .unwrap();
    let gone = json!({ "status": { "nodes": [] } });
    merge(&central, &name, &gone).await.unwrap();
}

#[test]
fn the_page_about_permissions_prints_the_policy_as_it_is_shipped() {
    let read = |path| std::fs::read_to_string(deploy(path)).unwrap();
    let (page, manifests) = (
        read("../docs/reference/permissions.md"),
        read("manifests/mooring.yaml"),
    );
    let printed = page.split("```yaml\n").nth(1).unwrap();
    let printed = printed.split("```").next().unwrap();
    assert!(manifests.contains(printed), "print it anew:\n{printed}");
}

/// As the daemons propose voters.
fn voters(generation: i64, nodes: &[&str], primary: Option<&str>) -> Value {
    json!({ "status": { "voters": {
        "generation": generation, "nodes": nodes, "primary": primary,
    } } })
}

/// What the daemons of other Nodes have come to.
async fn network_with_voters(admin: &Client, spec: Value, set: Value) -> String {
    let name = network(admin).await;
    let names: Vec<_> = (1..=5).map(|n| entry(&format!("v{n}"), true)).collect();
    merge(admin, &name, &json!({ "status": { "nodes": names } }))
        .await
        .unwrap();
    merge(admin, &name, &set).await.unwrap();
    Api::<L2Network>::all(admin.clone())
        .patch(
            &name,
            &PatchParams::default(),
            &Patch::Merge(json!({ "spec": spec })),
        )
        .await
        .unwrap();
    name
}

#[tokio::test]
async fn sec_16_voters_come_one_by_one_with_the_next_generation() {
    let control_plane = deployed().await;
    let (_, daemon) = node_with_daemon(control_plane).await;
    let admin = control_plane.admin();
    let name = network_with_voters(&admin, json!({}), json!({ "status": {} })).await;
    for (what, set) in [
        ("the first", voters(1, &["v1", "v2"], Some("v1"))),
        ("the other as primary", voters(2, &["v1", "v2"], Some("v2"))),
        ("one more", voters(3, &["v1", "v2", "v3"], None)),
        ("one less", voters(4, &["v1", "v3"], Some("v3"))),
    ] {
        let verdict = merge(&daemon, &name, &set).await;
        assert_eq!(verdict, Ok(()), "{what}");
    }
    for (what, set, words) in [
        (
            "the same generation",
            voters(4, &["v1"], None),
            "goes up by one",
        ),
        (
            "a generation left out",
            voters(6, &["v1"], None),
            "goes up by one",
        ),
        (
            "one for another",
            voters(5, &["v1", "v2"], Some("v1")),
            "one voter at a time",
        ),
        (
            "two more",
            voters(5, &["v1", "v2", "v3", "v4"], None),
            "one voter at a time",
        ),
        (
            "one that is unheard of",
            voters(5, &["v1", "v3", "ghost"], None),
            "an entry of its own",
        ),
        (
            "one twice",
            voters(5, &["v1", "v3", "v3"], None),
            "once only",
        ),
        (
            "a primary that does not vote",
            voters(5, &["v1", "v3", "v4"], Some("v5")),
            "the primary must be",
        ),
        (
            "none at all",
            json!({ "status": { "voters": null } }),
            "in nodes, and voters, only",
        ),
    ] {
        let verdict = merge(&daemon, &name, &set).await;
        assert_denied(what, verdict, words);
    }
    let networks = Api::<L2Network>::all(admin);
    let status = networks.get(&name).await.unwrap().status.unwrap();
    assert_eq!(status.voters.unwrap().generation, 4);
}

#[tokio::test]
async fn sec_17_survivors_go_on_only_where_that_is_permitted() {
    let control_plane = deployed().await;
    let (_, daemon) = node_with_daemon(control_plane).await;
    let admin = control_plane.admin();
    let five = voters(7, &["v1", "v2", "v3", "v4", "v5"], None);
    let survivors = voters(8, &["v1", "v2"], Some("v1"));
    let silent = json!({ "onQuorumLoss": "Silent" });
    let strict = network_with_voters(&admin, silent, five.clone()).await;
    let verdict = merge(&daemon, &strict, &survivors).await;
    assert_denied("survivors", verdict, "onQuorumLoss");
    let usual = network_with_voters(&admin, json!({}), five).await;
    let others = voters(8, &["v1", "v2", "other"], None);
    let verdict = merge(&daemon, &usual, &others).await;
    assert_denied("survivors and another", verdict, "one voter at a time");
    assert_eq!(merge(&daemon, &usual, &survivors).await, Ok(()));
}
