//! What users notice of changes: nothing, or as little as the cloud permits.

use mooring_cloud_sim::cloudscale::{Behaviour, Kind};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};
use std::time::Duration;

use crate::cloudscale_services::cluster::{CloudCluster, SOON, assert_none, wanted};
use crate::cloudscale_services::forwarding::ports;
use crate::cloudscale_services::key;

/// A Service with two ports, and its UUID.
async fn start(cluster: &CloudCluster) -> (Vec<Value>, String) {
    // Each write takes a moment, so that what it breaks can be seen.
    cluster.sim().behave(Behaviour {
        change_time: Duration::from_millis(20),
        provisioning: Duration::ZERO,
        ..Behaviour::default()
    });
    let service = ServiceBuilder::load_balancer(&cluster.namespace, "web");
    cluster.make(service.port(80, 8080).port(443, 8443)).await;
    let service = cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await;
    let all = ports(&service).iter().map(|port| json!(port));
    (all.collect(), cluster.uuid("web").await)
}

/// Changes the ports, waits until that is in the cloud, and gives the listeners that were without
/// traffic although they are still wanted.
async fn hurt(cluster: &CloudCluster, uuid: &str, spec: Value) -> Vec<String> {
    let service = cluster.respecify("web", spec).await;
    let wanted = wanted(&service, &[1, 2]);
    let names: Vec<String> = ports(&service)
        .iter()
        .map(|port| format!("tcp/{}", port.name.as_deref().unwrap_or_default()))
        .collect();
    eventually("it is in the cloud", SOON, async || {
        let balancer = cluster.balancer(&service).ok_or("none")?;
        let pools = cluster.parts(uuid, Kind::Pool).into_iter();
        let mut pools: Vec<Value> = pools.map(|pool| pool["name"].clone()).collect();
        pools.sort_by_key(ToString::to_string);
        let mut names = names.clone();
        names.sort();
        if balancer.served == wanted && json!(pools) == json!(names) {
            Ok(())
        } else {
            Err("not yet")
        }
    })
    .await;
    cluster.marker().await;
    let outages = cluster.sim().outages(uuid).into_iter();
    let hurt = outages.filter(|outage| outage.over || wanted.contains_key(&outage.listener));
    hurt.map(|outage| format!("{outage:?}")).collect()
}

#[tokio::test]
async fn a_changed_port_keeps_serving_until_the_new_one_stands() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (mut all, uuid) = start(&cluster).await;
    all[0]["port"] = json!(81);
    assert_none(&hurt(&cluster, &uuid, json!({ "ports": all })).await);
    // The old listener went only after the new one had come.
    assert_none(&cluster.sim().traffic(&uuid).dark());
    let moments = cluster.sim().traffic(&uuid).moments;
    let both = moments
        .iter()
        .any(|moment| moment.served.contains_key("tcp/80") && moment.served.contains_key("tcp/81"));
    assert!(both, "{moments:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn a_changed_node_port_never_leaves_a_listener_without_a_member() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (mut all, uuid) = start(&cluster).await;
    for (port, node_port) in all.iter_mut().zip([30400, 30401]) {
        port["nodePort"] = json!(node_port);
    }
    assert_none(&hurt(&cluster, &uuid, json!({ "ports": all })).await);
    cluster.finish().await;
}

#[tokio::test]
async fn a_renamed_port_is_a_new_name_and_nothing_else() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (mut all, uuid) = start(&cluster).await;
    all[0]["name"] = json!("renamed");
    assert_none(&hurt(&cluster, &uuid, json!({ "ports": all })).await);
    cluster.finish().await;
}

#[tokio::test]
async fn another_traffic_policy_hurts_nobody_there_and_back() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (_, uuid) = start(&cluster).await;
    for policy in ["Local", "Cluster"] {
        let spec = json!({ "externalTrafficPolicy": policy });
        let service = cluster.respecify("web", spec).await;
        let port = service.spec.as_ref().unwrap().health_check_node_port;
        let kind = if policy == "Local" { "http" } else { "tcp" };
        cluster
            .balanced(&service, "the members are checked anew", |balancer| {
                balancer.checks.iter().all(|check| {
                    let at_port = port.is_none_or(|port| check.ends_with(&port.to_string()));
                    check.starts_with(kind) && at_port
                })
            })
            .await;
        cluster.serves("web", &[1, 2]).await;
    }
    assert_none(&cluster.sim().outages(&uuid));
    cluster.finish().await;
}

#[tokio::test]
async fn a_port_more_and_a_port_less_leave_the_others_alone() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (all, uuid) = start(&cluster).await;
    let third = json!({ "name": "third", "port": 8080, "protocol": "TCP" });
    let three = json!({ "ports": [all[0], all[1], third] });
    assert_none(&hurt(&cluster, &uuid, three).await);
    let one = json!({ "ports": [all[1]] });
    assert_none(&hurt(&cluster, &uuid, one).await);
    cluster.finish().await;
}

/// The pool has to be made anew; the listener moves with two calls.
#[tokio::test]
async fn another_algorithm_or_protocol_costs_two_calls_without_a_listener_at_most() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (_, uuid) = start(&cluster).await;
    for (end, field, value) in [
        ("pool-algorithm", "algorithm", "least_connections"),
        ("pool-protocol", "protocol", "proxy"),
    ] {
        cluster.annotate("web", &key(end), Some(value)).await;
        eventually("both pools are made anew", SOON, async || {
            let pools = cluster.parts(&uuid, Kind::Pool);
            pools.len() == 2 && pools.iter().all(|pool| pool[field] == value)
        })
        .await;
        cluster.serves("web", &[1, 2]).await;
    }
    let outages = cluster.sim().outages(&uuid);
    assert!(outages.iter().all(|outage| outage.over), "{outages:?}");
    let gap = cluster.sim().gaps_in_calls(&uuid);
    assert!(gap <= 2, "{gap} calls: {outages:?}");
    cluster.finish().await;
}

/// B16: upstream's first listener collides with the second pool's old one, for ever.
#[tokio::test]
async fn b16_two_ports_that_are_swapped_converge() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (mut all, uuid) = start(&cluster).await;
    (all[0]["port"], all[1]["port"]) = (json!(443), json!(80));
    cluster.respecify("web", json!({ "ports": all })).await;
    cluster.serves("web", &[1, 2]).await;
    let told = cluster.warnings("web").await.into_iter();
    let failures = told.filter(|event| event.reason != reasons::DISRUPTIVE_CHANGE);
    assert_none(&failures.collect::<Vec<_>>());
    let gap = cluster.sim().gaps_in_calls(&uuid);
    assert!(gap <= 3, "{gap} calls: {:?}", cluster.sim().outages(&uuid));
    cluster.finish().await;
}
