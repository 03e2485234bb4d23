//! Only a daemon on an L2Network's segment holds a Lease, and each says in the L2Network's status
//! whether its Node can speak there. Both are gone when the Node is on no segment any more.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::l2_network::L2Network;
use mooring_common::names::NAMESPACE;
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{NETWORK, NetlabCluster, Network};
use mooring_test_support::process::Process;
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use crate::fence::policies::{SOON, can_speak, entry_of, held_by, label, lease_of, requests_of};

#[test]
fn an_only_a_node_on_a_segment_has_a_lease_and_an_entry() {
    in_netlab(async || {
        let cluster = NetlabCluster::start(&["n1", "n2"]).await.unwrap();
        let _kubelets = cluster.register().await.unwrap();
        let _central = cluster.start_central(&[]).await.unwrap();
        let mut daemons = cluster
            .start_daemons(&["--lease-duration=3s"])
            .await
            .unwrap();
        label(&cluster, "n2", "rack", Some("r1")).await;
        Network::of_the_bridge()
            .of_nodes_with("rack", "r1")
            .create(&cluster)
            .await
            .unwrap();
        no_lease_without_a_segment(&cluster).await;
        they_appear_with_the_segment(&cluster).await;
        both_vote(&cluster).await;
        in_steady_state_the_lease_alone_is_written(&cluster).await;
        what_hinders_a_node_is_in_the_status(&cluster).await;
        they_go_with_the_segment(&cluster).await;
        central_forgets_a_node_that_is_gone(&cluster).await;
        what_an_earlier_run_left_is_let_go(&cluster, &mut daemons).await;
        cluster.assert_nothing_refused().await;
    });
}

/// The marker is the Lease of n2, renewed.
async fn no_lease_without_a_segment(cluster: &NetlabCluster) {
    can_speak(cluster, "n2").await;
    let first = renewed(cluster, "n2").await;
    never(
        "a Lease for a Node on no segment",
        SOON,
        async || renewed(cluster, "n2").await != first,
        async || {
            lease_of(cluster, "n1")
                .await
                .map(|lease| format!("{lease:?}"))
        },
    )
    .await;
    assert_eq!(entry_of(cluster, NETWORK, "n1").await, None);
    let of_n1 = requests_of(cluster, "n1").await;
    let (leases, entries) = (of_n1.of("leases"), of_n1.of("l2networks"));
    assert!(leases.writes().is_empty(), "{}", leases.summary());
    assert!(entries.writes().is_empty(), "{}", entries.summary());
    assert!(
        !of_n1.of("nodes").writes().is_empty(),
        "it describes its Node"
    );
}

async fn they_appear_with_the_segment(cluster: &NetlabCluster) {
    label(cluster, "n1", "rack", Some("r1")).await;
    can_speak(cluster, "n1").await;
    for node in ["n1", "n2"] {
        let entry = says(cluster, node, "Ready").await;
        let mac = cluster.node(node).mac().to_string();
        assert_eq!(entry.mac.as_deref(), Some(mac.as_str()));
        assert_eq!(entry.interface.as_deref(), Some("eth0"));
        assert!(entry.ready && entry.message.is_empty(), "{entry:?}");
    }
}

/// Until one of two is named who may go on alone, there is more to be written.
async fn both_vote(cluster: &NetlabCluster) {
    let networks = Api::<L2Network>::all(cluster.admin.clone());
    eventually(
        "both nodes vote, one of them alone if need be",
        SOON,
        async || {
            let network = networks.get(NETWORK).await?;
            let voters = network.status.and_then(|status| status.voters);
            let voters = voters.unwrap_or_default();
            anyhow::ensure!(voters.nodes == ["n1", "n2"], "{voters:?}");
            anyhow::ensure!(voters.primary.is_some(), "{voters:?}");
            anyhow::Ok(())
        },
    )
    .await;
}

async fn in_steady_state_the_lease_alone_is_written(cluster: &NetlabCluster) {
    let before = cluster.now();
    let first = renewed(cluster, "n1").await;
    let mut seen = std::collections::BTreeSet::from([first]);
    eventually("five renewals", SOON, async || {
        seen.insert(renewed(cluster, "n1").await);
        seen.len() > 5
    })
    .await;
    for node in ["n1", "n2"] {
        let writes = writes_since(cluster, node, before).await;
        let others = writes.filter(|record| record.resource != "leases");
        assert!(others.is_empty(), "{}", others.summary());
        assert!(!writes.is_empty());
    }
}

async fn what_hinders_a_node_is_in_the_status(cluster: &NetlabCluster) {
    parent_is(cluster, Some("nowhere")).await;
    for node in ["n1", "n2"] {
        let entry = says(cluster, node, "NoInterface").await;
        assert!(entry.message.contains("\"nowhere\""), "{entry:?}");
        assert!(entry.message.contains("spec.parent"), "{entry:?}");
        assert!(!entry.ready && entry.mac.is_none(), "{entry:?}");
        assert!(
            !held_by(&lease_of(cluster, node).await.unwrap())
                .0
                .is_empty()
        );
    }
    parent_is(cluster, None).await;
    says(cluster, "n1", "Ready").await;
    let excluded = "node.kubernetes.io/exclude-from-external-load-balancers";
    label(cluster, "n1", excluded, Some("")).await;
    let entry = says(cluster, "n1", "Draining").await;
    assert!(!entry.ready && entry.mac.is_some(), "{entry:?}");
    label(cluster, "n1", excluded, None).await;
    says(cluster, "n1", "Ready").await;
}

async fn they_go_with_the_segment(cluster: &NetlabCluster) {
    label(cluster, "n1", "rack", None).await;
    is_let_go(cluster, "n1").await;
    eventually("the entry is gone", SOON, async || {
        entry_of(cluster, NETWORK, "n1").await.is_none()
    })
    .await;
    assert!(entry_of(cluster, NETWORK, "n2").await.is_some());
    let after = cluster.now();
    let start = renewed(cluster, "n2").await;
    let mut seen = std::collections::BTreeSet::from([start]);
    never(
        "a write by a daemon on no segment",
        SOON,
        async || {
            seen.insert(renewed(cluster, "n2").await);
            seen.len() > 5
        },
        async || {
            let writes = writes_since(cluster, "n1", after).await;
            (!writes.is_empty()).then(|| writes.summary())
        },
    )
    .await;
}

/// Its daemon cannot take the entry away any more.
async fn central_forgets_a_node_that_is_gone(cluster: &NetlabCluster) {
    let ghost = Patch::Apply(json!({
        "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
        "metadata": { "name": NETWORK },
        "status": { "nodes": [{ "name": "ghost", "ready": true, "reason": "Ready" }] },
    }));
    Api::<L2Network>::all(cluster.admin.clone())
        .patch_status(NETWORK, &PatchParams::apply("ghost"), &ghost)
        .await
        .unwrap();
    eventually("the entry is gone", SOON, async || {
        entry_of(cluster, NETWORK, "ghost").await.is_none()
    })
    .await;
    assert!(entry_of(cluster, NETWORK, "n2").await.is_some());
}

/// A daemon that was killed has left a Lease that looks held. Where the next one needs none, it
/// lets go of that.
async fn what_an_earlier_run_left_is_let_go(
    cluster: &NetlabCluster,
    daemons: &mut BTreeMap<String, Process>,
) {
    daemons.remove("n1").expect("it runs").kill();
    let leases = Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(
        cluster.admin.clone(),
        NAMESPACE,
    );
    let stale = Patch::Merge(json!({
        "metadata": { "annotations": {
            "mooring.dev/segments": format!("{{\"{NETWORK}\":\"02:00:00:00:00:01\"}}"),
        } },
        "spec": { "holderIdentity": "n1_0" },
    }));
    leases
        .patch("node-n1", &PatchParams::default(), &stale)
        .await
        .unwrap();
    let next = cluster.start_daemon(cluster.node("n1"), &[]).await.unwrap();
    daemons.insert("n1".to_owned(), next);
    is_let_go(cluster, "n1").await;

    let networks = Api::<L2Network>::all(cluster.admin.clone());
    networks
        .delete(NETWORK, &DeleteParams::default())
        .await
        .unwrap();
    is_let_go(cluster, "n2").await;
}

async fn parent_is(cluster: &NetlabCluster, parent: Option<&str>) {
    let patch = Patch::Merge(json!({ "spec": { "parent": parent } }));
    Api::<L2Network>::all(cluster.admin.clone())
        .patch(NETWORK, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn says(
    cluster: &NetlabCluster,
    node: &str,
    reason: &str,
) -> mooring_common::l2_network::SegmentNode {
    let what = format!("the L2Network says {reason} of {node}");
    eventually(&what, SOON, async || {
        let entry = entry_of(cluster, NETWORK, node).await;
        match entry {
            Some(entry) if entry.reason == reason => Ok(entry),
            other => Err(other),
        }
    })
    .await
}

async fn is_let_go(cluster: &NetlabCluster, node: &str) {
    let what = format!("the Lease of {node} is nobody's");
    eventually(&what, SOON, async || {
        let found = held_by(&lease_of(cluster, node).await.expect("it stays"));
        if found == (String::new(), "{}".to_owned()) {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
}

async fn renewed(cluster: &NetlabCluster, node: &str) -> String {
    let lease = lease_of(cluster, node).await;
    lease
        .and_then(|lease| lease.metadata.resource_version)
        .unwrap_or_default()
}

async fn writes_since(cluster: &NetlabCluster, node: &str, start: Timestamp) -> AuditLog {
    requests_of(cluster, node).await.since(start).writes()
}
