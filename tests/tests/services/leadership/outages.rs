//! The API server goes away, and comes back.

use std::time::{Duration, Instant};

use mooring_tests::shipped::CentralFlags;
use mooring_tests::stage::SOON;
use mooring_tests::turn::Turn;

use super::lease::assert_only_leaders_wrote;
use super::{deeds, holder, stage};

/// Services are worked on by four, L2Networks by one: so many writes may be under way.
const WORKERS: usize = 5;

/// The renew deadline of [`CentralFlags::replica`] is 2 s.
const GIVES_UP: Duration = Duration::from_secs(6);

#[tokio::test]
async fn pr_03_a_leader_whose_api_server_is_gone_ends_with_an_error() {
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let leader = turn.central(CentralFlags::replica()).await;
    stage.create("before").await;
    stage.served("before").await;
    turn.stop_api_server();
    let gone = Instant::now();
    let code = leader.process.wait_for_code(GIVES_UP).await;
    mooring_tests::figures::figure_time(
        "Until a leader gives up (renew deadline 2 s)",
        gone.elapsed(),
    );
    assert_eq!(code, 1);
    let log = leader.process.log();
    assert!(
        log.contains("the lease could not be renewed within 2s"),
        "{log}"
    );
    turn.start_api_server().await.unwrap();
    let _next = turn.central(CentralFlags::replica()).await;
    stage.create("after").await;
    stage.served("after").await;
    assert_only_leaders_wrote(&turn.audit_settled().await.since(start));
    turn.leave().await;
}

#[tokio::test]
async fn pr_03_a_leader_whose_api_server_is_silent_ends_and_writes_no_more() {
    let turn = Turn::take().await;
    let start = turn.now();
    let stage = stage(&turn).await;
    let leader = turn.central(CentralFlags::replica()).await;
    stage.create("before").await;
    stage.served("before").await;
    let first = holder(&turn).await;
    // What it has asked for already is still under way when the API server falls silent.
    for n in 0..8 {
        stage.create(&format!("meanwhile-{n}")).await;
    }
    turn.freeze_api_server().unwrap();
    let code = leader.process.wait_for_code(GIVES_UP).await;
    assert_eq!(code, 1);
    let ended = turn.now();
    turn.thaw_api_server().unwrap();
    let _next = turn.central(CentralFlags::replica()).await;
    super::new_holder(&turn, first.as_deref(), SOON).await;
    for n in 0..8 {
        stage.served(&format!("meanwhile-{n}")).await;
    }
    let log = turn.audit_settled().await;
    let late = deeds(&log.since(ended)).with_credential(&leader.credential);
    let late = late.filter(|record| record.code < 300);
    assert!(
        late.len() <= WORKERS,
        "more than what was under way:\n{}",
        late.summary()
    );
    assert_only_leaders_wrote(&log.since(start));
    turn.leave().await;
}

#[tokio::test]
async fn a_standby_takes_over_although_the_api_server_was_silent_for_a_while() {
    let turn = Turn::take().await;
    let stage = stage(&turn).await;
    let (leader, standby) = super::two_replicas(&turn).await;
    turn.freeze_api_server().unwrap();
    assert_eq!(leader.process.wait_for_code(GIVES_UP).await, 1);
    assert!(
        standby.process.is_running(),
        "who does not lead has nothing to lose"
    );
    turn.thaw_api_server().unwrap();
    stage.create("web").await;
    stage.served("web").await;
    turn.leave().await;
}

#[tokio::test]
async fn pr_14_nothing_is_missed_that_happens_around_a_restart_of_the_api_server() {
    let turn = Turn::take().await;
    let stage = stage(&turn).await;
    let central = turn.central(CentralFlags::alone()).await;
    for name in ["kept", "deleted"] {
        stage.create(name).await;
        stage.served(name).await;
    }
    turn.stop_api_server();
    turn.start_api_server().await.unwrap();
    stage.create("gap").await;
    stage.delete("deleted").await;
    stage.gone("deleted").await;
    stage.served("gap").await;
    stage.served("kept").await;
    assert!(central.process.is_running());
    turn.leave().await;
}
