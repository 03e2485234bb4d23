//! The API server is away, from one or from all.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_common::names::{NAMESPACE, annotations, node_lease};
use mooring_test_netlab::failover::{APP, FailoverCluster, Seen};
use mooring_test_netlab::netlab::claims;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::failover::alone::{MS, SOON};

/// How long it is away: far longer than any Lease lasts. (The specification's ten minutes are for the
/// bench and its patience.)
const AWAY: Duration = Duration::from_secs(20);

/// The Service of which one address changes; the next number is the other address.
const CHANGING: u8 = 112;

/// Nothing of it reaches a client.
pub fn assert_unnoticed(seen: &Seen) {
    seen.assert_safe();
    assert_eq!((seen.moves, seen.broken), (0, 0), "{seen}");
    if seen.counts() {
        assert_eq!((seen.outage, seen.dark), Default::default(), "{seen}");
    }
}

pub async fn case_04_an_owner_without_the_api_server_speaks_on(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    cluster.cut_from_api(&speaker, true).unwrap();
    watch.settle(AWAY, SOON).await;
    cluster.cut_from_api(&speaker, false).unwrap();
    let back = watch.began().elapsed();
    watch.settle(back + 2000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    assert_unnoticed(&seen);
}

/// What has one speaker is an address. The owner does not learn that the Service has another IPv4 address by
/// now, so that it and the others differ about what belongs together.
pub async fn an_address_has_one_speaker_although_the_owner_does_not_learn_that_the_other_changed(
    cluster: &mut FailoverCluster,
) {
    cluster.service("changing", CHANGING, false).await.unwrap();
    let [_, v6] = cluster.numbered(CHANGING);
    let [other, _] = cluster.numbered(CHANGING + 1);
    let prober = cluster.asker.prober_on(cluster.interface(), v6).unwrap();
    let speaker = async || prober.only_speaker(200 * MS);
    let owner = eventually("somebody speaks", SOON, speaker).await;

    let since = Instant::now();
    let name = cluster.name_of(owner);
    cluster.cut_from_api(&name, true).unwrap();
    let services = Api::<Service>::namespaced(cluster.netlab.admin(), APP);
    let wish = json!({ "metadata": { "annotations": {
        annotations::ADDRESSES_REQUEST: format!("{other},{v6}"),
    } } });
    let patch = Patch::Merge(wish);
    services
        .patch("changing", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let newcomers = cluster.asker.prober_on(cluster.interface(), other).unwrap();
    let second = eventually("somebody speaks for the new address", SOON, async || {
        newcomers.only_speaker(400 * MS)
    })
    .await;
    assert_ne!(second, owner, "it cannot know of it");
    let answers = prober.end(since);
    println!("of {v6}: two spoke for {:?}", answers.two());
    assert!(answers.two().is_zero(), "two nodes answered for {v6}");
    assert_eq!(answers.speakers(), [owner], "it stays where it is");
    cluster.cut_from_api(&name, false).unwrap();
    services
        .delete("changing", &DeleteParams::default())
        .await
        .unwrap();
}

pub async fn case_18_without_an_api_server_nothing_moves_and_a_crash_is_outlived(
    cluster: &mut FailoverCluster,
) {
    let (mut watch, _) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    cluster.netlab.stop_api_server();
    watch.settle(AWAY, SOON).await;
    let seen = watch.end(cluster);
    println!("away: {seen}");
    assert_unnoticed(&seen);
    let seen = cluster.suffer_crash().await.unwrap();
    println!("a crash meanwhile: {seen}");
    seen.assert_safe();
    assert!(seen.outage <= 1000 * MS, "{seen}");
}

pub async fn case_19_a_daemon_restarted_without_an_api_server_serves(
    cluster: &mut FailoverCluster,
) {
    // How long a program takes to start is up to the machine as well: what is late once may be its fault.
    const REPETITIONS: usize = 5;
    const IN_TIME: usize = 2;
    const LIMIT: Duration = Duration::from_millis(2200);
    cluster.netlab.stop_api_server();
    let (mut all, mut in_time) = (Vec::new(), 0);
    while in_time < IN_TIME {
        assert!(all.len() < REPETITIONS, "too late too often: {all:?}");
        let (speaks, seen) = restart_without_an_api_server(cluster).await;
        all.push(speaks);
        in_time += usize::from(seen.counts() && speaks <= LIMIT);
    }
}

/// After how long the daemon that was restarted speaks again, and what clients saw.
async fn restart_without_an_api_server(cluster: &mut FailoverCluster) -> (Duration, Seen) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    cluster.kill(&speaker);
    let started = Instant::now();
    cluster.start_daemon(&speaker).unwrap();
    let own = cluster.mac_of(&speaker);
    let back = eventually("it takes part again", SOON, async || {
        let frames = cluster.capture.since(started);
        (claims::heartbeats(&frames).get(&own)? >= &5).then(|| started.elapsed())
    })
    .await;
    eventually("it speaks again", SOON, async || {
        watch.speaker(200 * MS) == Some(own)
    })
    .await;
    let speaks = started.elapsed();
    watch.settle(speaks + 1000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("back after {back:?}, speaks after {speaks:?}: {seen}");
    seen.assert_safe();
    assert_eq!(seen.broken, 0, "{seen}");
    if seen.counts() {
        assert!(seen.dark <= 500 * MS, "{seen}");
        assert_eq!(seen.outage, Duration::ZERO, "{seen}");
    }
    (speaks, seen)
}

pub async fn a_deleted_lease_moves_nothing_and_is_made_again(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let leases = Api::<Lease>::namespaced(cluster.netlab.admin(), NAMESPACE);
    let name = node_lease(&speaker);
    let old = leases.get(&name).await.unwrap().metadata.uid;
    watch.begin();
    leases
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    eventually("there is a new Lease", SOON, async || {
        let lease = leases.get(&name).await.ok()?;
        (lease.metadata.uid != old).then_some(())
    })
    .await;
    let made = watch.began().elapsed();
    watch.settle(made + 2000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("{seen}");
    assert_unnoticed(&seen);
}
