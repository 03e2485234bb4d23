//! A cloud whose listings show what was bought only after a while: nothing is bought a second time.

use std::time::Duration;

use http::Method;
use mooring_cloud_sim::When;
use mooring_cloud_sim::phoenixnap::{Behaviour, Kind};
use mooring_test_cluster::shipped::CentralFlags;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::phoenixnap_services::cluster::{CloudCluster, SOON};

/// Until everything shows.
const LATE: Duration = Duration::from_secs(150);

/// Central as it is shipped: what was asked for is looked for as long as the flag's default says.
fn patient(cluster: &CloudCluster) -> CentralFlags {
    cluster.sharing().with("--creation-settle-time=90s")
}

async fn with_listings_after(delay: Duration) -> CloudCluster {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        listed_after: delay,
        ..Behaviour::default()
    });
    cluster
}

#[tokio::test]
async fn a_block_that_no_listing_shows_for_5_seconds_is_not_bought_twice() {
    let cluster = with_listings_after(Duration::from_secs(5)).await;
    let _central = cluster.central_with(patient(&cluster)).await;
    cluster.create("web").await;
    cluster.provided_within("web", LATE).await;
    assert_eq!(cluster.sim().purchases().len(), 1);
    cluster.finish().await;
}

/// The leader ends as soon as the cloud has sold what it was asked for: it has had no answer.
async fn the_next_one_buys_no_second(delay: Duration, signal: Signal) {
    let cluster = with_listings_after(delay).await;
    let central = cluster.central_with(patient(&cluster)).await;
    let pid = Pid::from_raw(central.process.pid().try_into().unwrap());
    let purchase = When::write(Kind::Block.path()).method(Method::POST);
    let switch = cluster.sim().kill_switch(purchase, 1, true, move || {
        kill(pid, signal).expect("it runs")
    });
    cluster.create("web").await;
    switch.struck(1).await;
    central.process.wait_for_exit(SOON).await;
    let _central = cluster.central_with(patient(&cluster)).await;
    cluster.provided_within("web", LATE).await;
    assert_eq!(cluster.sim().purchases().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn killed_after_a_purchase_that_shows_after_a_minute_it_leaves_one() {
    the_next_one_buys_no_second(Duration::from_secs(60), Signal::SIGKILL).await;
}

#[tokio::test]
async fn told_to_end_after_a_purchase_that_shows_after_a_minute_it_leaves_one() {
    the_next_one_buys_no_second(Duration::from_secs(60), Signal::SIGTERM).await;
}
