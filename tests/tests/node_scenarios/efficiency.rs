//! What all this costs the cloud: its own log tells.

use std::time::{Duration, Instant};

use mooring_cloud_sim::cloud::Server;
use mooring_test_cluster::cluster::{Launch, provider_id};
use mooring_test_cluster::objects::unique;
use mooring_test_support::wait::eventually;

use super::cluster::CloudCluster;

const NODES: usize = 50;
const AT_LAST: Duration = Duration::from_secs(60);

fn names() -> Vec<String> {
    (0..NODES).map(|_| unique("n")).collect()
}

/// How often central looks after Nodes that have fallen silent, as by default.
const PERIOD: Duration = Duration::from_secs(5);

/// With the intervals that users have.
fn as_users_have_it(cluster: &CloudCluster) -> Launch<'_> {
    let period = format!("--node-monitor-period={}s", PERIOD.as_secs());
    let central = cluster.cluster().central().flag(&period);
    let central = central.flag("--node-status-update-frequency=5m");
    let provider = format!("--cloud-provider={}", super::CLOUD.name());
    central.and_cloud(&cluster.cloud).flag(&provider)
}

async fn all_initialized(cluster: &CloudCluster, names: &[String]) {
    for name in names {
        eventually("all are initialised", AT_LAST, async || {
            let node = cluster.node(name).await?;
            provider_id(&node).map(ToOwned::to_owned)
        })
        .await;
    }
}

/// 50 to 100 listings upstream.
#[tokio::test]
async fn fifty_nodes_at_start_cost_a_handful_of_listings() {
    let cluster = CloudCluster::start().await;
    let names = names();
    for name in &names {
        cluster.cloud.add(Server::named(name).private("10.1.0.1"));
        cluster.tainted(name).await;
    }
    let start = Instant::now();
    let _central = as_users_have_it(&cluster).try_start().await;
    all_initialized(&cluster, &names).await;
    let (calls, took) = (cluster.cloud.calls(), start.elapsed());
    // On a machine so slow that Nodes fall silent meanwhile, one listing per period is theirs.
    let permitted = 3 + took.as_secs() / PERIOD.as_secs();
    let listings = cluster.cloud.listings().len() as u64;
    assert!(listings <= permitted, "in {took:?}:\n{}", calls.summary());
    assert!(cluster.cloud.lookups().is_empty(), "{}", calls.summary());
    cluster.finish().await;
}

/// Machines and Nodes that come one by one while central runs.
#[tokio::test]
async fn fifty_nodes_that_join_cost_a_listing_a_second_at_most() {
    let cluster = CloudCluster::start().await;
    let names = names();
    let _central = as_users_have_it(&cluster).try_start().await;
    cluster.listings_since(Instant::now(), 0).await;
    let start = Instant::now();
    for name in &names {
        cluster.cloud.add(Server::named(name).private("10.1.0.1"));
        cluster.tainted(name).await;
    }
    all_initialized(&cluster, &names).await;
    let (calls, took) = (cluster.cloud.calls(), start.elapsed());
    let permitted = 3 + usize::try_from(took.as_secs()).unwrap();
    let listings = cluster.cloud.listings();
    assert!(
        listings.len() <= permitted,
        "in {took:?}:\n{}",
        calls.summary()
    );
    assert!(cluster.cloud.lookups().is_empty(), "{}", calls.summary());
    cluster.finish().await;
}

/// 600 reads in 30 s upstream.
#[tokio::test]
async fn fifty_silent_nodes_cost_a_bounded_number_of_listings_and_no_look_at_each() {
    const MONITOR: Duration = Duration::from_secs(1);
    let cluster = CloudCluster::start().await;
    let names = names();
    for name in &names {
        cluster.member(name, "10.1.0.1").await;
    }
    let central = as_users_have_it(&cluster).flag("--node-monitor-period=1s");
    let _central = central.try_start().await;
    cluster.listings_since(Instant::now(), 0).await;
    let start = Instant::now();
    for name in &names {
        cluster.set_ready(name, "Unknown").await;
    }
    let turned = start.elapsed();
    // While they turn silent, each is judged by a listing that is younger than its turn.
    let quiet = Instant::now();
    eventually("two listings have followed", AT_LAST, async || {
        cluster.cloud.listings().since(quiet + MONITOR * 2).len() >= 2
    })
    .await;
    let (calls, took) = (cluster.cloud.calls(), start.elapsed());
    let during = usize::try_from(turned.as_secs()).unwrap() + 3;
    let after = usize::try_from(took.as_secs() / (MONITOR.as_secs() * 3)).unwrap() + 2;
    let listings = cluster.cloud.listings().since(start);
    assert!(
        listings.len() <= during + after,
        "{} in {took:?}, {during} + {after} permitted:\n{}",
        listings.len(),
        calls.summary()
    );
    assert!(cluster.cloud.lookups().is_empty(), "{}", calls.summary());
    for name in &names {
        cluster.is_kept(name).await;
    }
    cluster.finish().await;
}

#[tokio::test]
async fn an_idle_cluster_costs_one_listing_per_interval_and_no_write() {
    const INTERVAL: Duration = Duration::from_secs(2);
    let cluster = CloudCluster::start().await;
    let names = names();
    for name in &names {
        cluster.cloud.add(Server::named(name).private("10.1.0.1"));
        cluster.tainted(name).await;
    }
    let central = as_users_have_it(&cluster).flag("--node-status-update-frequency=2s");
    let _central = central.try_start().await;
    all_initialized(&cluster, &names).await;
    cluster.listings_since(Instant::now(), 1).await;
    let (start, since) = (Instant::now(), cluster.now());
    cluster.listings_since(start, 4).await;
    let first = cluster.cloud.listings().since(start)[0].at;
    let last = cluster.cloud.listings().since(start)[3].at;
    let shortest = INTERVAL.mul_f64(0.8) * 3;
    assert!(
        last - first >= shortest,
        "{}",
        cluster.cloud.calls().summary()
    );
    assert!(cluster.cloud.lookups().is_empty());
    let writes = cluster.audit().await.since(since).writes();
    let writes = writes.by(mooring_test_cluster::shipped::CENTRAL_USER);
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn a_restart_with_nothing_changed_writes_nothing() {
    let cluster = CloudCluster::start().await;
    let names: Vec<String> = names().into_iter().take(10).collect();
    for name in &names {
        let server = Server::named(name)
            .private("10.1.0.1")
            .public("2001:db8::1");
        cluster.cloud.add(server.public("192.0.2.1"));
        cluster.tainted(name).await;
    }
    let central = cluster.for_cloud().try_start().await;
    all_initialized(&cluster, &names).await;
    cluster.listings_since(Instant::now(), 3).await;
    drop(central);
    let (start, since) = (Instant::now(), cluster.now());
    let _central = cluster.for_cloud().try_start().await;
    // The marker: it is at work.
    let marker = unique("marker");
    cluster
        .cloud
        .add(Server::named(&marker).private("10.1.0.2"));
    cluster.tainted(&marker).await;
    cluster.initialized(&marker).await;
    cluster.listings_since(start, 5).await;
    for name in &names {
        let writes = cluster.written_on(name).await.since(since);
        assert!(writes.is_empty(), "{}", writes.summary());
        let events = cluster.event_writes(name).await.since(since);
        assert!(events.is_empty(), "{}", events.summary());
    }
    assert!(cluster.cloud.calls().writes().is_empty());
    cluster.finish().await;
}
