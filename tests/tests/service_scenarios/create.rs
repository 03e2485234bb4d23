//! Making load balancers (SV-…).

use std::time::{Duration, Instant};

use http::StatusCode;
use kube::api::PostParams;
use mooring_cloud_sim::Fault;
use mooring_common::names::reasons;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, unique};
use serde_json::json;

use super::cloud::SuiteCloud;
use super::cluster::{
    CloudCluster, LoadBalancerCloud as _, assert_none, has_finalizer, ingress, wanted,
};

fn is_about(gap: Duration, seconds: u64) -> bool {
    let wanted = Duration::from_secs(seconds);
    wanted.mul_f64(0.6) <= gap && gap <= wanted.mul_f64(1.6) + Duration::from_secs(1)
}

#[tokio::test]
async fn sv_01_a_service_gets_finalizer_load_balancer_status_and_events() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let service = cluster.provide("web").await;
    cluster.serves("web", &[1, 2]).await;
    assert!(has_finalizer(&service));
    cluster
        .told("web", reasons::ENSURED_LOAD_BALANCER, "")
        .await;
    let told = cluster.reasons("web").await;
    assert!(told.contains(reasons::ENSURING_LOAD_BALANCER), "{told:?}");
    assert_none(&cluster.warnings("web").await);
    cluster.finish().await;
}

#[tokio::test]
async fn sv_01_the_finalizer_comes_before_the_first_write_in_the_cloud() {
    let cluster = CloudCluster::start().await;
    let held = cluster
        .cloud
        .faults()
        .inject(cluster.cloud.creation(), Fault::hang());
    let _central = cluster.central().await;
    cluster.create("web").await;
    held.struck(1).await;
    assert!(has_finalizer(&cluster.get("web").await));
    assert_none(&ingress(&cluster.get("web").await));
    held.lift();
    cluster.provided_at_last("web").await;
    assert_eq!(cluster.cloud.balancers().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn sv_03_services_of_other_types_cost_no_call_and_get_no_finalizer() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let kinds = ["ClusterIP", "NodePort", "ExternalName"];
    for kind in kinds {
        let service = json!({
            "metadata": { "name": kind.to_lowercase() },
            "spec": {
                "type": kind, "ports": [{ "port": 80 }],
                "externalName": (kind == "ExternalName").then_some("example.org"),
            },
        });
        let service = serde_json::from_value(service).unwrap();
        let params = PostParams::default();
        cluster.services().create(&params, &service).await.unwrap();
    }
    cluster.marker().await;
    assert_eq!(cluster.cloud.balancers().len(), 1, "the marker's");
    for kind in kinds {
        let name = kind.to_lowercase();
        assert!(!has_finalizer(&cluster.get(&name).await), "{kind}");
        assert_none(&cluster.events(&name).await);
        assert_none(&cluster.written(&name).await);
    }
    cluster.finish().await;
}

#[tokio::test]
async fn sv_05_a_service_from_before_the_start_is_provided() {
    let cluster = CloudCluster::start().await;
    cluster.create("web").await;
    let _central = cluster.central().await;
    let service = cluster.provided("web").await;
    cluster.serves("web", &[1, 2]).await;
    assert!(has_finalizer(&service));
    cluster
        .told("web", reasons::ENSURED_LOAD_BALANCER, "")
        .await;
    cluster
        .told("web", reasons::ENSURING_LOAD_BALANCER, "")
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn sv_06_a_cloud_that_fails_twice_is_asked_again_after_about_5_and_10_seconds() {
    let cluster = CloudCluster::start().await;
    let failure = Fault::status(SuiteCloud::PLAIN_FAILURE);
    let _central = cluster.central().await;
    // By then, all Nodes have been heard of: nothing but time leads to another attempt.
    cluster.marker().await;
    let start = Instant::now();
    let failing = cluster.cloud.creation().times(2);
    cluster.cloud.faults().inject(failing, failure);
    cluster.create("web").await;
    cluster.failed("web").await;
    cluster.provided_at_last("web").await;
    let tries = cluster.cloud.creations().since(start);
    let gaps: Vec<_> = tries.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert_eq!(gaps.len(), 2, "{}", tries.summary());
    assert!(is_about(gaps[0], 5) && is_about(gaps[1], 10), "{gaps:?}");
    cluster.finish().await;
}

#[tokio::test]
async fn sv_13_an_annotation_that_is_refused_makes_no_load_balancer() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let (key, value) = SuiteCloud::REFUSED_ANNOTATION;
    cluster
        .make(cluster.service("web").annotation(key, value))
        .await;
    let told = cluster.failed("web").await;
    assert!(told.note.contains(key), "{told:?}");
    cluster.marker().await;
    assert_eq!(cluster.cloud.balancers().len(), 1, "the marker's");
    cluster.annotate("web", key, None).await;
    cluster.provided("web").await;
    cluster.finish().await;
}

/// The cloud says 8 s where the own backoff would be 5 s; and that does not raise the backoff.
#[tokio::test]
async fn sv_30_the_clouds_own_delay_is_obeyed() {
    let cluster = CloudCluster::start().await;
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(8));
    let faults = cluster.cloud.faults();
    faults.inject(cluster.cloud.creation().times(1), busy);
    let failure = Fault::status(SuiteCloud::PLAIN_FAILURE);
    faults.inject(cluster.cloud.creation().times(1), failure);
    let _central = cluster.central().await;
    cluster.create("web").await;
    cluster.provided_at_last("web").await;
    let tries = cluster.cloud.creations();
    let gaps: Vec<_> = tries.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert_eq!(gaps.len(), 2, "{}", tries.summary());
    assert!(
        is_about(gaps[0], 8) && gaps[0] >= Duration::from_secs(8),
        "{gaps:?}"
    );
    assert!(
        is_about(gaps[1], 5),
        "the backoff has been raised: {gaps:?}"
    );
    cluster.finish().await;
}

#[tokio::test]
async fn sv_31_two_services_of_one_name_in_two_namespaces_have_two_load_balancers() {
    let cluster = CloudCluster::start().await;
    let _central = cluster.central().await;
    let other = unique("other");
    create_namespace(&cluster.admin, &other).await.unwrap();
    let theirs = ServiceBuilder::load_balancer(&other, "web").port(81, 8080);
    let theirs = theirs.create(&cluster.admin).await.unwrap();
    cluster.provide("web").await;
    let of_theirs = wanted(&theirs, &[1, 2]);
    cluster
        .balanced(&theirs, "the other one has its own", |balancer| {
            balancer.served == of_theirs
        })
        .await;
    cluster.delete("web").await;
    cluster.gone("web").await;
    assert!(cluster.balancer(&theirs).is_some());
    assert_eq!(cluster.cloud.balancers().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn sv_38_a_creation_whose_answer_is_lost_makes_no_second_one() {
    let cluster = CloudCluster::start().await;
    let lost = Fault::reset().executed();
    cluster
        .cloud
        .faults()
        .inject(cluster.cloud.creation().times(1), lost);
    let _central = cluster.central().await;
    cluster.create("web").await;
    cluster.provided_at_last("web").await;
    cluster.serves("web", &[1, 2]).await;
    assert_eq!(cluster.cloud.balancers().len(), 1);
    assert_eq!(cluster.cloud.creations().len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn sv_40_our_own_class_is_served_and_only_that_if_so_wanted() {
    const OURS: &str = "example.org/ours";
    let cluster = CloudCluster::start().await;
    cluster.permit_class(OURS).await;
    let flags = cluster
        .flags()
        .with(format!("--load-balancer-class={OURS}"));
    let central = cluster.central_with(flags.clone()).await;
    cluster.make(cluster.service("ours").class(OURS)).await;
    cluster.create("classless").await;
    let theirs = cluster.service("theirs").class("example.org/theirs");
    let theirs = cluster.make(theirs).await;
    cluster.provided("ours").await;
    cluster.provided("classless").await;
    drop(central);
    let only = flags.with("--serve-classless-services=false");
    let _central = cluster.central_with(only).await;
    let later = cluster.create("classless-later").await;
    cluster
        .make(cluster.service("ours-later").class(OURS))
        .await;
    cluster.provided("ours-later").await;
    assert!(cluster.balancer(&later).is_none() && cluster.balancer(&theirs).is_none());
    for name in ["theirs", "classless-later"] {
        assert!(!has_finalizer(&cluster.get(name).await), "{name}");
        assert_none(&cluster.events(name).await);
    }
    cluster.delete("ours").await;
    cluster.gone("ours").await;
    cluster.finish().await;
}
