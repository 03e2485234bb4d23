//! Connections when an address moves from a node that lives: `spec.keepConnections`.

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::l2_network::L2Network;
use mooring_test_netlab::failover::{FailoverCluster, repeat};
use mooring_test_netlab::netlab_cluster::NETWORK;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::failover::alone::{MS, SOON};
use crate::failover::operations::assert_lossless;

/// How many times the same is done: each node has been the former speaker of another once, in turn.
const MOVES: usize = 4;

/// Waits until all daemons have heard what was written before, of L2Networks and of their own Nodes: they
/// say of an L2Network that is made after it, for Nodes that are labelled after it, that they are on it.
async fn all_have_heard(cluster: &mut FailoverCluster) {
    let networks = Api::<L2Network>::all(cluster.netlab.admin.clone());
    let marker: L2Network = serde_json::from_value(json!({
        "apiVersion": "mooring.dev/v1alpha1",
        "kind": "L2Network",
        "metadata": { "name": "marker" },
        "spec": {
            "parent": "nowhere",
            "subnets": [{ "cidr": "198.51.100.0/24" }],
            "ranges": ["198.51.100.0/30"],
            "nodeSelector": { "matchLabels": { "marker": "yes" } },
        },
    }))
    .unwrap();
    networks
        .create(&PostParams::default(), &marker)
        .await
        .unwrap();
    let names: Vec<&'static str> = cluster.members().collect();
    let labelled = |value: Value| json!({ "metadata": { "labels": { "marker": value } } });
    for name in &names {
        cluster
            .change_node(name, labelled(json!("yes")), labelled(Value::Null))
            .await
            .unwrap();
    }
    eventually("all daemons are on the marker", SOON, async || {
        let status = networks.get("marker").await.ok()?.status?;
        let heard = |name: &&str| status.nodes.iter().any(|node| node.name == **name);
        names.iter().all(heard).then_some(())
    })
    .await;
    networks
        .delete("marker", &DeleteParams::default())
        .await
        .unwrap();
}

/// Sets `spec.keepConnections`, and waits until all daemons have heard of it.
async fn keep(cluster: &mut FailoverCluster, keep: Value) {
    let patch = Patch::Merge(json!({ "spec": { "keepConnections": keep } }));
    Api::<L2Network>::all(cluster.netlab.admin.clone())
        .patch(NETWORK, &PatchParams::default(), &patch)
        .await
        .unwrap();
    all_have_heard(cluster).await;
}

/// Whether a node's kernel passes connections on.
fn passes_on(cluster: &FailoverCluster, node: &str) -> bool {
    let host = cluster.netlab.node(node);
    let listed = host.run(&["nft", "list", "tables", "netdev"]);
    listed.is_ok_and(|tables| tables.contains("mooring"))
}

pub async fn a_drain_resets_connections_where_none_are_kept(cluster: &mut FailoverCluster) {
    keep(cluster, json!("0s")).await;
    let seen = cluster.suffer_drain().await.unwrap();
    println!("{seen}");
    assert!(seen.broken > 0, "{seen}");
    keep(cluster, Value::Null).await;
}

pub async fn drains_break_no_connection(cluster: &mut FailoverCluster) {
    keep(cluster, json!("15m")).await;
    let seen = repeat(cluster, MOVES, |cluster| Box::pin(cluster.suffer_drain()))
        .await
        .unwrap();
    for seen in &seen {
        assert_lossless(seen);
        assert_eq!((seen.moves, seen.broken), (1, 0), "{seen}");
    }
    keep(cluster, Value::Null).await;
}

pub async fn the_table_goes_with_the_last_connection(cluster: &mut FailoverCluster) {
    keep(cluster, json!("15m")).await;
    let seen = cluster.suffer_drain().await.unwrap();
    assert_eq!(seen.broken, 0, "{seen}");
    let speaker = cluster.speaker().await.unwrap();
    assert!(passes_on(cluster, &speaker), "{speaker} passes nothing on");
    // The clients have ended with the watch: the former speaker finds no connection of theirs.
    eventually("nothing is passed on any more", SOON * 4, async || {
        (!passes_on(cluster, &speaker)).then_some(())
    })
    .await;
    keep(cluster, Value::Null).await;
}

pub async fn connections_end_with_the_node_that_they_began_at(cluster: &mut FailoverCluster) {
    keep(cluster, json!("15m")).await;
    let former = cluster.speaker().await.unwrap();
    let seen = cluster.suffer_drain().await.unwrap();
    assert_eq!(seen.broken, 0, "{seen}");
    let speaker = cluster.speaker().await.unwrap();
    assert_ne!(former, speaker);
    cluster.port(&former).pull().unwrap();
    cluster.kill(&former);
    eventually("nothing is passed on any more", SOON, async || {
        (!passes_on(cluster, &speaker)).then_some(())
    })
    .await;
    cluster.port(&former).plug().unwrap();
    cluster.start_daemon(&former).unwrap();
    cluster.settled().await.unwrap();
    keep(cluster, Value::Null).await;
}

/// `kubectl drain` and reboot: the daemon is told to end, and the network goes a moment later.
pub async fn a_cordoned_node_that_shuts_down_loses_no_datagram(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let cordon = |value: bool| json!({ "spec": { "unschedulable": value } });
    cluster
        .change_node(&speaker, cordon(true), cordon(false))
        .await
        .unwrap();
    all_have_heard(cluster).await;
    watch.begin();
    // It has ended when this returns; the machine's network goes right behind.
    cluster.terminate(&speaker).await.unwrap();
    cluster.port(&speaker).pull().unwrap();
    let gone = watch.began().elapsed();
    watch.settle(gone + 2500 * MS, SOON).await;
    let seen = watch.end(cluster);
    cluster.port(&speaker).plug().unwrap();
    cluster.start_daemon(&speaker).unwrap();
    println!("{seen}");
    seen.assert_safe();
    if seen.counts() {
        assert_lossless(&seen);
    }
}
