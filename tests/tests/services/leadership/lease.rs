//! Who leads, and that nobody else writes.

use std::time::{Duration, Instant};

use mooring_common::names::LEADER_LEASE;
use mooring_tests::control_plane::{AuditLog, Record};
use mooring_tests::shipped::CentralFlags;
use mooring_tests::stage::SOON;
use mooring_tests::turn::Turn;
use mooring_tests::wait::eventually;

use super::{TAKEOVER, deeds, holder, new_holder, stage, two_replicas};

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
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let (leader, standby) = two_replicas(&turn).await;
    stage.create("before").await;
    stage.served("before").await;
    let first = holder(&turn).await;
    leader.process.kill();
    let killed = Instant::now();
    stage.create("after").await;
    new_holder(&turn, first.as_deref(), TAKEOVER).await;
    mooring_tests::figures::figure_time(
        "Take-over after SIGKILL of the leader (lease 3 s)",
        killed.elapsed(),
    );
    stage.served("after").await;
    mooring_tests::figures::figure_time(
        "Until the next Service is served after it",
        killed.elapsed(),
    );
    assert!(standby.process.is_running());
    assert_only_leaders_wrote(&turn.audit_settled().await.since(start));
    turn.leave().await;
}

#[tokio::test]
async fn t14_a_leader_that_is_told_to_end_hands_over_at_once() {
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let (leader, _standby) = two_replicas(&turn).await;
    let first = holder(&turn).await;
    stage.create("before").await;
    stage.served("before").await;
    leader.process.terminate().unwrap();
    let told = Instant::now();
    new_holder(&turn, first.as_deref(), Duration::from_secs(3)).await;
    let took = told.elapsed();
    mooring_tests::figures::figure_time("Take-over after SIGTERM of the leader", took);
    assert!(took < Duration::from_secs(2), "the lease was not released");
    assert_eq!(leader.process.wait_for_code(SOON).await, 0);
    stage.create("after").await;
    stage.served("after").await;
    assert_only_leaders_wrote(&turn.audit_settled().await.since(start));
    turn.leave().await;
}

#[tokio::test]
async fn a_standby_that_is_told_to_end_ends_and_leaves_the_lease_alone() {
    let turn = Turn::take().await;
    let (leader, standby) = two_replicas(&turn).await;
    let first = holder(&turn).await;
    standby.process.terminate().unwrap();
    assert_eq!(standby.process.wait_for_code(SOON).await, 0);
    assert_eq!(holder(&turn).await, first);
    assert!(leader.process.is_running());
    turn.leave().await;
}

#[tokio::test]
async fn two_replicas_never_write_at_the_same_time() {
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let (mut leader, mut standby) = two_replicas(&turn).await;
    for round in 0..3 {
        let before = holder(&turn).await;
        for n in 0..4 {
            stage.create(&format!("web-{round}-{n}")).await;
        }
        stage.served(&format!("web-{round}-0")).await;
        leader.process.terminate().unwrap();
        new_holder(&turn, before.as_deref(), TAKEOVER).await;
        let fresh = turn.central(CentralFlags::replica()).await;
        (leader, standby) = (standby, fresh);
    }
    for round in 0..3 {
        for n in 0..4 {
            stage.served(&format!("web-{round}-{n}")).await;
        }
    }
    drop(standby);
    let log = turn.audit_settled().await.since(start);
    assert_only_leaders_wrote(&log);
    let mut writers: Vec<_> = deeds(&log).iter().map(|r| r.credential.clone()).collect();
    writers.sort();
    writers.dedup();
    assert!(writers.len() >= 3, "several must have led: {writers:?}");
    turn.leave().await;
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
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let (leader, _standby) = two_replicas(&turn).await;
    // On a busy machine the second may lose the lease as well.
    let _third = turn.central(CentralFlags::replica()).await;
    let first = holder(&turn).await;
    stage.create("before").await;
    stage.served("before").await;
    let networks = stage.networks();
    eventually("the address is counted", SOON, async || {
        let status = networks.get(&stage.network).await?.status;
        let used = status.and_then(|status| status.used_addresses);
        anyhow::ensure!(used == Some(1), "{used:?}");
        Ok(())
    })
    .await;
    leader.process.freeze().unwrap();
    for n in 0..8 {
        stage.create(&format!("meanwhile-{n}")).await;
    }
    new_holder(&turn, first.as_deref(), TAKEOVER).await;
    for n in 0..8 {
        stage.served(&format!("meanwhile-{n}")).await;
    }
    leader.process.thaw().unwrap();
    let thawed = turn.now();
    for n in 0..8 {
        stage.create(&format!("later-{n}")).await;
    }
    assert_eq!(leader.process.wait_for_code(SOON).await, 1);
    for n in 0..8 {
        stage.served(&format!("later-{n}")).await;
    }
    let log = turn.audit_settled().await;
    let late =
        |record: &Record| record.credential == leader.credential && record.received >= thawed;
    let relapses = deeds(&log).filter(|deed| late(deed) && is_about_what_came_meanwhile(deed));
    assert!(relapses.is_empty(), "{}", relapses.summary());
    assert_only_leaders_wrote(&log.since(start).filter(|record| !late(record)));
    turn.leave().await;
}

#[tokio::test]
async fn pr_04_without_election_there_is_no_lease() {
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("web").await;
    stage.served("web").await;
    let asked = turn.audit_settled().await.since(start);
    let asked = asked.by(mooring_tests::shipped::CENTRAL_USER).of("leases");
    assert!(asked.is_empty(), "{}", asked.summary());
    assert_eq!(holder(&turn).await, None);
    turn.leave().await;
}
