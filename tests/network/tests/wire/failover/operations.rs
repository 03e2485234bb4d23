//! What operators do: restarts, upgrades, drains.

use std::time::{Duration, Instant};

use mooring_test_netlab::failover::{FailoverCluster, Seen, repeat};
use mooring_test_netlab::netlab::SPACING;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::failover::alone::{MS, SOON, once};

/// For how long new neighbours may go without an answer where nobody has to time out: that takes a
/// mandate of 395 ms. The bench, whose daemons are as they are shipped, wants one question at most.
const HANDED_OVER: Duration = SPACING.saturating_mul(5);

/// No packet is lost, and nobody waits for somebody to time out.
pub fn assert_lossless(seen: &Seen) {
    assert_eq!(seen.outage, Duration::ZERO, "{seen}");
    assert!(seen.dark <= HANDED_OVER, "{seen}");
}

pub async fn case_20_a_rolling_restart_loses_nothing(cluster: &mut FailoverCluster) {
    let seen = once(cluster, |cluster| {
        Box::pin(cluster.suffer_rolling_restart())
    })
    .await;
    assert_lossless(&seen);
    assert_eq!(seen.broken, 0, "{seen}");
}

pub async fn case_20_all_daemons_restarted_at_once_serve_in_two_seconds(
    cluster: &mut FailoverCluster,
) {
    let (mut watch, _) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    let names: Vec<String> = cluster.daemons.keys().cloned().collect();
    for name in &names {
        cluster.kill(name);
    }
    for name in &names {
        cluster.start_daemon(name).unwrap();
    }
    watch.settle(4000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    assert_eq!(seen.outage, Duration::ZERO, "{seen}");
    if seen.counts() {
        assert!(seen.dark <= 2000 * MS, "{seen}");
    }
}

pub async fn case_21_of_two_nodes_that_boot_together_one_speaks(cluster: &mut FailoverCluster) {
    let (mut watch, _) = cluster.watch_speaker().await.unwrap();
    let names: Vec<String> = cluster.daemons.keys().cloned().collect();
    for name in &names {
        cluster.kill(name);
    }
    eventually("nobody speaks", SOON, async || {
        watch.speaker(200 * MS).is_none()
    })
    .await;
    watch.begin();
    for name in &names[..2] {
        cluster.start_daemon(name).unwrap();
    }
    watch.settle(5000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    let [speaker] = &seen.speakers[..] else {
        panic!("not one speaker: {seen}");
    };
    assert!(names[..2].contains(speaker), "{seen}");
    assert!(seen.announcers.len() <= 1, "{seen}");
}

pub async fn case_28_an_excluded_node_hands_over_without_a_loss(cluster: &mut FailoverCluster) {
    let seen = repeat(cluster, 2, |cluster| Box::pin(cluster.suffer_drain()))
        .await
        .unwrap();
    seen.iter().for_each(assert_lossless);
    for seen in &seen {
        assert_eq!(seen.moves, 1, "{seen}");
    }
}

pub async fn case_28_a_node_that_the_autoscaler_deletes_hands_over_without_a_loss(
    cluster: &mut FailoverCluster,
) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let taints = |taints: Value| json!({ "spec": { "taints": taints } });
    let taint = json!([{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }]);
    watch.begin();
    cluster
        .change_node(&speaker, taints(taint), taints(Value::Null))
        .await
        .unwrap();
    let own = cluster.mac_of(&speaker);
    eventually("another speaks", SOON, async || {
        watch.speaker(200 * MS).is_some_and(|mac| mac != own)
    })
    .await;
    let moved = watch.began().elapsed();
    watch.settle(moved + 2500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    if seen.counts() {
        assert_lossless(&seen);
    }
}

pub async fn case_28_a_cordoned_node_keeps_its_addresses(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let cordon = |value: bool| json!({ "spec": { "unschedulable": value } });
    watch.begin();
    cluster
        .change_node(&speaker, cordon(true), cordon(false))
        .await
        .unwrap();
    // A drain, which would be heard of in the same way, takes some milliseconds.
    watch.settle(2500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    assert_eq!((seen.moves, seen.broken), (0, 0), "{seen}");
}

pub async fn a_daemon_that_is_told_to_end_hands_over_without_a_loss(cluster: &mut FailoverCluster) {
    let seen = repeat(cluster, 2, |cluster| Box::pin(cluster.suffer_terminate()))
        .await
        .unwrap();
    for seen in &seen {
        assert_lossless(seen);
        assert_eq!(seen.broken, 0, "{seen}");
    }
}

pub async fn an_upgrade_beside_the_old_daemon_is_not_seen_on_the_wire(
    cluster: &mut FailoverCluster,
) {
    let seen = repeat(cluster, 2, |cluster| Box::pin(cluster.suffer_upgrade()))
        .await
        .unwrap();
    for seen in &seen {
        assert_lossless(seen);
        assert_eq!((seen.moves, seen.broken), (0, 0), "{seen}");
        assert!(seen.announcers.is_empty(), "{seen}");
    }
}

pub async fn a_daemon_that_returns_gets_its_voice_back_quietly(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let own = cluster.mac_of(&speaker);
    watch.begin();
    cluster.kill(&speaker);
    eventually("another speaks", SOON, async || {
        watch.speaker(200 * MS).is_some_and(|mac| mac != own)
    })
    .await;
    cluster.start_daemon(&speaker).unwrap();
    let returned = Instant::now();
    eventually("it has its voice back", SOON, async || {
        watch.speaker(200 * MS) == Some(own)
    })
    .await;
    println!("the voice was back after {:?}", returned.elapsed());
    let back = watch.began().elapsed();
    watch.settle(back + 2500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    seen.assert_safe();
    assert!(seen.announcers.is_empty(), "{seen}");
    assert_eq!((seen.outage, seen.broken), (Duration::ZERO, 0), "{seen}");
}
