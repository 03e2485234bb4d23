//! A cloud whose listings show what was made only after a while: nothing is made a second time.

use std::time::Duration;

use http::Method;
use mooring_tests::cloud_sim::When;
use mooring_tests::cloud_sim::cloudscale::{Behaviour, Kind};
use mooring_tests::shipped::CentralFlags;
use mooring_tests::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cloudscale_services::cloud::{creation, creations};
use crate::cloudscale_services::stage::{SOON, Stage};

/// Until everything shows.
const LATE: Duration = Duration::from_secs(120);

/// Central as it is shipped: what was asked for is looked for as long as the flag's default says.
fn patient(stage: &Stage) -> CentralFlags {
    stage.flags().with("--creation-settle-time=90s")
}

fn list_after(stage: &Stage, delay: Duration) {
    stage.sim().behave(Behaviour {
        listed_after: delay,
        ..Behaviour::default()
    });
}

/// The Service has the only load balancer that was ever made.
async fn has_one(stage: &Stage) {
    eventually("web has an address", LATE, async || {
        let service = stage.get("web").await;
        !crate::cloudscale_services::stage::ingress(&service).is_empty()
    })
    .await;
    stage.serves("web", &[1, 2]).await;
    assert_eq!(creations(&stage.world).len(), 1);
    assert_eq!(stage.sim().all(Kind::LoadBalancer).len(), 1);
}

#[tokio::test]
async fn what_no_listing_shows_for_5_seconds_is_not_made_twice() {
    let stage = Stage::enter().await;
    list_after(&stage, Duration::from_secs(5));
    let _central = stage.central_with(patient(&stage)).await;
    stage.create("web").await;
    has_one(&stage).await;
    stage.leave().await;
}

/// The leader ends as soon as the cloud has done what it was asked, with or without having heard of it.
async fn the_next_one_makes_no_second(delay: Duration, signal: Signal) {
    let stage = Stage::enter().await;
    list_after(&stage, delay);
    let central = stage.central_with(patient(&stage)).await;
    let pid = Pid::from_raw(central.process.pid().try_into().unwrap());
    let switch = stage.sim().kill_switch(creation(), 1, true, move || {
        kill(pid, signal).expect("it runs")
    });
    stage.create("web").await;
    switch.struck(1).await;
    central.process.wait_for_exit(SOON).await;
    let _central = stage.central_with(patient(&stage)).await;
    has_one(&stage).await;
    // And it goes, whatever the listing shows.
    stage.delete("web").await;
    stage.gone("web").await;
    assert_eq!(stage.sim().all(Kind::LoadBalancer).len(), 0);
    stage.leave().await;
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
    let stage = Stage::enter().await;
    list_after(&stage, LATE);
    let central = stage.central_with(patient(&stage)).await;
    let pid = Pid::from_raw(central.process.pid().try_into().unwrap());
    let pools = When::write(Kind::Pool.path()).method(Method::POST);
    let switch = stage.sim().kill_switch(pools, 1, false, move || {
        kill(pid, Signal::SIGKILL).expect("it runs")
    });
    stage.create("web").await;
    switch.struck(1).await;
    central.process.wait_for_exit(SOON).await;
    let _central = stage.central_with(patient(&stage)).await;
    stage.provided("web").await;
    has_one(&stage).await;
    stage.leave().await;
}
