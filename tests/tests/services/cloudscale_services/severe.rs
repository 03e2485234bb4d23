//! The severe bugs of the Go controller, by their numbers: none of them is here.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use mooring_cloud_sim::cloudscale::{Behaviour, Interface, Kind};
use mooring_cloud_sim::{Fault, Injection, When};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::cloudscale_services::cloud;
use crate::cloudscale_services::cloud::SuiteCloud;
use crate::cloudscale_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer, ingress,
};
use crate::cloudscale_services::forwarding::ForwardingCloud as _;
use crate::cloudscale_services::key;

/// Upstream takes an error for "there is none": it makes a second one, or leaks the first.
async fn no_error_means_that_there_is_none(fault: Fault) {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    cluster.provide("web").await;
    let uuid = cluster.uuid("web").await;
    drop(central);
    let inject = |when: When| cluster.cloud.faults().inject(when, fault.clone());
    let faults: Vec<Injection> = cluster
        .cloud
        .balancer_lookups()
        .into_iter()
        .map(inject)
        .collect();
    let hits = || faults.iter().map(Injection::hits).sum::<u64>();
    let (end, value) = SuiteCloud::HARMLESS;
    cluster.annotate("web", end, Some(value)).await;
    let _central = cluster.central().await;
    cluster.failed("web").await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    let before = hits();
    cluster.delete("web").await;
    eventually("it has tried to delete it", AFTER_RETRIES, async || {
        hits() > before
    })
    .await;
    assert!(has_finalizer(&cluster.get("web").await));
    assert!(cluster.cloud.has(&uuid));
    for fault in &faults {
        fault.lift();
    }
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    assert_eq!(cluster.cloud.creations().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn b1_500_on_every_lookup_makes_no_second_one_and_leaks_none() {
    no_error_means_that_there_is_none(Fault::status(StatusCode::INTERNAL_SERVER_ERROR)).await;
}

#[tokio::test]
async fn b1_401_on_every_lookup_makes_no_second_one_and_leaks_none() {
    no_error_means_that_there_is_none(Fault::status(StatusCode::UNAUTHORIZED)).await;
}

#[tokio::test]
async fn b1_429_on_every_lookup_makes_no_second_one_and_leaks_none() {
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS);
    no_error_means_that_there_is_none(busy.retry_after(Duration::from_secs(1))).await;
}

/// Upstream makes it without a zone, and cannot go on.
#[tokio::test]
async fn b7_nothing_is_made_while_no_node_is_selected() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.service("web");
    let service = service.annotation(&key("node-selector"), "pool=edge");
    let service = cluster.make(service).await;
    let told = cluster.told("web", reasons::NO_VALID_NODES, "").await;
    assert_eq!(
        (&*told.kind, &*told.reporter),
        ("Warning", SuiteCloud::COMPONENT)
    );
    assert!(told.note.contains("pool=edge"), "{told:?}");
    cluster.marker().await;
    assert!(cluster.balancer(&service).is_none());
    cluster.label_node("n2", "pool", Some("edge")).await;
    cluster.provided_at_last("web").await;
    cluster.serves("web", &[2]).await;

    // And with one there, all members go, and it stays.
    cluster.label_node("n2", "pool", None).await;
    cluster.serves("web", &[]).await;
    cluster.finish().await;
}

/// A hybrid cluster, and the time between a server's end and its Node's.
#[tokio::test]
async fn b12_a_node_of_elsewhere_or_without_a_server_hinders_no_other() {
    let cluster = CloudCluster::start().await;
    let foreign = NodeBuilder::new("foreign").provider_id("linode://4711");
    foreign.ready().create(&cluster.admin).await.unwrap();
    let broken = NodeBuilder::new("broken").provider_id("cloudscale://nonsense");
    broken.ready().create(&cluster.admin).await.unwrap();
    let lost = NodeBuilder::new("lost").provider_id(SuiteCloud::CLOUD.nobodys_id());
    lost.ready().create(&cluster.admin).await.unwrap();
    let _central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    cluster.join(3).await;
    cluster.serves("web", &[1, 2, 3]).await;
    cluster.finish().await;
}

/// A server that gets another address: the next look at the cloud sees it.
#[tokio::test]
async fn b14_members_follow_the_addresses_of_their_servers() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let flags = flags.with("--controllers=*");
    let flags = flags.with("--node-status-update-frequency=500ms");
    let _central = cluster.central_with(flags).await;
    let service = cluster.provide("web").await;
    let uuid = cluster.uuid("web").await;
    let server = cluster.sim().named(Kind::Server, "n1").remove(0);
    let interface = Interface::private().address("10.0.0.101").into_value();
    let server = cloud::text(&server["uuid"]);
    cluster.sim().set(&server, "interfaces", json!([interface]));
    let port = crate::cloudscale_services::forwarding::node_port(&service);
    let wanted = [format!("10.0.0.101:{port}"), format!("10.0.0.2:{port}")];
    eventually(
        "the member has the new address",
        AFTER_RETRIES,
        async || {
            let balancer = cluster.balancer(&service).unwrap();
            balancer.served["tcp/80"] == wanted.clone().into()
        },
    )
    .await;
    assert_none(&cluster.sim().outages(&uuid));
    cluster.finish().await;
}

/// Upstream: 16 to 71 members made for 8 to 14 wanted, and some lost for good.
#[tokio::test]
async fn b17_nodes_that_join_during_creation_are_neither_lost_nor_flap() {
    const NODES: usize = 12;
    const SERVICES: usize = 3;
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        provisioning: Duration::from_secs(2),
        change_time: Duration::from_millis(30),
        ..Behaviour::default()
    });
    let flags = cluster.flags().with("--concurrent-service-syncs=2");
    let _central = cluster.central_with(flags).await;
    let names: Vec<String> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    for name in &names {
        cluster.create(name).await;
    }
    let mut pace = tokio::time::interval(Duration::from_millis(400));
    for n in 3..=NODES {
        pace.tick().await;
        cluster.join(n).await;
    }
    let all: Vec<usize> = (1..=NODES).collect();
    for name in &names {
        cluster.provided_at_last(name).await;
        cluster.serves(name, &all).await;
    }
    cluster.marker().await;
    for name in &names {
        let uuid = cluster.uuid(name).await;
        cluster.serves(name, &all).await;
        let added = cluster.cloud.members_added(&uuid);
        assert_eq!(added.len(), NODES, "{name}: {}", added.summary());
    }
    let deletions = cluster.writes().method(&Method::DELETE);
    assert!(deletions.is_empty(), "{}", deletions.summary());
    assert_eq!(cluster.sim().concurrent_writes(), 0);
    cluster.finish().await;
}

/// With a single worker.
#[tokio::test]
async fn b18_a_load_balancer_that_changes_for_ever_blocks_nobody() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--concurrent-service-syncs=1");
    let _central = cluster.central_with(flags).await;
    cluster.provide("stuck").await;
    let uuid = cluster.uuid("stuck").await;
    cluster.sim().set_status(&uuid, "changing");
    let (end, value) = SuiteCloud::HARMLESS;
    cluster.annotate("stuck", end, Some(value)).await;
    let start = Instant::now();
    for name in ["one", "two"] {
        cluster.provide(name).await;
    }
    cluster.join(3).await;
    for name in ["one", "two"] {
        cluster.serves(name, &[1, 2, 3]).await;
    }
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    cluster.sim().set_status(&uuid, "running");
    eventually("it goes on", AFTER_RETRIES, async || {
        let service = cluster.get("stuck").await;
        cluster.cloud.shows_harmless(&service)
            && cluster.balancer(&service).unwrap().served["tcp/80"].len() == 3
    })
    .await;
    cluster.finish().await;
}

/// `error` is what the cloud says while no member answers: changing the members is the way out.
#[tokio::test]
async fn a_load_balancer_in_error_is_changed_all_the_same() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    cluster.provide("web").await;
    let uuid = cluster.uuid("web").await;
    for (status, node) in [("error", 3), ("degraded", 4)] {
        cluster.sim().set_status(&uuid, status);
        cluster.join(node).await;
        let nodes: Vec<usize> = (1..=node).collect();
        cluster.serves("web", &nodes).await;
    }
    cluster.finish().await;
}

async fn deleted_while_it_is_made(strict_deletes: bool) {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        provisioning: Duration::from_secs(if strict_deletes { 6 } else { 60 }),
        strict_deletes,
        ..Behaviour::default()
    });
    let _central = cluster.central().await;
    let service = cluster.create("web").await;
    eventually("it is being made", SOON, async || {
        cluster.balancer(&service)
    })
    .await;
    cluster.delete("web").await;
    cluster.gone_within("web", AFTER_RETRIES).await;
    cluster.nothing_is_left().await;
    let parts = cluster.writes().to("/v1/load-balancers/pools");
    assert!(parts.is_empty(), "{}", parts.summary());
    assert_eq!(cluster.cloud.creations().len(), 1);
    cluster.finish().await;
}

/// Upstream makes all of it first: 55 writes.
#[tokio::test]
async fn a_deletion_while_it_is_made_does_not_wait_for_the_creation() {
    deleted_while_it_is_made(false).await;
}

#[tokio::test]
async fn a_deletion_that_the_cloud_refuses_while_it_is_made_follows_as_soon_as_it_can() {
    deleted_while_it_is_made(true).await;
}

/// A Service is on its way while the API server loses its status.
#[tokio::test]
async fn a_status_that_somebody_wiped_comes_back() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    let before = ingress(&cluster.provide("web").await);
    let none = json!({ "status": { "loadBalancer": null } });
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(&none);
    let patched = cluster
        .services()
        .patch_status("web", &params, &patch)
        .await;
    assert_none(&ingress(&patched.unwrap()));
    cluster
        .is("web", "has its addresses", |service| {
            ingress(service) == before
        })
        .await;
    cluster.finish().await;
}
