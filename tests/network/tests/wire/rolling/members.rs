//! What is asked of the cloud, and what never is.

use std::time::{Duration, Instant};

use mooring_test_support::figures::figure_time;
use mooring_test_support::wait::eventually;

use crate::rolling::cluster::{OPTION, RollingCluster, SOON};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// Another Service loses an endpoint, and its Node is disabled: whatever was told before that has had
/// its turn.
async fn marker(cluster: &RollingCluster, name: &str) {
    let (_, workload) = cluster.service(name).await;
    workload.start("x", 1).await;
    workload.start("y", 2).await;
    let balancer = cluster.provided(name).await;
    workload.terminate("x", LONG).await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
}

#[tokio::test]
async fn a_node_is_out_when_its_last_endpoint_terminates_and_back_when_one_is_ready() {
    let cluster = RollingCluster::start().await;
    let _central = cluster.central(&[OPTION]).await;
    let (_, web) = cluster.service("web").await;
    web.start("a", 1).await;
    web.start("a-too", 1).await;
    web.start("b", 2).await;
    let balancer = cluster.provided("web").await;
    // There is another one on the same Node.
    web.terminate("a-too", Duration::ZERO).await;
    marker(&cluster, "marker").await;
    cluster.is_enabled(&balancer, &["n1", "n2", "n3"]).await;

    let start = Instant::now();
    web.terminate("a", Duration::ZERO).await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
    let out = start.elapsed();
    // It has ended, and the Node stays out.
    web.bury().await;
    marker(&cluster, "marker-2").await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;

    let start = Instant::now();
    web.start("c", 1).await;
    cluster.is_enabled(&balancer, &["n1", "n2", "n3"]).await;
    let back = start.elapsed();
    // It ends in less time than it takes to look.
    web.terminate("c", Duration::ZERO).await;
    web.bury().await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
    figure_time("endpoint terminates until its node is out of service", out);
    figure_time("endpoint is ready until its node is in service", back);
    // A monitor with the default thresholds takes 6 and 2 s at the least.
    assert!(out < Duration::from_secs(3), "{out:?}");
    assert!(back < Duration::from_secs(3), "{back:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn the_last_node_that_serves_is_never_taken_out() {
    let cluster = RollingCluster::start().await;
    let _central = cluster.central(&[OPTION]).await;
    let (_, web) = cluster.service("web").await;
    web.start("a", 1).await;
    let balancer = cluster.provided("web").await;
    let start = Instant::now();
    web.terminate("a", LONG).await;
    marker(&cluster, "marker").await;
    let pools: Vec<String> = cluster
        .switches()
        .since(start)
        .iter()
        .map(|call| call.path.clone())
        .collect();
    // The marker's own, and no other.
    assert_eq!(pools.len(), 1, "{pools:?}");
    cluster.is_enabled(&balancer, &["n1", "n2", "n3"]).await;
    // As soon as somebody else serves, it goes.
    web.start("b", 2).await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
    // And now that one is the last.
    web.terminate("b", LONG).await;
    marker(&cluster, "marker-2").await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
    cluster.finish().await;
}

#[tokio::test]
async fn by_default_endpoints_are_not_followed_and_nothing_is_written() {
    let cluster = RollingCluster::start().await;
    let _central = cluster.central(&[]).await;
    let (_, web) = cluster.service("web").await;
    web.start("a", 1).await;
    web.start("b", 2).await;
    let balancer = cluster.provided("web").await;
    web.terminate("a", Duration::ZERO).await;
    web.bury().await;
    let (_, _marker) = cluster.service("marker").await;
    cluster.provided("marker").await;
    let switches = cluster.switches();
    assert!(switches.is_empty(), "{}", switches.summary());
    cluster.is_enabled(&balancer, &["n1", "n2", "n3"]).await;
    let audit = cluster.audit().await;
    let asked = audit
        .of("endpointslices")
        .filter(|record| record.user == mooring_test_cluster::shipped::CENTRAL_USER);
    assert!(asked.is_empty(), "{}", asked.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn without_the_option_nodes_that_were_taken_out_come_back() {
    let cluster = RollingCluster::start().await;
    let central = cluster.central(&[OPTION]).await;
    let (_, web) = cluster.service("web").await;
    web.start("a", 1).await;
    web.start("b", 2).await;
    let balancer = cluster.provided("web").await;
    web.terminate("a", Duration::ZERO).await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
    web.bury().await;
    drop(central);
    // Another leader finds them as they are, and leaves them so.
    let central = cluster.central(&[OPTION]).await;
    marker(&cluster, "marker").await;
    cluster.is_enabled(&balancer, &["n2", "n3"]).await;
    drop(central);
    let start = Instant::now();
    let _central = cluster.central(&[]).await;
    cluster.is_enabled(&balancer, &["n1", "n2", "n3"]).await;
    // In place: whoever is connected to a member stays so.
    let writes = cluster.switches().since(start);
    let patches = writes.method(&http::Method::PATCH);
    assert_eq!(writes.len(), patches.len(), "{}", writes.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn many_changes_cost_few_requests() {
    const CHANGES: usize = 40;
    let cluster = RollingCluster::start().await;
    let _central = cluster.central(&[OPTION]).await;
    let (_, web) = cluster.service("web").await;
    web.start("a", 1).await;
    web.start("b-0", 2).await;
    let balancer = cluster.provided("web").await;
    let start = Instant::now();
    let before = cluster.sim().calls().len();
    for n in 1..=CHANGES {
        web.terminate(&format!("b-{}", n - 1), Duration::ZERO).await;
        web.bury().await;
        web.start(&format!("b-{n}"), 2).await;
    }
    web.terminate(&format!("b-{CHANGES}"), Duration::ZERO).await;
    let mut looks = 0;
    eventually("the Node is out", SOON, async || {
        // Once a second, and once at the begin and at the end.
        looks = start.elapsed().as_secs() + 2;
        cluster.members(&balancer).get("n2") == Some(&false)
    })
    .await;
    let calls = cluster.sim().calls();
    let calls: Vec<String> = calls[before..].iter().map(|call| call.summary()).collect();
    // A question for the members' health, and a change.
    let most = usize::try_from(2 * looks).unwrap();
    assert!(calls.len() <= most, "{looks} looks:\n{}", calls.join("\n"));
    assert!(
        calls.len() < CHANGES,
        "{looks} looks:\n{}",
        calls.join("\n")
    );
    mooring_test_support::figures::figure(
        &format!(
            "requests to the cloud for {} changes of endpoints",
            2 * CHANGES + 1
        ),
        calls.len(),
    );
    cluster.finish().await;
}
