//! What it costs the cloud, and whom it keeps waiting: the targets T9 and T10.

use std::time::Instant;

use http::Method;
use mooring_test_support::wait::eventually;

use super::cloud::SuiteCloud;
use super::cluster::{CloudCluster, LoadBalancerCloud as _, SOON, assert_none};

/// Upstream: 60 reads for 3 Services, and 1,400 for 20 with 50 Nodes.
#[tokio::test]
async fn sv_39_sc_02_t10_a_restart_with_many_services_writes_nothing_and_reads_each_list_once() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let names = cluster.provide_many().await;
    cluster.marker().await;
    drop(central);
    let (start, since) = (Instant::now(), cluster.now());
    let _central = cluster.central().await;
    eventually("all load balancers have been looked at", SOON, async || {
        cluster.cloud.looked_at(&cluster.cloud.calls().since(start)) > SuiteCloud::MANY
    })
    .await;
    let reads = cluster.cloud.calls().since(start).method(&Method::GET);
    let permitted = cluster.cloud.reads_at_start(SuiteCloud::MANY + 1);
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
        assert_none(&cluster.cloud.writes_on(&id).since(start));
    }
    let audit = cluster.audit().await.since(since);
    let writes = audit.writes_by(mooring_test_cluster::shipped::CENTRAL_USER);
    let touched = writes.filter(|record| names.contains(&record.name));
    assert!(touched.is_empty(), "{}", touched.summary());
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
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    let written = cluster.written("web").await.since(since);
    assert!(written.is_empty(), "{}", written.summary());
    cluster.finish().await;
}
