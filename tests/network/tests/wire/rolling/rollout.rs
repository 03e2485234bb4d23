//! A Deployment of two Pods is rolled and a Node drained, under load.

use std::time::{Duration, Instant};

use mooring_test_support::figures::figure;
use mooring_test_support::wait::eventually;

use crate::rolling::clients::{Clients, RATE, Tally};
use crate::rolling::cluster::{NODES, OPTION, RollingCluster, SOON};
use crate::rolling::nodes::Workload;

/// How long Pods serve after SIGTERM: not as long as the monitor takes, which is 7 s.
const SERVES: Duration = Duration::from_secs(3);
/// How long a new Pod takes until it is ready.
const STARTS: Duration = Duration::from_secs(5);
/// The Deployment's `minReadySeconds`: a bit longer than the monitor takes to find a Node healthy.
const MIN_READY: Duration = Duration::from_secs(5);
/// How long the monitor takes to find a Node dead, and a bit more.
const AFTERWARDS: Duration = Duration::from_secs(8);

async fn passes(time: Duration) {
    let start = Instant::now();
    eventually("time passes", time + SOON, async || start.elapsed() >= time).await;
}

/// A Pod is made, and is available in the end.
async fn make(web: &Workload, name: &str, node: usize) {
    passes(STARTS).await;
    web.start(name, node).await;
    passes(MIN_READY).await;
}

/// A Pod ends.
async fn end(web: &Workload, name: &str) {
    web.terminate(name, SERVES).await;
    eventually("the Pod has ended", SOON, async || !web.serves(name)).await;
    web.bury().await;
}

/// How clients fare.
async fn tally(flags: &[&str]) -> Tally {
    let cluster = RollingCluster::start().await;
    let _central = cluster.central(flags).await;
    let (service, mut web) = cluster.service("web").await;
    let spec = service.spec.unwrap();
    let port = |number: Option<i32>| u16::try_from(number.unwrap()).unwrap();
    let traffic = port(spec.ports.unwrap()[0].node_port);
    let health = port(spec.health_check_node_port);
    for n in 1..=NODES {
        let address = cluster.address(n);
        web.proxy(n, address, (traffic, health)).await;
    }
    web.start("old-1", 1).await;
    web.start("old-2", 2).await;
    let balancer = cluster.provided("web").await;
    let forwarder = cluster.sim().forward(&balancer).await.unwrap();
    eventually("the monitor knows who serves", SOON, async || {
        let health = cluster.health(&balancer);
        let healthy = ["up", "up", "down"];
        if health.values().eq(healthy) {
            Ok(())
        } else {
            Err(health)
        }
    })
    .await;

    let clients = Clients::begin(forwarder.door("tcp/80"));
    // maxSurge 1, maxUnavailable 0.
    make(&web, "new-1", 3).await;
    tokio::join!(end(&web, "old-1"), make(&web, "new-2", 1));
    end(&web, "old-2").await;
    // The third Node is drained.
    tokio::join!(end(&web, "new-1"), make(&web, "new-3", 2));
    passes(AFTERWARDS).await;
    let tally = clients.end().await;
    cluster.finish().await;
    let with = if flags.is_empty() { "without" } else { "with" };
    figure(
        &format!(
            "requests lost {with} {OPTION}, at {RATE}/s, while two Pods are rolled and a node drained"
        ),
        format_args!("{} of {}", tally.failed.len(), tally.sent),
    );
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_option_no_request_is_lost() {
    let tally = tally(&[OPTION]).await;
    assert!(tally.sent > 10_000, "{tally:?}");
    assert!(tally.failed.is_empty(), "{tally:?}");
}

/// The rig is able to lose requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_option_some_requests_are_lost() {
    let tally = tally(&[]).await;
    assert!(!tally.failed.is_empty(), "{tally:?}");
}
