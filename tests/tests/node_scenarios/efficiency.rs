//! What all this costs the cloud: its own log tells.

use std::time::{Duration, Instant};

use mooring_tests::arena::{Launch, provider_id};
use mooring_tests::cloud_sim::world::Server;
use mooring_tests::objects::unique;
use mooring_tests::wait::eventually;

use super::stage::Stage;

const NODES: usize = 50;
const AT_LAST: Duration = Duration::from_secs(60);

fn names() -> Vec<String> {
    (0..NODES).map(|_| unique("n")).collect()
}

/// With the intervals that users have.
fn as_users_have_it(stage: &Stage) -> Launch<'_> {
    let central = stage.arena().central().flag("--node-monitor-period=5s");
    let central = central.flag("--node-status-update-frequency=5m");
    let provider = format!("--cloud-provider={}", super::CLOUD.name());
    central.and_cloud(&stage.world).flag(&provider)
}

async fn all_initialized(stage: &Stage, names: &[String]) {
    for name in names {
        eventually("all are initialised", AT_LAST, async || {
            let node = stage.node(name).await?;
            provider_id(&node).map(ToOwned::to_owned)
        })
        .await;
    }
}

/// 50 to 100 listings upstream.
#[tokio::test]
async fn fifty_nodes_at_start_cost_a_handful_of_listings() {
    let stage = Stage::enter().await;
    let names = names();
    for name in &names {
        stage.world.add(Server::named(name).private("10.1.0.1"));
        stage.tainted(name).await;
    }
    let _central = as_users_have_it(&stage).try_start().await;
    all_initialized(&stage, &names).await;
    let calls = stage.world.calls();
    assert!(stage.world.listings().len() <= 3, "{}", calls.summary());
    assert!(stage.world.lookups().is_empty(), "{}", calls.summary());
    stage.leave().await;
}

/// Machines and Nodes that come one by one while central runs.
#[tokio::test]
async fn fifty_nodes_that_join_cost_a_listing_a_second_at_most() {
    let stage = Stage::enter().await;
    let names = names();
    let _central = as_users_have_it(&stage).try_start().await;
    stage.listings_since(Instant::now(), 0).await;
    let start = Instant::now();
    for name in &names {
        stage.world.add(Server::named(name).private("10.1.0.1"));
        stage.tainted(name).await;
    }
    all_initialized(&stage, &names).await;
    let (calls, took) = (stage.world.calls(), start.elapsed());
    let permitted = 3 + usize::try_from(took.as_secs()).unwrap();
    let listings = stage.world.listings();
    assert!(
        listings.len() <= permitted,
        "in {took:?}:\n{}",
        calls.summary()
    );
    assert!(stage.world.lookups().is_empty(), "{}", calls.summary());
    stage.leave().await;
}

/// 600 reads in 30 s upstream.
#[tokio::test]
async fn fifty_silent_nodes_cost_a_bounded_number_of_listings_and_no_look_at_each() {
    const MONITOR: Duration = Duration::from_secs(1);
    let stage = Stage::enter().await;
    let names = names();
    for name in &names {
        stage.member(name, "10.1.0.1").await;
    }
    let central = as_users_have_it(&stage).flag("--node-monitor-period=1s");
    let _central = central.try_start().await;
    stage.listings_since(Instant::now(), 0).await;
    let start = Instant::now();
    for name in &names {
        stage.set_ready(name, "Unknown").await;
    }
    let turned = start.elapsed();
    // While they turn silent, each is judged by a listing that is younger than its turn.
    let quiet = Instant::now();
    eventually("two listings have followed", AT_LAST, async || {
        stage.world.listings().since(quiet + MONITOR * 2).len() >= 2
    })
    .await;
    let (calls, took) = (stage.world.calls(), start.elapsed());
    let during = usize::try_from(turned.as_secs()).unwrap() + 3;
    let after = usize::try_from(took.as_secs() / (MONITOR.as_secs() * 3)).unwrap() + 2;
    let listings = stage.world.listings().since(start);
    assert!(
        listings.len() <= during + after,
        "{} in {took:?}, {during} + {after} permitted:\n{}",
        listings.len(),
        calls.summary()
    );
    assert!(stage.world.lookups().is_empty(), "{}", calls.summary());
    for name in &names {
        stage.is_kept(name).await;
    }
    stage.leave().await;
}

#[tokio::test]
async fn an_idle_cluster_costs_one_listing_per_interval_and_no_write() {
    const INTERVAL: Duration = Duration::from_secs(2);
    let stage = Stage::enter().await;
    let names = names();
    for name in &names {
        stage.world.add(Server::named(name).private("10.1.0.1"));
        stage.tainted(name).await;
    }
    let central = as_users_have_it(&stage).flag("--node-status-update-frequency=2s");
    let _central = central.try_start().await;
    all_initialized(&stage, &names).await;
    stage.listings_since(Instant::now(), 1).await;
    let (start, since) = (Instant::now(), stage.control_plane.now());
    stage.listings_since(start, 4).await;
    let first = stage.world.listings().since(start)[0].at;
    let last = stage.world.listings().since(start)[3].at;
    let shortest = INTERVAL.mul_f64(0.8) * 3;
    assert!(
        last - first >= shortest,
        "{}",
        stage.world.calls().summary()
    );
    assert!(stage.world.lookups().is_empty());
    let writes = stage.audit().await.since(since).writes();
    let writes = writes.by(mooring_tests::shipped::CENTRAL_USER);
    assert!(writes.is_empty(), "{}", writes.summary());
    stage.leave().await;
}

#[tokio::test]
async fn a_restart_with_nothing_changed_writes_nothing() {
    let stage = Stage::enter().await;
    let names: Vec<String> = names().into_iter().take(10).collect();
    for name in &names {
        let server = Server::named(name)
            .private("10.1.0.1")
            .public("2001:db8::1");
        stage.world.add(server.public("192.0.2.1"));
        stage.tainted(name).await;
    }
    let central = stage.for_cloud().try_start().await;
    all_initialized(&stage, &names).await;
    stage.listings_since(Instant::now(), 3).await;
    drop(central);
    let (start, since) = (Instant::now(), stage.control_plane.now());
    let _central = stage.for_cloud().try_start().await;
    // The marker: it is at work.
    let marker = unique("marker");
    stage.world.add(Server::named(&marker).private("10.1.0.2"));
    stage.tainted(&marker).await;
    stage.initialized(&marker).await;
    stage.listings_since(start, 5).await;
    for name in &names {
        let writes = stage.written_on(name).await.since(since);
        assert!(writes.is_empty(), "{}", writes.summary());
        let events = stage.event_writes(name).await.since(since);
        assert!(events.is_empty(), "{}", events.summary());
    }
    assert!(stage.world.calls().writes().is_empty());
    stage.leave().await;
}
