//! Clouds that are down, or answer nonsense (SC-…).

use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use mooring_cloud_sim::{Fault, Injection, When};
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::cloud::SuiteCloud;
use super::cluster::{
    AFTER_RETRIES, CloudCluster, LoadBalancerCloud as _, SOON, assert_none, has_finalizer,
};

/// Five minutes, shortened. All controllers are at work, and all Nodes silent.
#[tokio::test]
async fn sc_04_a_cloud_that_is_down_costs_nothing_and_all_recovers_alone() {
    let cluster = CloudCluster::start().await;
    let flags = cluster.flags().with("--controllers=*");
    let flags = flags.with("--node-monitor-period=200ms");
    let _central = cluster.central_with(flags).await;
    cluster.provide("stays").await;
    cluster.provide("goes").await;
    let id = cluster.serves("stays", &[1, 2]).await.id;

    cluster.cloud.set_down(true);
    for node in ["n1", "n2"] {
        NodeBuilder::set_condition(&cluster.admin, node, "Ready", "Unknown")
            .await
            .unwrap();
    }
    cluster.delete("goes").await;
    cluster.create("comes").await;
    let start = Instant::now();
    cluster.failed("goes").await;
    cluster.failed("comes").await;
    eventually("it has been down for a while", SOON, async || {
        start.elapsed() > Duration::from_secs(3) && cluster.cloud.turned_away() > 3
    })
    .await;
    let nodes = Api::<Node>::all(cluster.admin.clone());
    for node in ["n1", "n2"] {
        assert!(nodes.get_opt(node).await.unwrap().is_some(), "{node}");
    }
    for name in ["stays", "goes"] {
        assert!(has_finalizer(&cluster.get(name).await), "{name}");
    }
    assert!(cluster.cloud.has(&id));

    cluster.cloud.set_down(false);
    cluster.gone_within("goes", AFTER_RETRIES).await;
    cluster.provided_at_last("comes").await;
    assert_eq!(cluster.cloud.balancers().len(), 2);
    cluster.cloud.assert_served_all_along(&id);
    cluster.finish().await;
}

/// Something is added to every object, and what nobody needs is taken away.
fn embellish(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(embellish),
        Value::Object(fields) => {
            for optional in SuiteCloud::OPTIONAL_FIELDS {
                fields.remove(*optional);
            }
            fields.values_mut().for_each(embellish);
            let news = json!({ "since": 2027, "list": [null, {}] });
            fields.insert("something_new".to_owned(), news);
        }
        _ => {}
    }
}

#[tokio::test]
async fn sc_06_unknown_and_missing_fields_hinder_nobody() {
    let cluster = CloudCluster::start().await;
    let faults = cluster.cloud.faults();
    faults.inject(When::get("**/*"), Fault::rewritten(embellish));
    let central = cluster.central().await;
    cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    drop(central);
    let start = Instant::now();
    let central = cluster.central().await;
    cluster.provide("later").await;
    let id = cluster.serves("web", &[1, 2]).await.id;
    assert_none(&cluster.cloud.writes_on(&id).since(start));
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(central.process.is_running());
    cluster.finish().await;
}

/// What is no answer proves nothing: nothing is made, and no finalizer goes.
async fn proves_nothing(fault: Fault) {
    let cluster = CloudCluster::start().await;
    let central = cluster.central().await;
    let old = cluster.provide("old").await;
    drop(central);
    let inject = |when: When| cluster.cloud.faults().inject(when, fault.clone());
    let faults: Vec<Injection> = cluster
        .cloud
        .balancer_lookups()
        .into_iter()
        .map(inject)
        .collect();
    cluster.delete("old").await;
    let new = cluster.create("new").await;
    let central = cluster.central().await;
    cluster.failed("old").await;
    cluster.failed("new").await;
    assert!(has_finalizer(&cluster.get("old").await));
    assert!(cluster.balancer(&old).is_some());
    assert!(cluster.balancer(&new).is_none());
    for fault in faults {
        fault.lift();
    }
    cluster.gone_within("old", AFTER_RETRIES).await;
    cluster.provided_at_last("new").await;
    assert_eq!(cluster.cloud.creations().len(), 2);
    assert!(central.process.is_running());
    cluster.finish().await;
}

#[tokio::test]
async fn sc_07_a_page_for_people_is_no_answer() {
    proves_nothing(Fault::html(StatusCode::OK)).await;
}

#[tokio::test]
async fn sc_07_a_page_for_people_is_no_404_either() {
    proves_nothing(Fault::html(StatusCode::NOT_FOUND)).await;
}

#[tokio::test]
async fn sc_07_a_refusal_is_no_answer() {
    proves_nothing(Fault::status(StatusCode::FORBIDDEN)).await;
}

#[tokio::test]
async fn sc_07_half_an_answer_is_none() {
    proves_nothing(Fault::torn()).await;
}

#[tokio::test]
async fn sc_07_an_error_with_status_200_is_no_answer() {
    let body = r#"{"detail": "Something went wrong."}"#;
    proves_nothing(Fault::body(StatusCode::OK, body)).await;
}

#[tokio::test]
async fn sc_09_a_service_that_always_fails_is_tried_ever_less_often_and_hinders_nobody() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("hopeless").await;
    let id = cluster.balancer(&service).unwrap().id;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.deletion(&id), failure);
    // A change that is still on its way would be a reason to try at once.
    cluster.settle().await;
    let begun = Instant::now();
    cluster.delete("hopeless").await;
    for n in 0..3 {
        failing.struck(n + 1).await;
        cluster.provide(&format!("other-{n}")).await;
    }
    let tries = cluster.cloud.writes_on(&id).since(begun);
    let gaps: Vec<_> = tries.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert!(gaps[1] > gaps[0].mul_f64(1.3), "{gaps:?}");
    assert!(gaps[0] > Duration::from_secs(3), "{gaps:?}");
    cluster.finish().await;
}
