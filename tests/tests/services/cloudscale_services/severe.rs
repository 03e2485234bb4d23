//! The severe bugs of the Go controller, by their numbers: none of them is here.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::cloudscale::{Behaviour, Interface, Kind};
use mooring_tests::cloud_sim::{Fault, Injection, When};
use mooring_tests::objects::NodeBuilder;
use mooring_tests::wait::eventually;
use serde_json::json;

use crate::cloudscale_services::cloud::{self, COMPONENT};
use crate::cloudscale_services::key;
use crate::cloudscale_services::stage::{
    AFTER_RETRIES, SOON, Stage, assert_none, has_finalizer, ingress,
};

/// Upstream takes an error for "there is none": it makes a second one, or leaks the first.
async fn no_error_means_that_there_is_none(fault: Fault) {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    stage.provide("web").await;
    let uuid = stage.uuid("web").await;
    drop(central);
    let inject = |when: When| stage.world.faults().inject(when, fault.clone());
    let faults: Vec<Injection> = cloud::lookups().map(inject).into();
    let hits = || faults.iter().map(Injection::hits).sum::<u64>();
    let (end, value) = cloud::HARMLESS;
    stage.annotate("web", end, Some(value)).await;
    let _central = stage.central().await;
    stage.failed("web").await;
    assert_eq!(cloud::creations(&stage.world).len(), 1);
    let before = hits();
    stage.delete("web").await;
    eventually("it has tried to delete it", AFTER_RETRIES, async || {
        hits() > before
    })
    .await;
    assert!(has_finalizer(&stage.get("web").await));
    assert!(cloud::has(&stage.world, &uuid));
    for fault in &faults {
        fault.lift();
    }
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.nothing_is_left().await;
    assert_eq!(cloud::creations(&stage.world).len(), 1);
    stage.leave().await;
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
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.service("web");
    let service = service.annotation(&key("node-selector"), "pool=edge");
    let service = stage.make(service).await;
    let told = stage.told("web", reasons::NO_VALID_NODES, "").await;
    assert_eq!((&*told.kind, &*told.reporter), ("Warning", COMPONENT));
    assert!(told.note.contains("pool=edge"), "{told:?}");
    stage.marker().await;
    assert!(stage.balancer(&service).is_none());
    stage.label_node("n2", "pool", Some("edge")).await;
    stage.provided_at_last("web").await;
    stage.serves("web", &[2]).await;

    // And with one there, all members go, and it stays.
    stage.label_node("n2", "pool", None).await;
    stage.serves("web", &[]).await;
    stage.leave().await;
}

/// A hybrid cluster, and the time between a server's end and its Node's.
#[tokio::test]
async fn b12_a_node_of_elsewhere_or_without_a_server_hinders_no_other() {
    let stage = Stage::enter().await;
    let foreign = NodeBuilder::new("foreign").provider_id("linode://4711");
    foreign.ready().create(&stage.admin).await.unwrap();
    let broken = NodeBuilder::new("broken").provider_id("cloudscale://nonsense");
    broken.ready().create(&stage.admin).await.unwrap();
    let lost = NodeBuilder::new("lost").provider_id(cloud::CLOUD.nobodys_id());
    lost.ready().create(&stage.admin).await.unwrap();
    let _central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    stage.join(3).await;
    stage.serves("web", &[1, 2, 3]).await;
    stage.leave().await;
}

/// A server that gets another address: the next look at the cloud sees it.
#[tokio::test]
async fn b14_members_follow_the_addresses_of_their_servers() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--load-balancer-resync-period=1s");
    let flags = flags.with("--controllers=*");
    let flags = flags.with("--node-status-update-frequency=500ms");
    let _central = stage.central_with(flags).await;
    let service = stage.provide("web").await;
    let uuid = stage.uuid("web").await;
    let server = stage.sim().named(Kind::Server, "n1").remove(0);
    let interface = Interface::private().address("10.0.0.101").into_value();
    let server = cloud::text(&server["uuid"]);
    stage.sim().set(&server, "interfaces", json!([interface]));
    let port = crate::cloudscale_services::stage::node_port(&service);
    let wanted = [format!("10.0.0.101:{port}"), format!("10.0.0.2:{port}")];
    eventually(
        "the member has the new address",
        AFTER_RETRIES,
        async || {
            let balancer = stage.balancer(&service).unwrap();
            balancer.served["tcp/80"] == wanted.clone().into()
        },
    )
    .await;
    assert_none(&stage.sim().outages(&uuid));
    stage.leave().await;
}

/// Upstream: 16 to 71 members made for 8 to 14 wanted, and some lost for good.
#[tokio::test]
async fn b17_nodes_that_join_during_creation_are_neither_lost_nor_flap() {
    const NODES: usize = 12;
    const SERVICES: usize = 3;
    let stage = Stage::enter().await;
    stage.sim().behave(Behaviour {
        provisioning: Duration::from_secs(2),
        change_time: Duration::from_millis(30),
        ..Behaviour::default()
    });
    let flags = stage.flags().with("--concurrent-service-syncs=2");
    let _central = stage.central_with(flags).await;
    let names: Vec<String> = (0..SERVICES).map(|n| format!("web-{n}")).collect();
    for name in &names {
        stage.create(name).await;
    }
    let mut pace = tokio::time::interval(Duration::from_millis(400));
    for n in 3..=NODES {
        pace.tick().await;
        stage.join(n).await;
    }
    let all: Vec<usize> = (1..=NODES).collect();
    for name in &names {
        stage.provided_at_last(name).await;
        stage.serves(name, &all).await;
    }
    stage.marker().await;
    for name in &names {
        let uuid = stage.uuid(name).await;
        stage.serves(name, &all).await;
        let added = cloud::members_added(&stage.world, &uuid);
        assert_eq!(added.len(), NODES, "{name}: {}", added.summary());
    }
    let deletions = stage.writes().method(&Method::DELETE);
    assert!(deletions.is_empty(), "{}", deletions.summary());
    assert_eq!(stage.sim().concurrent_writes(), 0);
    stage.leave().await;
}

/// With a single worker.
#[tokio::test]
async fn b18_a_load_balancer_that_changes_for_ever_blocks_nobody() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--concurrent-service-syncs=1");
    let _central = stage.central_with(flags).await;
    stage.provide("stuck").await;
    let uuid = stage.uuid("stuck").await;
    stage.sim().set_status(&uuid, "changing");
    let (end, value) = cloud::HARMLESS;
    stage.annotate("stuck", end, Some(value)).await;
    let start = Instant::now();
    for name in ["one", "two"] {
        stage.provide(name).await;
    }
    stage.join(3).await;
    for name in ["one", "two"] {
        stage.serves(name, &[1, 2, 3]).await;
    }
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "{:?}",
        start.elapsed()
    );
    stage.sim().set_status(&uuid, "running");
    eventually("it goes on", AFTER_RETRIES, async || {
        let service = stage.get("stuck").await;
        cloud::shows_harmless(
            &stage.world,
            &crate::cloudscale_services::stage::uid(&service),
        ) && stage.balancer(&service).unwrap().served["tcp/80"].len() == 3
    })
    .await;
    stage.leave().await;
}

/// `error` is what the cloud says while no member answers: changing the members is the way out.
#[tokio::test]
async fn a_load_balancer_in_error_is_changed_all_the_same() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    stage.provide("web").await;
    let uuid = stage.uuid("web").await;
    for (status, node) in [("error", 3), ("degraded", 4)] {
        stage.sim().set_status(&uuid, status);
        stage.join(node).await;
        let nodes: Vec<usize> = (1..=node).collect();
        stage.serves("web", &nodes).await;
    }
    stage.leave().await;
}

async fn deleted_while_it_is_made(strict_deletes: bool) {
    let stage = Stage::enter().await;
    stage.sim().behave(Behaviour {
        provisioning: Duration::from_secs(if strict_deletes { 6 } else { 60 }),
        strict_deletes,
        ..Behaviour::default()
    });
    let _central = stage.central().await;
    let service = stage.create("web").await;
    eventually("it is being made", SOON, async || stage.balancer(&service)).await;
    stage.delete("web").await;
    stage.gone_within("web", AFTER_RETRIES).await;
    stage.nothing_is_left().await;
    let parts = stage.writes().to("/v1/load-balancers/pools");
    assert!(parts.is_empty(), "{}", parts.summary());
    assert_eq!(cloud::creations(&stage.world).len(), 1);
    stage.leave().await;
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
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--load-balancer-resync-period=1s");
    let _central = stage.central_with(flags).await;
    let before = ingress(&stage.provide("web").await);
    let none = json!({ "status": { "loadBalancer": null } });
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(&none);
    let patched = stage.services().patch_status("web", &params, &patch).await;
    assert_none(&ingress(&patched.unwrap()));
    stage
        .is("web", "has its addresses", |service| {
            ingress(service) == before
        })
        .await;
    stage.leave().await;
}
