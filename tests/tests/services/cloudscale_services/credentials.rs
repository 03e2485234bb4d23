//! Credentials of another project: nothing there is the cluster's, and nothing is made or deleted.

use std::time::Duration;

use mooring_common::names::reasons;
use mooring_tests::cloud_sim::world::World;
use mooring_tests::shipped::CentralFlags;

use crate::cloudscale_services::cloud::{self, CLOUD};
use crate::cloudscale_services::stage::{AFTER_RETRIES, Stage, has_finalizer, ingress, uid};

#[tokio::test]
async fn credentials_of_another_project_lose_nothing() {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    let before = ingress(&stage.provide("web").await);
    stage.provide("old").await;
    drop(central);
    let (key, value) = cloud::HARMLESS;
    stage.annotate("web", key, Some(value)).await;
    stage.delete("old").await;
    stage.create("new").await;
    let balancers = cloud::balancers(&stage.world);

    let another = World::start(CLOUD).await;
    cloud::provision_in(&another, Duration::ZERO);
    let flags = CentralFlags::alone().cloud(&another);
    let flags = flags.without_endpoints().with("--controllers=service");
    let central = stage.central_with(flags).await;
    for name in ["web", "new", "old"] {
        let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
        let told = stage.told(name, reason, "another project").await;
        assert!(told.note.contains("CLOUDSCALE_ACCESS_TOKEN"), "{told:?}");
    }
    assert_eq!(another.calls().writes().len(), 0, "{:?}", another.calls());
    assert_eq!(ingress(&stage.get("web").await), before);
    assert!(ingress(&stage.get("new").await).is_empty());
    assert!(has_finalizer(&stage.get("old").await));
    assert_eq!(cloud::balancers(&stage.world), balancers);
    drop(central);

    let _central = stage.central().await;
    stage.gone_within("old", AFTER_RETRIES).await;
    let web = stage.provided_at_last("web").await;
    assert_eq!(ingress(&web), before);
    stage.provided_at_last("new").await;
    stage.marker().await;
    assert!(cloud::shows_harmless(&stage.world, &uid(&web)));
    for name in ["web", "new"] {
        stage.delete(name).await;
        stage.gone_within(name, AFTER_RETRIES).await;
    }
    stage.delete_markers().await;
    stage.nothing_is_left().await;
    stage.leave().await;
}
