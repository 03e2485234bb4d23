//! Clouds whose new load balancers take their time (SV-…).

use std::time::{Duration, Instant};

use mooring_test_support::wait::eventually;

use super::cluster::{CloudCluster, LoadBalancerCloud as _, SOON, assert_none, ingress};

/// With a single worker: what takes its time in the cloud occupies nobody.
#[tokio::test]
async fn sv_26_a_load_balancer_that_takes_long_holds_up_nobody() {
    let cluster = CloudCluster::start().await;
    cluster.cloud.provision_in(Duration::from_secs(8));
    let flags = cluster.flags().with("--concurrent-service-syncs=1");
    let _central = cluster.central_with(flags).await;
    let slow = cluster.create("slow").await;
    eventually("the slow one is being made", SOON, async || {
        cluster.balancer(&slow)
    })
    .await;
    let start = Instant::now();
    cluster.cloud.provision_in(Duration::ZERO);
    cluster.provide("quick").await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_none(&ingress(&cluster.get("slow").await));
    cluster.provided("slow").await;
    cluster.serves("slow", &[1, 2]).await;
    assert_none(&cluster.warnings("slow").await);
    cluster.finish().await;
}
