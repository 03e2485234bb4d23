//! Each node daemon writes its own entry in the status of an L2Network, and nothing else there.

use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, L2NetworkSpec};
use mooring_common::names::NAMESPACE;
use mooring_test_cluster::attacks;
use mooring_test_cluster::objects::unique;
use serde_json::{Value, json};

use super::deployed::{
    Verdict, assert_denied, deploy, deployed, make_network, node_with_daemon, refusal,
};

/// An L2Network about which central and another Node's daemon have said something.
async fn network(admin: &Client) -> String {
    let name = make_network(admin).await;
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
        let words = "may write its entry in nodes, its approval, and voters, only";
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

/// A Node whose daemon takes part in the choice of voters.
struct Member {
    name: String,
    daemon: Client,
}

impl Member {
    async fn new() -> Self {
        let (name, daemon) = node_with_daemon(deployed().await).await;
        Self { name, daemon }
    }

    /// Says in the status that it approves these as the next voters.
    async fn approves(&self, network: &str, set: &Value) -> Verdict {
        self.approves_for(&self.name, network, set).await
    }

    async fn approves_for(&self, name: &str, network: &str, set: &Value) -> Verdict {
        merge(&self.daemon, network, &attacks::approval(name, set)).await
    }

    /// Writes other voters, as the daemons do.
    async fn writes(&self, network: &str, set: &Value) -> Verdict {
        merge(&self.daemon, network, &attacks::voters(set)).await
    }
}

fn set(generation: i64, nodes: &[&Member]) -> Value {
    let nodes: Vec<_> = nodes.iter().map(|member| member.name.as_str()).collect();
    json!({ "generation": generation, "nodes": nodes, "primary": null })
}

fn with_primary(generation: i64, nodes: &[&Member], primary: &Member) -> Value {
    let mut set = set(generation, nodes);
    set["primary"] = json!(primary.name);
    set
}

/// An L2Network in whose status these have entries, with voters as they have come to.
async fn network_of(admin: &Client, members: &[&Member], spec: Value, voters: Value) -> String {
    let name = network(admin).await;
    let entries: Vec<_> = members.iter().map(|m| entry(&m.name, true)).collect();
    merge(
        admin,
        &name,
        &json!({ "status": { "nodes": entries, "voters": voters } }),
    )
    .await
    .unwrap();
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

const MOST: &str = "must be approved by most";

/// With one daemon's token the voters were rewritten: a, b and c to c, then to c and z, then to z.
#[tokio::test]
async fn sec_16_a_stolen_token_changes_nothing_in_a_set_of_three() {
    let admin = deployed().await.admin();
    let (a, b) = (Member::new().await, Member::new().await);
    let (stolen, z) = (Member::new().await, Member::new().await);
    let three = set(1, &[&a, &b, &stolen]);
    let name = network_of(&admin, &[&a, &b, &stolen, &z], json!({}), Value::Null).await;
    assert_eq!(a.writes(&name, &three).await, Ok(()), "the first voters");
    for (what, wanted) in [
        ("all others out", set(2, &[&stolen])),
        ("one out", set(2, &[&a, &stolen])),
        ("one in", set(2, &[&a, &b, &stolen, &z])),
        ("a generation left out", set(9, &[&stolen])),
        (
            "a primary of three",
            with_primary(2, &[&a, &b, &stolen], &stolen),
        ),
    ] {
        for writer in [&stolen, &z] {
            assert_eq!(writer.approves(&name, &wanted).await, Ok(()), "{what}");
            assert_denied(what, writer.writes(&name, &wanted).await, MOST);
        }
    }
    let wanted = set(2, &[&stolen, &z]);
    let forged = stolen.approves_for(&a.name, &name, &wanted).await;
    assert_denied(
        "in the name of another",
        forged,
        "may approve voters in the name of",
    );
    let patch = json!({ "status": { "approvals": null } });
    let erased = merge(&stolen.daemon, &name, &patch).await;
    assert_denied(
        "others' approvals",
        erased,
        "may approve voters in the name of",
    );
    let networks = Api::<L2Network>::all(admin);
    let status = networks.get(&name).await.unwrap().status.unwrap();
    assert_eq!(status.voters.unwrap().generation, 1);
}

#[tokio::test]
async fn sec_16_voters_change_one_by_one_as_most_of_them_approve() {
    let admin = deployed().await.admin();
    let (a, b) = (Member::new().await, Member::new().await);
    let (c, z) = (Member::new().await, Member::new().await);
    let members = [&a, &b, &c, &z];
    let name = network_of(&admin, &members, json!({}), Value::Null).await;
    let outside = z.writes(&name, &set(1, &[&a])).await;
    assert_denied("the first voters, by another", outside, MOST);
    let later = a.writes(&name, &set(7, &[&a, &b, &c])).await;
    assert_denied("the first voters, of a later generation", later, MOST);
    for (what, writer, approving, wanted) in [
        ("the first", &a, None, set(1, &[&a])),
        ("one more", &a, None, set(2, &[&a, &b])),
        ("a primary", &b, None, with_primary(3, &[&a, &b], &b)),
        ("the other one", &a, None, with_primary(4, &[&a, &b], &a)),
        ("no primary", &b, Some(&a), set(5, &[&a, &b])),
        ("a third", &a, Some(&b), set(6, &[&a, &b, &c])),
        ("one less", &c, Some(&b), set(7, &[&b, &c])),
        ("a primary", &b, None, with_primary(8, &[&b, &c], &b)),
        ("the other out", &b, None, set(9, &[&b])),
    ] {
        if let Some(member) = approving {
            let early = writer.writes(&name, &wanted).await;
            assert_denied(what, early, MOST);
            assert_eq!(member.approves(&name, &wanted).await, Ok(()), "{what}");
            let stranger = z.writes(&name, &wanted).await;
            assert_denied(what, stranger, MOST);
        }
        assert_eq!(writer.writes(&name, &wanted).await, Ok(()), "{what}");
        let networks = Api::<L2Network>::all(admin.clone());
        let status = networks.get(&name).await.unwrap().status.unwrap();
        assert!(status.approvals.is_empty(), "they were for the set before");
    }
    let mut twice = set(10, &[&b]);
    twice["nodes"] = json!([b.name, b.name]);
    let mut ghost = set(10, &[&b]);
    ghost["nodes"] = json!([b.name, "ghost"]);
    for (what, wanted, words) in [
        ("the same generation", set(9, &[&b, &c]), "goes up"),
        ("an earlier one", set(3, &[&b, &c]), "goes up"),
        ("two more", set(10, &[&a, &b, &c]), MOST),
        ("one that is unheard of", ghost, "an entry of its own"),
        ("one twice", twice, "once only"),
        (
            "a primary that does not vote",
            with_primary(10, &[&b], &z),
            "the primary must be",
        ),
        ("none at all", Value::Null, "its approval, and voters, only"),
    ] {
        assert_denied(what, b.writes(&name, &wanted).await, words);
    }
}

/// Of two, the one that is not the primary may become it, but not be rid of the other at once.
#[tokio::test]
async fn sec_16_of_two_voters_only_the_primary_takes_the_other_out() {
    let admin = deployed().await.admin();
    let (a, b) = (Member::new().await, Member::new().await);
    let both = with_primary(1, &[&a, &b], &a);
    let name = network_of(&admin, &[&a, &b], json!({}), both).await;
    assert_denied("by the other", b.writes(&name, &set(2, &[&b])).await, MOST);
    let skipped = b.writes(&name, &with_primary(3, &[&a, &b], &b)).await;
    assert_denied("a generation left out", skipped, MOST);
    let another = b.writes(&name, &with_primary(2, &[&a, &b], &a)).await;
    assert_denied("in favour of another", another, MOST);
    assert_eq!(a.writes(&name, &set(2, &[&a])).await, Ok(()));
}

#[tokio::test]
async fn sec_17_survivors_go_on_only_where_that_is_permitted() {
    let admin = deployed().await.admin();
    let (a, b) = (Member::new().await, Member::new().await);
    let (c, d, e) = (
        Member::new().await,
        Member::new().await,
        Member::new().await,
    );
    let all = [&a, &b, &c, &d, &e];
    let (five, survivors) = (set(7, &all), set(8, &[&a, &b]));
    let lost = |reason: &str| {
        let mut lost = condition("False");
        (lost["type"], lost["reason"]) = (json!("Quorum"), json!(reason));
        json!({ "status": { "conditions": [lost] } })
    };
    let silent = json!({ "onQuorumLoss": "Silent" });
    let strict = network_of(&admin, &all, silent, five.clone()).await;
    let usual = network_of(&admin, &all, json!({}), five).await;
    for name in [&strict, &usual] {
        assert_eq!(b.approves(name, &survivors).await, Ok(()));
        let verdict = a.writes(name, &survivors).await;
        assert_denied("while the quorum is held", verdict, "Quorum is False");
        let own = merge(&a.daemon, name, &lost("QuorumLost")).await;
        assert_denied("their own word for it", own, "and voters, only");
        merge(&admin, name, &lost("QuorumLost")).await.unwrap();
    }
    let verdict = a.writes(&strict, &survivors).await;
    assert_denied(
        "where they are to be silent",
        verdict,
        "unless spec.onQuorumLoss",
    );
    let more = a.writes(&usual, &set(8, &[&a, &b, &c])).await;
    assert_denied("one that does not approve", more, MOST);
    let z = Member::new().await;
    merge(
        &admin,
        &usual,
        &json!({ "status": { "nodes": all.map(|m| entry(&m.name, true))
        .into_iter().chain([entry(&z.name, true)]).collect::<Vec<_>>() } }),
    )
    .await
    .unwrap();
    let usurper = z.writes(&usual, &set(8, &[&z])).await;
    assert_denied("one that did not vote", usurper, MOST);
    assert_eq!(a.writes(&usual, &survivors).await, Ok(()));
    merge(&admin, &usual, &lost("NoVoterLeft")).await.unwrap();
    assert_eq!(
        z.writes(&usual, &set(9, &[&z])).await,
        Ok(()),
        "nobody else is left"
    );
}

/// The API server knows an older set than the daemons do: most of that one must approve.
#[tokio::test]
async fn sec_17_after_a_backup_is_restored_most_of_the_stored_voters_approve_what_is_served() {
    let admin = deployed().await.admin();
    let (a, b, c) = (
        Member::new().await,
        Member::new().await,
        Member::new().await,
    );
    let (d, e) = (Member::new().await, Member::new().await);
    let stored = set(3, &[&a, &b, &c]);
    // The backup knows nothing of e.
    let name = network_of(&admin, &[&a, &b, &c, &d], json!({}), stored).await;
    let served = set(9, &[&a, &d, &e]);
    assert_eq!(a.approves(&name, &served).await, Ok(()));
    assert_denied("one of three", d.writes(&name, &served).await, MOST);
    assert_eq!(c.approves(&name, &served).await, Ok(()));
    let stranger = Member::new().await;
    assert_denied("a stranger", stranger.writes(&name, &served).await, MOST);
    assert_eq!(d.writes(&name, &served).await, Ok(()));
}

/// The policy looks through all approvals: there must not be too many for it.
#[tokio::test]
async fn sec_16_a_daemon_approves_among_many() {
    let admin = deployed().await.admin();
    let (a, b) = (Member::new().await, Member::new().await);
    let name = network_of(&admin, &[&a, &b], json!({}), set(1, &[&a, &b])).await;
    let long = |n: usize| format!("{n}-{}", "n".repeat(120));
    let seven: Vec<_> = (0..7).map(long).collect();
    let many: serde_json::Map<_, _> = (0..499)
        .map(|n| (long(n), json!({ "generation": 2, "nodes": seven })))
        .collect();
    let entries: Vec<_> = (0..498).map(|n| entry(&long(n), true)).collect();
    let entries: Vec<_> = entries
        .into_iter()
        .chain([entry(&a.name, true), entry(&b.name, true)])
        .collect();
    let patch = json!({ "status": { "approvals": many, "nodes": entries } });
    merge(&admin, &name, &patch).await.unwrap();
    let wanted = with_primary(2, &[&a, &b], &a);
    assert_eq!(a.approves(&name, &wanted).await, Ok(()));
    assert_eq!(a.writes(&name, &wanted).await, Ok(()));
}
