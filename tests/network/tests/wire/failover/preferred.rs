//! A node that is preferred fails and returns.

use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::L2Network;
use mooring_test_netlab::failover::FailoverCluster;
use mooring_test_netlab::netlab_cluster::NETWORK;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::failover::alone::{MS, SOON};
use crate::failover::connections::keep;
use crate::failover::operations::assert_lossless;

/// A node that returns waits for a minute.
const RETURNED: Duration = Duration::from_secs(100);

async fn prefer(cluster: &FailoverCluster, preferred: Value) {
    let patch = Patch::Merge(json!({ "spec": { "preferredNodes": preferred } }));
    Api::<L2Network>::all(cluster.netlab.admin.clone())
        .patch(NETWORK, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

pub async fn a_preferred_node_gets_its_addresses_back_and_no_connection_breaks(
    cluster: &mut FailoverCluster,
) {
    let owner = cluster.speaker().await.unwrap();
    let labelled = |value: Value| json!({ "metadata": { "labels": { "edge": value } } });
    cluster
        .change_node(&owner, labelled(json!("yes")), labelled(Value::Null))
        .await
        .unwrap();
    let selector = json!({ "matchLabels": { "edge": "yes" } });
    prefer(cluster, json!([{ "weight": 10, "nodeSelector": selector }])).await;

    let seen = cluster.suffer_crash().await.unwrap();
    println!("{seen}");
    seen.assert_safe();
    cluster.port(&owner).plug().unwrap();
    cluster.start_daemon(&owner).unwrap();
    cluster.settled().await.unwrap();

    keep(cluster, json!("15m")).await;
    let (mut watch, deputy) = cluster.watch_speaker().await.unwrap();
    assert_ne!(deputy, owner, "it must have been there for a minute");
    watch.begin();
    let own = cluster.mac_of(&owner);
    eventually("the preferred node speaks again", RETURNED, async || {
        watch.speaker(200 * MS).filter(|mac| *mac == own)
    })
    .await;
    let moved = watch.began().elapsed();
    watch.settle(moved + 2500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    assert_eq!((seen.moves, seen.broken), (1, 0), "{seen}");
    if seen.counts() {
        assert_lossless(&seen);
    }
    keep(cluster, Value::Null).await;
    prefer(cluster, Value::Null).await;
}
