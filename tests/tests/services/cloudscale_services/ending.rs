//! A leader that is told to end while the cloud has not answered yet.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use mooring_cloud_sim::{Fault, When};
use mooring_common::names::LEADER_LEASE;
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_support::wait::eventually;

use crate::cloudscale_services::cluster::{
    CloudCluster, LoadBalancerCloud as _, SOON, has_finalizer,
};

/// How late the cloud answers: longer than the lease of [`CentralFlags::replica`].
const LATE: Duration = Duration::from_secs(5);

fn replica(cluster: &CloudCluster) -> CentralFlags {
    let flags = CentralFlags::replica().cloud(&cluster.cloud);
    flags.without_endpoints().with("--controllers=service")
}

/// A leader whose creation of a load balancer for `web` is on its way, and struck by this fault.
async fn creating(cluster: &CloudCluster, flags: CentralFlags, fault: Fault) -> Central {
    let leader = cluster.central_with(flags).await;
    cluster.provide("before").await;
    let creation = cluster
        .sim()
        .faults()
        .inject(cluster.cloud.creation().times(1), fault);
    cluster.create("web").await;
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

/// The same, waited for: the API server writes down a request just after its answer.
async fn given_back(cluster: &CloudCluster, leader: &Central) -> Timestamp {
    eventually("the Lease was given back", SOON, async || {
        released(&cluster.audit().await, &leader.credential)
    })
    .await
}

#[tokio::test]
async fn it_waits_for_the_answer_and_only_then_lets_another_lead() {
    let cluster = CloudCluster::start().await;
    let clocks = (Instant::now(), Timestamp::now());
    let fault = Fault::slow_whoever_waits(LATE);
    let leader = creating(&cluster, replica(&cluster), fault).await;
    let _standby = cluster.central_with(replica(&cluster)).await;
    leader.process.terminate().unwrap();
    cluster.create("later").await;
    assert_eq!(leader.process.wait_for_code(SOON).await, 0);
    for name in ["web", "later"] {
        cluster.provided(name).await;
        cluster.serves(name, &[1, 2]).await;
    }
    let creations = cluster.sim().calls().to("/v1/load-balancers").writes();
    assert_eq!(creations.len(), 3, "{}", creations.summary());
    assert_eq!(cluster.cloud.balancers().len(), 3);
    let late = creations.iter().find(|call| call.faulty).unwrap();
    let answered = late.at + late.took.expect("an answer");
    let answered = clocks.1 + (answered - clocks.0);
    let released = given_back(&cluster, &leader).await;
    assert!(released >= answered, "{released}, before {answered}");
    cluster.finish().await;
}

#[tokio::test]
async fn what_is_not_answered_in_time_is_cut_off_and_the_lease_runs_out() {
    let cluster = CloudCluster::start().await;
    let flags = replica(&cluster).with("--shutdown-timeout=1s");
    let leader = creating(&cluster, flags, Fault::late(Duration::ZERO)).await;
    leader.process.terminate().unwrap();
    assert_eq!(leader.process.wait_for_code(SOON).await, 0);
    let log = leader.process.log();
    assert!(log.contains("--shutdown-timeout"), "{log}");
    let audit = cluster.audit().await;
    assert_eq!(released(&audit, &leader.credential), None);
    let _next = cluster.central_with(replica(&cluster)).await;
    cluster.provided("web").await;
    assert_eq!(cluster.cloud.balancers().len(), 2);
    cluster.finish().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_immediately() {
    let cluster = CloudCluster::start().await;
    let leader = creating(&cluster, replica(&cluster), Fault::hang()).await;
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
    cluster.finish().await;
}

/// What only reads is not waited for: another leads at once.
#[tokio::test]
async fn a_cloud_that_hangs_when_it_is_read_does_not_hold_up_the_end() {
    let cluster = CloudCluster::start().await;
    let leader = cluster.central_with(replica(&cluster)).await;
    cluster.provide("before").await;
    let reads = cluster
        .sim()
        .faults()
        .inject(When::get("**/*"), Fault::hang());
    cluster.create("web").await;
    reads.struck(1).await;
    leader.process.terminate().unwrap();
    assert_eq!(
        leader.process.wait_for_code(Duration::from_secs(5)).await,
        0
    );
    given_back(&cluster, &leader).await;
    reads.lift();
    let _next = cluster.central_with(replica(&cluster)).await;
    let service = cluster.provided("web").await;
    assert!(has_finalizer(&service));
    cluster.finish().await;
}
