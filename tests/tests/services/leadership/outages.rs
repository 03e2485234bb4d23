//! The API server goes away, and comes back.

use std::time::{Duration, Instant};

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_cluster::test_namespace::SOON;

use super::lease::assert_only_leaders_wrote;
use super::{deeds, holder};

/// Services are worked on by four, L2Networks by one: so many writes may be under way.
const WORKERS: usize = 5;

/// The renew deadline of [`CentralFlags::replica`] is 2 s.
const GIVES_UP: Duration = Duration::from_secs(6);

#[tokio::test]
async fn pr_03_a_leader_whose_api_server_is_gone_ends_with_an_error() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let leader = cluster.start_central(CentralFlags::replica()).await;
    namespace.create("before").await;
    namespace.served("before").await;
    cluster.stop_api_server();
    let gone = Instant::now();
    let code = leader.process.wait_for_code(GIVES_UP).await;
    mooring_test_support::figures::figure_time(
        "Until a leader gives up (renew deadline 2 s)",
        gone.elapsed(),
    );
    assert_eq!(code, 1);
    let log = leader.process.log();
    assert!(
        log.contains("the lease could not be renewed within 2s"),
        "{log}"
    );
    cluster.start_api_server().await.unwrap();
    let _next = cluster.start_central(CentralFlags::replica()).await;
    namespace.create("after").await;
    namespace.served("after").await;
    assert_only_leaders_wrote(&cluster.audit().await.since(start));
    cluster.finish().await;
}

#[tokio::test]
async fn pr_03_a_leader_whose_api_server_is_silent_ends_and_writes_no_more() {
    let cluster = Cluster::exclusive().await;
    let start = cluster.now();
    let namespace = cluster.namespace_with_network(32).await;
    let leader = cluster.start_central(CentralFlags::replica()).await;
    namespace.create("before").await;
    namespace.served("before").await;
    let first = holder(&cluster).await;
    // What it has asked for already is still under way when the API server falls silent.
    for n in 0..8 {
        namespace.create(&format!("meanwhile-{n}")).await;
    }
    cluster.freeze_api_server().unwrap();
    let code = leader.process.wait_for_code(GIVES_UP).await;
    assert_eq!(code, 1);
    let ended = cluster.now();
    cluster.thaw_api_server().unwrap();
    let _next = cluster.start_central(CentralFlags::replica()).await;
    super::new_holder(&cluster, first.as_deref(), SOON).await;
    for n in 0..8 {
        namespace.served(&format!("meanwhile-{n}")).await;
    }
    let log = cluster.audit().await;
    let late = deeds(&log.since(ended)).with_credential(&leader.credential);
    let late = late.filter(|record| record.code < 300);
    assert!(
        late.len() <= WORKERS,
        "more than what was under way:\n{}",
        late.summary()
    );
    assert_only_leaders_wrote(&log.since(start));
    cluster.finish().await;
}

#[tokio::test]
async fn a_standby_takes_over_although_the_api_server_was_silent_for_a_while() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(32).await;
    let (leader, standby) = super::two_replicas(&cluster).await;
    cluster.freeze_api_server().unwrap();
    assert_eq!(leader.process.wait_for_code(GIVES_UP).await, 1);
    assert!(
        standby.process.is_running(),
        "who does not lead has nothing to lose"
    );
    cluster.thaw_api_server().unwrap();
    namespace.create("web").await;
    namespace.served("web").await;
    cluster.finish().await;
}

#[tokio::test]
async fn pr_14_nothing_is_missed_that_happens_around_a_restart_of_the_api_server() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(32).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    for name in ["kept", "deleted"] {
        namespace.create(name).await;
        namespace.served(name).await;
    }
    cluster.stop_api_server();
    cluster.start_api_server().await.unwrap();
    namespace.create("gap").await;
    namespace.delete("deleted").await;
    namespace.gone("deleted").await;
    namespace.served("gap").await;
    namespace.served("kept").await;
    assert!(central.process.is_running());
    cluster.finish().await;
}
