//! Clouds that are down, or answer nonsense (SC-…).

use std::time::{Duration, Instant};

use http::StatusCode;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use mooring_tests::cloud_sim::{Fault, Injection, When};
use mooring_tests::objects::NodeBuilder;
use mooring_tests::wait::eventually;
use serde_json::{Value, json};

use super::cloud;
use super::stage::{AFTER_RETRIES, SOON, Stage, assert_none, has_finalizer};

/// Five minutes, shortened. All controllers are at work, and all Nodes silent.
#[tokio::test]
async fn sc_04_a_cloud_that_is_down_costs_nothing_and_all_recovers_alone() {
    let stage = Stage::enter().await;
    let flags = stage.flags().with("--controllers=*");
    let flags = flags.with("--node-monitor-period=200ms");
    let _central = stage.central_with(flags).await;
    stage.provide("stays").await;
    stage.provide("goes").await;
    let id = stage.serves("stays", &[1, 2]).await.id;

    cloud::set_down(&stage.world, true);
    for node in ["n1", "n2"] {
        NodeBuilder::set_condition(&stage.admin, node, "Ready", "Unknown")
            .await
            .unwrap();
    }
    stage.delete("goes").await;
    stage.create("comes").await;
    let start = Instant::now();
    stage.failed("goes").await;
    stage.failed("comes").await;
    eventually("it has been down for a while", SOON, async || {
        start.elapsed() > Duration::from_secs(3) && stage.world.turned_away() > 3
    })
    .await;
    let nodes = Api::<Node>::all(stage.admin.clone());
    for node in ["n1", "n2"] {
        assert!(nodes.get_opt(node).await.unwrap().is_some(), "{node}");
    }
    for name in ["stays", "goes"] {
        assert!(has_finalizer(&stage.get(name).await), "{name}");
    }
    assert!(cloud::has(&stage.world, &id));

    cloud::set_down(&stage.world, false);
    stage.gone_within("goes", AFTER_RETRIES).await;
    stage.provided_at_last("comes").await;
    assert_eq!(cloud::balancers(&stage.world).len(), 2);
    assert_none(&cloud::outages(&stage.world, &id));
    stage.leave().await;
}

/// Something is added to every object, and what nobody needs is taken away.
fn embellish(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(embellish),
        Value::Object(fields) => {
            for optional in cloud::OPTIONAL_FIELDS {
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
    let stage = Stage::enter().await;
    let faults = stage.world.faults();
    faults.inject(When::get("**/*"), Fault::rewritten(embellish));
    let central = stage.central().await;
    stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    drop(central);
    let start = Instant::now();
    let central = stage.central().await;
    stage.provide("later").await;
    let id = stage.serves("web", &[1, 2]).await.id;
    assert_none(&cloud::writes_on(&stage.world, &id).since(start));
    stage.delete("web").await;
    stage.gone("web").await;
    assert!(central.process.is_running());
    stage.leave().await;
}

/// What is no answer proves nothing: nothing is made, and no finalizer goes.
async fn proves_nothing(fault: Fault) {
    let stage = Stage::enter().await;
    let central = stage.central().await;
    let old = stage.provide("old").await;
    drop(central);
    let inject = |when: When| stage.world.faults().inject(when, fault.clone());
    let faults: Vec<Injection> = cloud::lookups().map(inject).into();
    stage.delete("old").await;
    let new = stage.create("new").await;
    let central = stage.central().await;
    stage.failed("old").await;
    stage.failed("new").await;
    assert!(has_finalizer(&stage.get("old").await));
    assert!(stage.balancer(&old).is_some());
    assert!(stage.balancer(&new).is_none());
    for fault in faults {
        fault.lift();
    }
    stage.gone_within("old", AFTER_RETRIES).await;
    stage.provided_at_last("new").await;
    assert_eq!(cloud::creations(&stage.world).len(), 2);
    assert!(central.process.is_running());
    stage.leave().await;
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
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("hopeless").await;
    let id = stage.balancer(&service).unwrap().id;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let failing = stage.world.faults().inject(cloud::deletion(&id), failure);
    stage.delete("hopeless").await;
    for n in 0..3 {
        failing.struck(n + 1).await;
        let start = Instant::now();
        stage.provide(&format!("other-{n}")).await;
        let took = start.elapsed();
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
    let tries = cloud::writes_on(&stage.world, &id).method(&http::Method::DELETE);
    let gaps: Vec<_> = tries.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert!(gaps[1] > gaps[0].mul_f64(1.3), "{gaps:?}");
    assert!(gaps[0] > Duration::from_secs(3), "{gaps:?}");
    stage.leave().await;
}
