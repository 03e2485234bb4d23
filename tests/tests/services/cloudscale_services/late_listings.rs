//! A cloud whose listings show what was made only after a while: nothing is made a second time.

use std::time::Duration;

use http::Method;
use mooring_cloud_sim::When;
use mooring_cloud_sim::cloudscale::{Behaviour, Kind};
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_support::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cloudscale_services::cluster::{CloudCluster, LoadBalancerCloud as _, SOON};

/// Until everything shows.
const LATE: Duration = Duration::from_secs(120);

/// Central as it is shipped: what was asked for is looked for as long as the flag's default says.
fn patient(cluster: &CloudCluster) -> CentralFlags {
    cluster.flags().with("--creation-settle-time=90s")
}

fn list_after(cluster: &CloudCluster, delay: Duration) {
    cluster.sim().behave(Behaviour {
        listed_after: delay,
        ..Behaviour::default()
    });
}

/// The Service has the only load balancer that was ever made.
async fn has_one(cluster: &CloudCluster) {
    eventually("web has an address", LATE, async || {
        let service = cluster.get("web").await;
        !crate::cloudscale_services::cluster::ingress(&service).is_empty()
    })
    .await;
    cluster.serves("web", &[1, 2]).await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    assert_eq!(cluster.sim().all(Kind::LoadBalancer).len(), 1);
}

#[tokio::test]
async fn what_no_listing_shows_for_5_seconds_is_not_made_twice() {
    let cluster = CloudCluster::start().await;
    list_after(&cluster, Duration::from_secs(5));
    let _central = cluster.central_with(patient(&cluster)).await;
    cluster.create("web").await;
    has_one(&cluster).await;
    cluster.finish().await;
}

/// The leader ends as soon as the cloud has done what it was asked, with or without having heard of it.
async fn the_next_one_makes_no_second(delay: Duration, signal: Signal) {
    let cluster = CloudCluster::start().await;
    list_after(&cluster, delay);
    let central = cluster.central_with(patient(&cluster)).await;
    let pid = Pid::from_raw(central.process.pid().try_into().unwrap());
    let switch = cluster
        .sim()
        .kill_switch(cluster.cloud.creation(), 1, true, move || {
            kill(pid, signal).expect("it runs")
        });
    cluster.create("web").await;
    switch.struck(1).await;
    central.process.wait_for_exit(SOON).await;
    let _central = cluster.central_with(patient(&cluster)).await;
    has_one(&cluster).await;
    // And it goes, whatever the listing shows.
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert_eq!(cluster.sim().all(Kind::LoadBalancer).len(), 0);
    cluster.finish().await;
}

#[tokio::test]
async fn killed_after_a_creation_that_shows_after_5_seconds_it_leaves_one() {
    the_next_one_makes_no_second(Duration::from_secs(5), Signal::SIGKILL).await;
}

#[tokio::test]
async fn killed_after_a_creation_that_shows_after_a_minute_it_leaves_one() {
    the_next_one_makes_no_second(Duration::from_secs(60), Signal::SIGKILL).await;
}

#[tokio::test]
async fn told_to_end_after_a_creation_that_shows_after_5_seconds_it_leaves_one() {
    the_next_one_makes_no_second(Duration::from_secs(5), Signal::SIGTERM).await;
}

#[tokio::test]
async fn told_to_end_after_a_creation_that_shows_after_a_minute_it_leaves_one() {
    the_next_one_makes_no_second(Duration::from_secs(60), Signal::SIGTERM).await;
}

/// Killed when it has the answer: the UUID is on the Service, by which the next one finds it at once.
#[tokio::test]
async fn what_was_noted_is_found_by_its_uuid_before_a_listing_shows_it() {
    let cluster = CloudCluster::start().await;
    list_after(&cluster, LATE);
    let central = cluster.central_with(patient(&cluster)).await;
    let pid = Pid::from_raw(central.process.pid().try_into().unwrap());
    let pools = When::write(Kind::Pool.path()).method(Method::POST);
    let switch = cluster.sim().kill_switch(pools, 1, false, move || {
        kill(pid, Signal::SIGKILL).expect("it runs")
    });
    cluster.create("web").await;
    switch.struck(1).await;
    central.process.wait_for_exit(SOON).await;
    let _central = cluster.central_with(patient(&cluster)).await;
    cluster.provided("web").await;
    has_one(&cluster).await;
    cluster.finish().await;
}
