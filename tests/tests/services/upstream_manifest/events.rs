//! Events with the rights of the old manifest, on a real API server.

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::api::events::v1::Event as NewerEvent;
use kube::Resource as _;
use kube::api::{Api, DeleteParams, ListParams};
use mooring_common::k8s::{EventKind, Events};
use mooring_test_cluster::objects::{EventNote, ServiceBuilder, create_namespace, events_for};

use super::cluster::{CLOUDSCALE, UpstreamCluster};

const REASON: &str = "SyncLoadBalancerFailed";

async fn reported(cluster: &UpstreamCluster) -> Events {
    Events::new(cluster.client().await, "service-controller", "host_1")
}

async fn service(cluster: &UpstreamCluster) -> ObjectReference {
    let admin = cluster.cp.admin();
    create_namespace(&admin, "shop").await.unwrap();
    let service = ServiceBuilder::load_balancer("shop", "web").port(80, 8080);
    service.create(&admin).await.unwrap().object_ref(&())
}

async fn told(cluster: &UpstreamCluster) -> Vec<EventNote> {
    let events = events_for(&cluster.cp.admin(), "Service", Some("shop"), "web").await;
    let mut events = events.unwrap();
    events.retain(|event| event.reason == REASON);
    events
}

#[tokio::test]
async fn two_failures_with_one_reason_are_read_through_both_apis() {
    let cluster = UpstreamCluster::start(CLOUDSCALE).await;
    let (events, about) = (reported(&cluster).await, service(&cluster).await);
    let (first, second) = ("the flavor cannot be changed", "the zone cannot be changed");
    for note in [first, second, first, first] {
        events
            .report(&about, EventKind::Warning, REASON, note)
            .await;
    }
    let mut found: Vec<_> = told(&cluster).await;
    found.sort_by_key(|event| event.count);
    let found: Vec<_> = found
        .iter()
        .map(|event| (&*event.note, event.count))
        .collect();
    assert_eq!(found, [(second, 1), (first, 3)]);

    let newer = Api::<NewerEvent>::namespaced(cluster.cp.admin(), "shop");
    let newer = newer.list(&ListParams::default()).await.unwrap();
    let mut notes: Vec<_> = newer
        .iter()
        .filter_map(|event| event.note.as_deref())
        .collect();
    notes.sort_unstable();
    assert_eq!(notes, [first, second]);
    for event in &newer {
        let controller = event.reporting_controller.as_deref();
        assert_eq!(controller, Some("service-controller"));
    }
}

#[tokio::test]
async fn no_failure_of_many_is_lost() {
    let cluster = UpstreamCluster::start(CLOUDSCALE).await;
    let (events, about) = (reported(&cluster).await, service(&cluster).await);
    let notes: Vec<String> = (0..40).map(|n| format!("failure {n:02}")).collect();
    for note in &notes {
        events
            .report(&about, EventKind::Warning, REASON, note)
            .await;
    }
    let mut found: Vec<_> = told(&cluster).await.into_iter().map(|e| e.note).collect();
    found.sort();
    assert_eq!(found, notes);
}

#[tokio::test]
async fn an_event_that_has_expired_is_told_again() {
    let cluster = UpstreamCluster::start(CLOUDSCALE).await;
    let (events, about) = (reported(&cluster).await, service(&cluster).await);
    events
        .report(&about, EventKind::Warning, REASON, "no room")
        .await;
    let stored = Api::<Event>::namespaced(cluster.cp.admin(), "shop");
    let (all, now) = (ListParams::default(), DeleteParams::default());
    stored.delete_collection(&now, &all).await.unwrap();
    events
        .report(&about, EventKind::Warning, REASON, "no room")
        .await;
    let found = told(&cluster).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&*found[0].note, found[0].count), ("no room", 2));
}

#[tokio::test]
async fn events_about_nodes_with_long_names_are_taken() {
    let cluster = UpstreamCluster::start(CLOUDSCALE).await;
    let admin = cluster.cp.admin();
    let name = format!("{}example", "a.".repeat(122));
    let events = Events::new(cluster.client().await, "mooring-node", &name);
    // Events may be about what does not exist.
    let about = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(name.clone()),
        ..ObjectReference::default()
    };
    let note = "x".repeat(2000);
    events
        .report(&about, EventKind::Normal, "Synced", note)
        .await;
    let found = events_for(&admin, "Node", None, &name).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].note.len(), 1024);
}
