//! Credentials of another account or project: nothing there is the cluster's, and nothing is made or deleted.

use std::time::Instant;

use mooring_cloud_sim::cloud::{CloudSim, Server};
use mooring_common::names::reasons;
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, assert_none, has_finalizer, ingress,
};
use super::forwarding::{ForwardingCloud as _, ports};

/// One Service that is changed meanwhile, one that is made and one that is deleted.
#[tokio::test]
async fn credentials_of_another_account_lose_nothing() {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let web = cluster.provide("web").await;
    let before = ingress(&web);
    cluster.provide("old").await;
    cluster.settle().await;
    drop(central);
    let second = json!({ "name": "second", "port": 443, "protocol": "TCP" });
    let both = json!({ "ports": [ports(&web)[0], second] });
    cluster.respecify("web", both).await;
    cluster.delete("old").await;
    cluster.create("new").await;
    let (since, balancers) = (Instant::now(), cluster.cloud.balancers());

    let another = CloudSim::start(SuiteCloud::CLOUD).await;
    another.add(Server::named("somebody-elses").private("10.250.0.1"));
    let central = cluster.central_with(cluster.flags_at(&another)).await;
    for name in ["web", "new", "old"] {
        let reason = reasons::SYNC_LOAD_BALANCER_FAILED;
        let told = cluster.told(name, reason, SuiteCloud::CREDENTIALS).await;
        assert!(told.note.contains("those of another"), "{told:?}");
    }
    assert_none(&another.calls().writes());
    assert_none(&cluster.writes().since(since));
    assert_eq!(ingress(&cluster.get("web").await), before);
    assert_none(&ingress(&cluster.get("new").await));
    assert!(has_finalizer(&cluster.get("old").await));
    assert_eq!(cluster.cloud.balancers(), balancers);
    drop(central);

    let _central = cluster.central().await;
    cluster.gone_within("old", AFTER_RETRIES).await;
    cluster.provided_at_last("new").await;
    let web = cluster.provided_at_last("web").await;
    assert_eq!(ingress(&web), before);
    let id = cluster.serves("web", &[1, 2]).await.id;
    cluster.cloud.assert_served_all_along(&id);
    for name in ["web", "new", "settled"] {
        cluster.delete(name).await;
        cluster.gone_within(name, AFTER_RETRIES).await;
    }
    cluster.nothing_is_left().await;
    cluster.finish().await;
}
