//! What it costs the cloud, and whom it keeps waiting: the targets T9 and T10.

use std::time::{Duration, Instant};

use http::Method;
use mooring_tests::wait::eventually;

use super::cloud;
use super::cluster::{AFTER_RETRIES, CloudCluster, SOON, assert_none, uid};

const SERVICES: usize = 20;

async fn with_services(cluster: &CloudCluster) -> Vec<String> {
    let names: Vec<String> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.create(name).await;
    }
    for name in &names {
        cluster.provided_at_last(name).await;
    }
    names
}

/// Upstream: 60 reads for 3 Services, and 1,400 for 20 with 50 Nodes.
#[tokio::test]
async fn sv_39_sc_02_t10_a_restart_with_20_services_writes_nothing_and_reads_each_list_once() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let names = with_services(&cluster).await;
    cluster.marker().await;
    drop(central);
    let (start, since) = (Instant::now(), cluster.now());
    let _central = cluster.central().await;
    eventually("all load balancers have been looked at", SOON, async || {
        cloud::parts_read(&cluster.cloud.calls().since(start)) > SERVICES
    })
    .await;
    let reads = cluster.cloud.calls().since(start).method(&Method::GET);
    let permitted = cloud::reads_at_start(SERVICES + 1);
    assert!(
        reads.len() <= permitted,
        "{} of {permitted}:\n{}",
        reads.len(),
        reads.summary()
    );
    assert_none(&cluster.writes().since(start));
    // The marker: what was there before has had its turn.
    cluster.marker().await;
    for name in &names {
        let id = cluster.serves(name, &[1, 2]).await.id;
        assert_none(&cloud::writes_on(&cluster.cloud, &id).since(start));
    }
    let audit = cluster.audit().await.since(since);
    let writes = audit.writes_by(mooring_tests::shipped::CENTRAL_USER);
    let touched = writes.filter(|record| names.contains(&record.name));
    assert!(touched.is_empty(), "{}", touched.summary());
    cluster.finish().await;
}

/// Every call takes 150 ms, so that a round over all load balancers takes several seconds.
#[tokio::test]
async fn t9_a_changed_service_need_not_wait_for_a_round_over_all_load_balancers() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let names = with_services(&cluster).await;
    let changed = cluster.get(&names[SERVICES - 1]).await;
    cloud::set_latency(&cluster.cloud, Duration::from_millis(150));
    cluster.join(3).await;
    let behind = async || {
        let mut behind = 0;
        for name in &names {
            let balancer = cluster.balancer(&cluster.get(name).await).unwrap();
            behind += usize::from(balancer.served["tcp/80"].len() < 3);
        }
        behind
    };
    eventually("the round has begun", AFTER_RETRIES, async || {
        behind().await < SERVICES
    })
    .await;
    let start = Instant::now();
    let (key, value) = cloud::HARMLESS;
    let name = changed.metadata.name.clone().unwrap();
    cluster.annotate(&name, key, Some(value)).await;
    eventually("the change is in the cloud", SOON, async || {
        cloud::shows_harmless(&cluster.cloud, &uid(&changed))
    })
    .await;
    let (took, left) = (start.elapsed(), behind().await);
    assert!(
        left > 0,
        "the round was over after {took:?}: this shows nothing"
    );
    assert!(took < Duration::from_secs(3), "{took:?}, {left} left");
    for name in &names {
        cluster.serves(name, &[1, 2, 3]).await;
    }
    cluster.finish().await;
}

/// Nothing happens, and nothing is asked but what keeps the listing fresh.
#[tokio::test]
async fn an_idle_cluster_costs_no_write_and_a_change_of_nothing_neither() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.marker().await;
    let (start, since) = (Instant::now(), cluster.now());
    cluster
        .annotate("web", "example.org/note", Some("of no consequence"))
        .await;
    cluster.marker().await;
    assert_none(&cloud::writes_on(&cluster.cloud, &id).since(start));
    let written = cluster.written("web").await.since(since);
    assert!(written.is_empty(), "{}", written.summary());
    cluster.finish().await;
}
