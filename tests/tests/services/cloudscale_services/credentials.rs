//! Credentials of another project: nothing there is the cluster's, and nothing is made or deleted.

use std::time::Duration;

use mooring_cloud_sim::cloud::CloudSim;
use mooring_cloud_sim::cloudscale::Behaviour;
use mooring_common::names::reasons;
use mooring_test_cluster::shipped::CentralFlags;

use crate::cloudscale_services::cloud::SuiteCloud;
use crate::cloudscale_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, has_finalizer, ingress,
};
use crate::cloudscale_services::forwarding::ForwardingCloud as _;

#[tokio::test]
async fn credentials_of_another_project_lose_nothing() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let before = ingress(&cluster.provide("web").await);
    cluster.provide("old").await;
    drop(central);
    let (key, value) = SuiteCloud::HARMLESS;
    cluster.annotate("web", key, Some(value)).await;
    cluster.delete("old").await;
    cluster.create("new").await;
    let balancers = cluster.cloud.balancers();

    let another = CloudSim::start(SuiteCloud::CLOUD).await;
    let another_sim = another.cloudscale().expect("it is cloudscale.ch");
    another_sim.behave(Behaviour {
        provisioning: Duration::ZERO,
        ..Behaviour::default()
    });
    let flags = CentralFlags::alone().cloud(&another);
    let flags = flags.without_endpoints().with("--controllers=service");
    let central = cluster.central_with(flags).await;
    for name in ["web", "new", "old"] {
        let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
        let told = cluster.told(name, reason, "another project").await;
        assert!(told.note.contains("CLOUDSCALE_ACCESS_TOKEN"), "{told:?}");
    }
    assert_eq!(another.calls().writes().len(), 0, "{:?}", another.calls());
    assert_eq!(ingress(&cluster.get("web").await), before);
    assert!(ingress(&cluster.get("new").await).is_empty());
    assert!(has_finalizer(&cluster.get("old").await));
    assert_eq!(cluster.cloud.balancers(), balancers);
    drop(central);

    let _central = cluster.central().await;
    cluster.gone_within("old", AFTER_RETRIES).await;
    let web = cluster.provided_at_last("web").await;
    assert_eq!(ingress(&web), before);
    cluster.provided_at_last("new").await;
    cluster.marker().await;
    assert!(cluster.cloud.shows_harmless(&web));
    for name in ["web", "new"] {
        cluster.delete(name).await;
        cluster.gone_within(name, AFTER_RETRIES).await;
    }
    cluster.delete_markers().await;
    cluster.nothing_is_left().await;
    cluster.finish().await;
}
