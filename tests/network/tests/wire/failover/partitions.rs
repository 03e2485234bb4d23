//! Segments that are cut, and clusters too small for a majority.

use std::time::{Duration, Instant};

use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{FailoverCluster, Seen, repeat};

use crate::failover::alone::{MS, SOON, largest, median, once};

pub async fn case_05_a_segment_that_is_dead_to_the_owner_is_left_at_once(
    cluster: &mut FailoverCluster,
) {
    let seen = repeat(cluster, 2, |cluster| {
        Box::pin(cluster.suffer_dead_segment())
    })
    .await
    .unwrap();
    let outage = median(&seen, |seen| seen.outage);
    // 300 ms to be sure, and what the machine takes.
    assert!(outage <= 430 * MS, "{outage:?}");
    assert!(largest(&seen, |seen| seen.outage) <= 600 * MS, "{seen:?}");
}

/// The switch forgets after 5 s, and nobody talks to the address for longer.
pub async fn case_29_the_switch_knows_the_speaker_though_nobody_talks(
    cluster: &mut FailoverCluster,
) {
    let speaker = cluster.speaker().await.unwrap();
    let segment = cluster.segment.as_ref().expect("the layout has one");
    segment.forget_after(Duration::from_secs(5)).unwrap();
    let (port, mac) = (cluster.port(&speaker), cluster.mac_of(&speaker));
    let start = Instant::now();
    let mut turn = start;
    while turn < start + Duration::from_secs(12) {
        assert!(
            port.has_learned(mac).unwrap(),
            "the switch has forgotten {speaker} after {:?}: it would flood",
            start.elapsed()
        );
        turn += 500 * MS;
        until(turn).await;
    }
    segment.forget_after(Duration::from_secs(300)).unwrap();
}

/// It is on the segment still, and reaches neither the API server nor a Pod of another node.
pub async fn a_speaker_that_is_off_the_node_network_hands_over(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    cluster.netlab.node(&speaker).pull_cable().unwrap();
    watch.settle(6000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("off the node network: {seen}");
    cluster.netlab.node(&speaker).plug_cable().unwrap();
    seen.assert_safe();
    assert!(
        seen.speakers.last().is_some_and(|last| *last != speaker),
        "{seen}"
    );
    assert!(seen.dark.is_zero(), "{seen}");
}

/// Two nodes hear each other and not the two others; clients and the API server hear all four.
pub async fn case_07_two_halves_never_both_speak_and_one_goes_on(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let names: Vec<_> = cluster.members().collect();
    let partner = names.iter().find(|name| **name != speaker).unwrap();
    let half = |name: &str| name == speaker || name == *partner;
    let voters = cluster.voters().await.unwrap();
    let here = voters.iter().filter(|name| half(name)).count();
    println!("{here} of {voters:?} are with {speaker}");
    watch.begin();
    for one in &names {
        for another in names.iter().filter(|another| half(another) != half(one)) {
            let mac = cluster.mac_of(another);
            cluster.port(one).lose_of(mac).unwrap();
        }
    }
    // Survivors go on after 30 s.
    watch.settle(Duration::from_secs(36), SOON).await;
    let seen = watch.end(cluster);
    println!("cut in two: {seen}");
    seen.assert_safe();
    if here * 2 <= voters.len() {
        // The other half may go on so soon that no question falls in between.
        let moved = seen.speakers.iter().any(|name| !half(name));
        assert!(
            moved || !seen.dark.is_zero(),
            "somebody spoke without a majority: {seen}"
        );
    }
    assert!(seen.dark <= Duration::from_secs(35), "{seen}");
    let [.., last] = &seen.speakers[..] else {
        panic!("nobody ever spoke");
    };
    println!("{last} goes on");

    // Healing makes no second speaker either.
    let (mut watch, _) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    for name in &names {
        cluster.port(name).mend().unwrap();
    }
    watch.settle(5000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("healed: {seen}");
    seen.assert_safe();
}

async fn crash(cluster: &mut FailoverCluster) -> anyhow::Result<Seen> {
    cluster.suffer_crash().await
}

pub async fn case_22_of_two_nodes_one_goes_on_in_two_seconds(cluster: &mut FailoverCluster) {
    let seen = repeat(cluster, 2, |cluster| Box::pin(crash(cluster)))
        .await
        .unwrap();
    assert!(largest(&seen, |seen| seen.outage) <= 2000 * MS, "{seen:?}");
}

pub async fn case_22_of_two_nodes_with_a_witness_one_goes_on_in_half_a_second(
    cluster: &mut FailoverCluster,
) {
    let seen = once(cluster, |cluster| Box::pin(crash(cluster))).await;
    assert!(seen.outage <= 500 * MS, "{seen}");
}
