//! What the IP blocks of the cluster cost, as its billing says.

use http::Method;
use mooring_cloud_sim::phoenixnap::{Kind, per_hour};
use mooring_test_cluster::shipped::CentralFlags;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::phoenixnap_services::blocks::AFTER_A_WHILE;
use crate::phoenixnap_services::cluster::{CloudCluster, LoadBalancerCloud as _};

/// The hours of a month on average.
const HOURS: f64 = 730.0;

#[tokio::test]
async fn what_the_blocks_cost_is_told_by_a_metric() {
    let cluster = CloudCluster::start().await;
    let foreign = json!({ "cidr": "203.0.113.0/28", "cidrBlockSize": "/28", "tags": {} });
    cluster.sim().put(Kind::Block, foreign);
    let flags = CentralFlags::alone().cloud(&cluster.cloud);
    let flags = flags.with("--authorization-always-allow-paths=/metrics");
    let flags = cluster.cloud.flags(flags.with("--controllers=service"));
    let central = cluster
        .central_with(flags.with("--ip-block-sharing=true"))
        .await;
    cluster.provide("web").await;
    let line = format!(
        "mooring_ip_blocks_cost_dollars_per_month{{provider=\"phoenixnap\"}} {}",
        per_hour("/28") * HOURS
    );
    eventually(&line, AFTER_A_WHILE, async || {
        let (_, text) = central.endpoints.get("/metrics", None).await?;
        anyhow::ensure!(text.lines().any(|there| there == line), "{text}");
        anyhow::Ok(())
    })
    .await;
    let calls = cluster.sim().calls();
    let asked = calls
        .iter()
        .filter(|call| call.path.starts_with("/billing/"));
    let asked: Vec<_> = asked.map(|call| call.method.clone()).collect();
    assert_eq!(asked, [Method::GET], "it is asked once an hour");
    cluster.finish().await;
}
