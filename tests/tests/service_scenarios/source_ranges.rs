//! Clouds whose load balancers can be closed to all but some clients (SV-…).

use std::collections::BTreeSet;

use serde_json::json;

use super::cluster::CloudCluster;

#[tokio::test]
async fn sv_11_rules_follow_the_source_ranges_and_none_means_open() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    for ranges in [
        vec!["10.0.0.0/8", "192.0.2.0/24"],
        vec!["192.0.2.0/24"],
        vec![],
    ] {
        cluster
            .respecify("web", json!({ "loadBalancerSourceRanges": ranges }))
            .await;
        let wanted: BTreeSet<String> = ranges.iter().map(ToString::to_string).collect();
        cluster
            .balanced(&service, &format!("open to {wanted:?}"), |balancer| {
                balancer.sources == wanted
            })
            .await;
    }
    cluster.finish().await;
}
