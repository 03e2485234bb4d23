//! Who leads, and that nobody else writes.

use std::time::{Duration, Instant};

use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use mooring_common::names::{LEADER_LEASE, LEADER_LEASE_NAMESPACE};
use mooring_test_cluster::api_proxy::ApiProxy;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::{AuditLog, Record};
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::SOON;
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::{TAKEOVER, deeds, holder, new_holder, two_replicas};

/// How the Lease changed hands: since when each token held it, or nobody.
fn reigns(log: &AuditLog) -> Vec<(jiff::Timestamp, Option<String>)> {
    let written = log.of("leases").writes().filter(|record| {
        let body = record.body.as_ref();
        let name = body.map(|body| &body["metadata"]["name"]);
        record.code < 300 && name.is_some_and(|name| name == LEADER_LEASE)
    });
    let mut reigns: Vec<_> = written
        .iter()
        .map(|record| {
            let body = record.body.as_ref();
            let holder = body.and_then(|b| b["spec"]["holderIdentity"].as_str());
            let held = holder.is_some_and(|name| !name.is_empty());
            (record.at, held.then(|| record.credential.clone()))
        })
        .collect();
    reigns.sort();
    reigns
}

/// Asserts that every deed was done by who held the Lease when it was asked for.
pub(crate) fn assert_only_leaders_wrote(log: &AuditLog) {
    let reigns = reigns(log);
    assert!(!reigns.is_empty(), "somebody must have led");
    for deed in deeds(log).iter() {
        let reign = reigns
            .iter()
            .rev()
            .find(|(since, _)| *since <= deed.received);
        let leader = reign.and_then(|(_, credential)| credential.as_deref());
        assert_eq!(
            leader,
            Some(deed.credential.as_str()),
            "{} at {} was not the leader's; the reigns: {reigns:#?}",
            deed.summary(),
            deed.received
        );
    }
}

#[tokio::test]
async fn pr_02_another_takes_over_from_a_killed_leader() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let (leader, standby) = two_replicas(&cluster).await;
    namespace.create("before").await;
    namespace.served("before").await;
    let first = holder(&cluster).await;
    leader.process.kill();
    let killed = Instant::now();
    namespace.create("after").await;
    new_holder(&cluster, first.as_deref(), TAKEOVER).await;
    mooring_test_support::figures::figure_time(
        "Take-over after SIGKILL of the leader (lease 3 s)",
        killed.elapsed(),
    );
    namespace.served("after").await;
    mooring_test_support::figures::figure_time(
        "Until the next Service is served after it",
        killed.elapsed(),
    );
    assert!(standby.process.is_running());
    assert_only_leaders_wrote(&cluster.audit().await.since(start));
    cluster.finish().await;
}

#[tokio::test]
async fn t14_a_leader_that_is_told_to_end_hands_over_at_once() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let (leader, _standby) = two_replicas(&cluster).await;
    let first = holder(&cluster).await;
    namespace.create("before").await;
    namespace.served("before").await;
    leader.process.terminate().unwrap();
    let told = Instant::now();
    new_holder(&cluster, first.as_deref(), Duration::from_secs(3)).await;
    let took = told.elapsed();
    mooring_test_support::figures::figure_time("Take-over after SIGTERM of the leader", took);
    assert!(took < Duration::from_secs(2), "the lease was not released");
    assert_eq!(leader.process.wait_for_code(SOON).await, 0);
    namespace.create("after").await;
    namespace.served("after").await;
    assert_only_leaders_wrote(&cluster.audit().await.since(start));
    cluster.finish().await;
}

#[tokio::test]
async fn a_standby_that_is_told_to_end_ends_and_leaves_the_lease_alone() {
    let cluster = Cluster::exclusive().await;
    let (leader, standby) = two_replicas(&cluster).await;
    let first = holder(&cluster).await;
    standby.process.terminate().unwrap();
    assert_eq!(standby.process.wait_for_code(SOON).await, 0);
    assert_eq!(holder(&cluster).await, first);
    assert!(leader.process.is_running());
    cluster.finish().await;
}

/// As two replicas that start at once do: the API server has the Lease of the other one already.
#[tokio::test]
async fn a_replica_that_is_too_late_to_make_the_lease_stands_by_without_a_warning() {
    let cluster = Cluster::exclusive().await;
    let proxy = ApiProxy::start(&cluster).await.unwrap();
    let leases = Api::<Lease>::namespaced(cluster.admin.clone(), LEADER_LEASE_NAMESPACE);
    let all = leases.clone();
    proxy.first(Method::POST, "/leases", 1, move || {
        let all = all.clone();
        async move {
            let other = serde_json::from_value(json!({
                "metadata": {"name": LEADER_LEASE},
                "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3},
            }));
            all.create(&PostParams::default(), &other.unwrap())
                .await
                .unwrap();
        }
    });
    let central = cluster
        .start_central_by(&proxy, CentralFlags::replica())
        .await;
    eventually(
        "it leads when the other one is silent",
        TAKEOVER,
        async || {
            let holder = holder(&cluster).await;
            holder.is_some_and(|holder| holder != "another")
        },
    )
    .await;
    assert_eq!(proxy.asked(&Method::POST, "/leases").len(), 1);
    let log = central.process.log();
    assert!(!log.contains(" WARN mooring_central::election"), "{log}");
    cluster.finish().await;
}

#[tokio::test]
async fn two_replicas_never_write_at_the_same_time() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let (mut leader, mut standby) = two_replicas(&cluster).await;
    for round in 0..3 {
        let before = holder(&cluster).await;
        for n in 0..4 {
            namespace.create(&format!("web-{round}-{n}")).await;
        }
        namespace.served(&format!("web-{round}-0")).await;
        leader.process.terminate().unwrap();
        new_holder(&cluster, before.as_deref(), TAKEOVER).await;
        let fresh = cluster.start_central(CentralFlags::replica()).await;
        (leader, standby) = (standby, fresh);
    }
    for round in 0..3 {
        for n in 0..4 {
            namespace.served(&format!("web-{round}-{n}")).await;
        }
    }
    drop(standby);
    let log = cluster.audit().await.since(start);
    assert_only_leaders_wrote(&log);
    let mut writers: Vec<_> = deeds(&log).iter().map(|r| r.credential.clone()).collect();
    writers.sort();
    writers.dedup();
    assert!(writers.len() >= 3, "several must have led: {writers:?}");
    cluster.finish().await;
}

/// Whether a deed is about a Service that was made while the leader was frozen, or later, or counts its
/// address. Any other may have been on its way when the leader was frozen.
fn is_about_what_came_meanwhile(deed: &Record) -> bool {
    let body = deed.body.as_ref();
    let told = body.map_or_else(String::new, ToString::to_string) + &deed.uri;
    let used = body.and_then(|body| body["status"]["usedAddresses"].as_i64());
    told.contains("meanwhile-") || told.contains("later-") || used.is_some_and(|used| used > 1)
}

#[tokio::test]
async fn a_leader_that_was_frozen_does_not_write_when_it_wakes_up() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let (leader, _standby) = two_replicas(&cluster).await;
    // On a busy machine the second may lose the lease as well.
    let _third = cluster.start_central(CentralFlags::replica()).await;
    let first = holder(&cluster).await;
    namespace.create("before").await;
    namespace.served("before").await;
    let networks = namespace.networks();
    eventually("the address is counted", SOON, async || {
        let status = networks.get(&namespace.network).await?.status;
        let used = status.and_then(|status| status.used_addresses);
        anyhow::ensure!(used == Some(1), "{used:?}");
        Ok(())
    })
    .await;
    leader.process.freeze().unwrap();
    for n in 0..8 {
        namespace.create(&format!("meanwhile-{n}")).await;
    }
    new_holder(&cluster, first.as_deref(), TAKEOVER).await;
    for n in 0..8 {
        namespace.served(&format!("meanwhile-{n}")).await;
    }
    leader.process.thaw().unwrap();
    let thawed = cluster.now();
    for n in 0..8 {
        namespace.create(&format!("later-{n}")).await;
    }
    assert_eq!(leader.process.wait_for_code(SOON).await, 1);
    for n in 0..8 {
        namespace.served(&format!("later-{n}")).await;
    }
    let log = cluster.audit().await;
    let late =
        |record: &Record| record.credential == leader.credential && record.received >= thawed;
    let relapses = deeds(&log).filter(|deed| late(deed) && is_about_what_came_meanwhile(deed));
    assert!(relapses.is_empty(), "{}", relapses.summary());
    assert_only_leaders_wrote(&log.since(start).filter(|record| !late(record)));
    cluster.finish().await;
}

#[tokio::test]
async fn pr_04_without_election_there_is_no_lease() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("web").await;
    namespace.served("web").await;
    let asked = cluster.audit().await.since(start);
    let asked = asked
        .by(mooring_test_cluster::shipped::CENTRAL_USER)
        .of("leases");
    assert!(asked.is_empty(), "{}", asked.summary());
    assert_eq!(holder(&cluster).await, None);
    cluster.finish().await;
}
