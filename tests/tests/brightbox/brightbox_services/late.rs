//! A cloud that does later what it has taken: nothing is left behind, and nobody complains.

use std::time::Duration;

use http::Method;
use mooring_cloud_sim::brightbox::{Behaviour, Kind};
use mooring_test_support::wait::eventually;

use crate::brightbox_services::cloud::{BALANCERS, usual};
use crate::brightbox_services::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, assert_none,
};

/// A cloud that unmaps Cloud IPs some seconds after it has deleted their load balancer. Until then they show it, or
/// nothing at all if it is not listed as deleted any more.
fn unmapping_late() -> [Behaviour; 2] {
    [Duration::from_secs(60), Duration::ZERO].map(|deleted_shown| Behaviour {
        unmapping: Duration::from_secs(6),
        deleted_shown,
        ..usual()
    })
}

/// The Go controller leaves the Cloud IP there.
#[tokio::test]
async fn a_cloud_ip_that_is_unmapped_late_goes_with_its_service() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    for behaviour in unmapping_late() {
        cluster.sim().behave(behaviour);
        cluster.provide("web").await;
        cluster.delete("web").await;
        cluster.gone("web").await;
        cluster.nothing_is_left().await;
    }
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn a_cloud_ip_that_is_unmapped_late_leads_to_the_next_load_balancer_in_the_end() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--load-balancer-resync-period=1s");
    let _central = cluster.central_with(flags).await;
    cluster.provide("web").await;
    for behaviour in unmapping_late() {
        cluster.sim().behave(behaviour);
        let id = cluster.serves("web", &[1, 2]).await.id;
        let ip = cluster.shown("web").await["cloud_ips"][0]["id"].clone();
        let sim = cluster.sim();
        sim.set_in(Kind::LoadBalancer, &id, "status", "failed");
        eventually("another one has its Cloud IP", AFTER_RETRIES, async || {
            let found = cluster.balancer(&cluster.get("web").await)?.id;
            let shown = sim.get(Kind::LoadBalancer, &found)?;
            (found != id && shown["cloud_ips"][0]["id"] == ip).then_some(())
        })
        .await;
    }
    cluster.serves("web", &[1, 2]).await;
    assert_eq!(cluster.cloud.creations().len(), 3);
    assert_none(&cluster.complaints("web").await);
    cluster.finish().await;
}

/// It is not asked for a second time, which the cloud would refuse.
#[tokio::test]
async fn a_deletion_that_shows_late_is_asked_for_once() {
    let cluster = CloudCluster::start().await;
    cluster.sim().behave(Behaviour {
        deletion_shown: Duration::from_secs(4),
        ..usual()
    });
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    let id = cluster.balancer(&service).expect("it is there").id;
    cluster.delete("web").await;
    cluster.gone("web").await;
    cluster.nothing_is_left().await;
    assert_none(&cluster.warnings("web").await);
    let writes = cluster.writes().to(&format!("{BALANCERS}/{id}"));
    let deletions = writes.method(&Method::DELETE);
    assert_eq!(deletions.len(), 1, "{}", deletions.summary());
    cluster.finish().await;
}
