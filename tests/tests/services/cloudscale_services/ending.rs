//! A leader that is told to end while the cloud has not answered yet.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use mooring_common::names::LEADER_LEASE;
use mooring_tests::cloud_sim::{Fault, When};
use mooring_tests::control_plane::AuditLog;
use mooring_tests::shipped::{Central, CentralFlags};
use mooring_tests::wait::eventually;

use crate::cloudscale_services::cloud;
use crate::cloudscale_services::stage::{SOON, Stage, has_finalizer};

/// How late the cloud answers: longer than the lease of [`CentralFlags::replica`].
const LATE: Duration = Duration::from_secs(5);

fn replica(stage: &Stage) -> CentralFlags {
    let flags = CentralFlags::replica().cloud(&stage.world);
    flags.without_endpoints().with("--controllers=service")
}

/// A leader whose creation of a load balancer for `web` is on its way, and struck by this fault.
async fn creating(stage: &Stage, flags: CentralFlags, fault: Fault) -> Central {
    let leader = stage.central_with(flags).await;
    stage.provide("before").await;
    let creation = stage
        .sim()
        .faults()
        .inject(cloud::creation().times(1), fault);
    stage.create("web").await;
    creation.struck(1).await;
    leader
}

/// When this token's holder gave the Lease back.
fn released(log: &AuditLog, credential: &str) -> Option<Timestamp> {
    let releases = log.of("leases").writes().filter(|record| {
        let body = record.body.as_ref();
        let is_leaders = body.is_some_and(|body| body["metadata"]["name"] == LEADER_LEASE);
        let holder = body.and_then(|body| body["spec"]["holderIdentity"].as_str());
        is_leaders && record.credential == credential && holder == Some("")
    });
    releases.first().map(|record| record.received)
}

#[tokio::test]
async fn it_waits_for_the_answer_and_only_then_lets_another_lead() {
    let stage = Stage::enter().await;
    let clocks = (Instant::now(), Timestamp::now());
    let fault = Fault::slow_whoever_waits(LATE);
    let leader = creating(&stage, replica(&stage), fault).await;
    let _standby = stage.central_with(replica(&stage)).await;
    leader.process.terminate().unwrap();
    stage.create("later").await;
    assert_eq!(leader.process.wait_for_code(SOON).await, 0);
    for name in ["web", "later"] {
        stage.provided(name).await;
        stage.serves(name, &[1, 2]).await;
    }
    let creations = stage.sim().calls().to("/v1/load-balancers").writes();
    assert_eq!(creations.len(), 3, "{}", creations.summary());
    assert_eq!(cloud::balancers(&stage.world).len(), 3);
    let late = creations.iter().find(|call| call.faulty).unwrap();
    let answered = late.at + late.took.expect("an answer");
    let answered = clocks.1 + (answered - clocks.0);
    let released = released(&stage.audit().await, &leader.credential);
    let released = released.expect("the Lease was given back");
    assert!(released >= answered, "{released}, before {answered}");
    stage.leave().await;
}

#[tokio::test]
async fn what_is_not_answered_in_time_is_cut_off_and_the_lease_runs_out() {
    let stage = Stage::enter().await;
    let flags = replica(&stage).with("--shutdown-timeout=1s");
    let leader = creating(&stage, flags, Fault::late(Duration::ZERO)).await;
    leader.process.terminate().unwrap();
    assert_eq!(leader.process.wait_for_code(SOON).await, 0);
    let log = leader.process.log();
    assert!(log.contains("--shutdown-timeout"), "{log}");
    let audit = stage.audit().await;
    assert_eq!(released(&audit, &leader.credential), None);
    let _next = stage.central_with(replica(&stage)).await;
    stage.provided("web").await;
    assert_eq!(cloud::balancers(&stage.world).len(), 2);
    stage.leave().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_immediately() {
    let stage = Stage::enter().await;
    let leader = creating(&stage, replica(&stage), Fault::hang()).await;
    leader.process.terminate().unwrap();
    eventually("it has heard the first", SOON, async || {
        leader.process.log().contains("SIGTERM: finishing")
    })
    .await;
    leader.process.terminate().unwrap();
    assert_eq!(
        leader.process.wait_for_code(Duration::from_secs(5)).await,
        1
    );
    stage.leave().await;
}

/// What only reads is not waited for: another leads at once.
#[tokio::test]
async fn a_cloud_that_hangs_when_it_is_read_does_not_hold_up_the_end() {
    let stage = Stage::enter().await;
    let leader = stage.central_with(replica(&stage)).await;
    stage.provide("before").await;
    let reads = stage
        .sim()
        .faults()
        .inject(When::get("**/*"), Fault::hang());
    stage.create("web").await;
    reads.struck(1).await;
    leader.process.terminate().unwrap();
    assert_eq!(
        leader.process.wait_for_code(Duration::from_secs(5)).await,
        0
    );
    assert!(released(&stage.audit().await, &leader.credential).is_some());
    reads.lift();
    let _next = stage.central_with(replica(&stage)).await;
    let service = stage.provided("web").await;
    assert!(has_finalizer(&service));
    stage.leave().await;
}
