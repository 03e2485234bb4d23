//! Making load balancers (SV-…).

use std::time::{Duration, Instant};

use http::StatusCode;
use kube::api::PostParams;
use mooring_common::names::reasons;
use mooring_tests::cloud_sim::Fault;
use mooring_tests::objects::{ServiceBuilder, create_namespace, unique};
use mooring_tests::wait::eventually;
use serde_json::json;

use super::cloud;
use super::stage::{SOON, Stage, assert_none, has_finalizer, ingress};

fn is_about(gap: Duration, seconds: u64) -> bool {
    let wanted = Duration::from_secs(seconds);
    wanted.mul_f64(0.6) <= gap && gap <= wanted.mul_f64(1.6) + Duration::from_secs(1)
}

#[tokio::test]
async fn sv_01_a_service_gets_finalizer_load_balancer_status_and_events() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = stage.provide("web").await;
    stage.serves("web", &[1, 2]).await;
    assert!(has_finalizer(&service));
    stage.told("web", reasons::ENSURED_LOAD_BALANCER, "").await;
    let told = stage.reasons("web").await;
    assert!(told.contains(reasons::ENSURING_LOAD_BALANCER), "{told:?}");
    assert_none(&stage.warnings("web").await);
    stage.leave().await;
}

#[tokio::test]
async fn sv_01_the_finalizer_comes_before_the_first_write_in_the_cloud() {
    let stage = Stage::enter().await;
    let held = stage
        .world
        .faults()
        .inject(cloud::creation(), Fault::hang());
    let _central = stage.central().await;
    stage.create("web").await;
    held.struck(1).await;
    assert!(has_finalizer(&stage.get("web").await));
    assert_none(&ingress(&stage.get("web").await));
    held.lift();
    stage.provided_at_last("web").await;
    assert_eq!(cloud::balancers(&stage.world).len(), 1);
    stage.leave().await;
}

#[tokio::test]
async fn sv_03_services_of_other_types_cost_no_call_and_get_no_finalizer() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
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
        stage.services().create(&params, &service).await.unwrap();
    }
    stage.marker().await;
    assert_eq!(cloud::balancers(&stage.world).len(), 1, "the marker's");
    for kind in kinds {
        let name = kind.to_lowercase();
        assert!(!has_finalizer(&stage.get(&name).await), "{kind}");
        assert_none(&stage.events(&name).await);
        assert_none(&stage.written(&name).await);
    }
    stage.leave().await;
}

#[tokio::test]
async fn sv_05_a_service_from_before_the_start_is_provided() {
    let stage = Stage::enter().await;
    stage.create("web").await;
    let _central = stage.central().await;
    let service = stage.provided("web").await;
    stage.serves("web", &[1, 2]).await;
    assert!(has_finalizer(&service));
    stage.told("web", reasons::ENSURED_LOAD_BALANCER, "").await;
    stage.told("web", reasons::ENSURING_LOAD_BALANCER, "").await;
    stage.leave().await;
}

#[tokio::test]
async fn sv_06_a_cloud_that_fails_twice_is_asked_again_after_about_5_and_10_seconds() {
    let stage = Stage::enter().await;
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    let _central = stage.central().await;
    // By then, all Nodes have been heard of: nothing but time leads to another attempt.
    stage.marker().await;
    let start = Instant::now();
    let failing = cloud::creation().times(2);
    stage.world.faults().inject(failing, failure);
    stage.create("web").await;
    stage.failed("web").await;
    stage.provided_at_last("web").await;
    let tries = cloud::creations(&stage.world).since(start);
    let gaps: Vec<_> = tries.windows(2).map(|w| w[1].at - w[0].at).collect();
    assert_eq!(gaps.len(), 2, "{}", tries.summary());
    assert!(is_about(gaps[0], 5) && is_about(gaps[1], 10), "{gaps:?}");
    stage.leave().await;
}

#[tokio::test]
async fn sv_13_malformed_sources_make_no_half_open_load_balancer() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let (key, value) = cloud::BAD_SOURCES;
    stage
        .make(stage.service("web").annotation(key, value))
        .await;
    let told = stage.failed("web").await;
    assert!(told.note.contains(key), "{told:?}");
    stage.marker().await;
    assert_eq!(cloud::balancers(&stage.world).len(), 1, "the marker's");
    stage.annotate("web", key, None).await;
    stage.provided("web").await;
    stage.leave().await;
}

#[tokio::test]
async fn sv_21_tcp_and_udp_on_one_port_number_have_both_listeners() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let service = ServiceBuilder::load_balancer(&stage.namespace, "dns");
    let service = service.port(53, 5353).port_of("UDP", 53, 5353);
    stage.make(service).await;
    stage.provided("dns").await;
    let balancer = stage.serves("dns", &[1, 2]).await;
    let listeners: Vec<_> = balancer.served.keys().collect();
    assert_eq!(listeners, ["tcp/53", "udp/53"]);
    stage.leave().await;
}

/// With a single worker: what takes its time in the cloud occupies nobody.
#[tokio::test]
async fn sv_26_a_load_balancer_that_takes_long_holds_up_nobody() {
    let stage = Stage::enter().await;
    cloud::provision_in(&stage.world, Duration::from_secs(8));
    let flags = stage.flags().with("--concurrent-service-syncs=1");
    let _central = stage.central_with(flags).await;
    let slow = stage.create("slow").await;
    eventually("the slow one is being made", SOON, async || {
        stage.balancer(&slow)
    })
    .await;
    let start = Instant::now();
    cloud::provision_in(&stage.world, Duration::ZERO);
    stage.provide("quick").await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_none(&ingress(&stage.get("slow").await));
    stage.provided("slow").await;
    stage.serves("slow", &[1, 2]).await;
    assert_none(&stage.warnings("slow").await);
    stage.leave().await;
}

/// The cloud says 8 s where the own backoff would be 5 s; and that does not raise the backoff.
#[tokio::test]
async fn sv_30_the_clouds_own_delay_is_obeyed() {
    let stage = Stage::enter().await;
    let busy = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(8));
    let faults = stage.world.faults();
    faults.inject(cloud::creation().times(1), busy);
    let failure = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
    faults.inject(cloud::creation().times(1), failure);
    let _central = stage.central().await;
    stage.create("web").await;
    stage.provided_at_last("web").await;
    let tries = cloud::creations(&stage.world);
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
    stage.leave().await;
}

#[tokio::test]
async fn sv_31_two_services_of_one_name_in_two_namespaces_have_two_load_balancers() {
    let stage = Stage::enter().await;
    let _central = stage.central().await;
    let other = unique("other");
    create_namespace(&stage.admin, &other).await.unwrap();
    let theirs = ServiceBuilder::load_balancer(&other, "web").port(81, 8080);
    let theirs = theirs.create(&stage.admin).await.unwrap();
    stage.provide("web").await;
    stage
        .balanced(&theirs, "the other one has its own", |balancer| {
            balancer.served.contains_key("tcp/81")
        })
        .await;
    stage.delete("web").await;
    stage.gone("web").await;
    assert!(stage.balancer(&theirs).is_some());
    assert_eq!(cloud::balancers(&stage.world).len(), 1);
    stage.leave().await;
}

#[tokio::test]
async fn sv_38_a_creation_whose_answer_is_lost_makes_no_second_one() {
    let stage = Stage::enter().await;
    let lost = Fault::reset().executed();
    stage
        .world
        .faults()
        .inject(cloud::creation().times(1), lost);
    let _central = stage.central().await;
    stage.create("web").await;
    stage.provided_at_last("web").await;
    stage.serves("web", &[1, 2]).await;
    assert_eq!(cloud::balancers(&stage.world).len(), 1);
    assert_eq!(cloud::creations(&stage.world).len(), 1);
    stage.leave().await;
}

#[tokio::test]
async fn sv_40_our_own_class_is_served_and_only_that_if_so_wanted() {
    const OURS: &str = "example.org/ours";
    let stage = Stage::enter().await;
    stage.permit_class(OURS).await;
    let flags = stage.flags().with(format!("--load-balancer-class={OURS}"));
    let central = stage.central_with(flags.clone()).await;
    stage.make(stage.service("ours").class(OURS)).await;
    stage.create("classless").await;
    let theirs = stage.service("theirs").class("example.org/theirs");
    let theirs = stage.make(theirs).await;
    stage.provided("ours").await;
    stage.provided("classless").await;
    drop(central);
    let only = flags.with("--serve-classless-services=false");
    let _central = stage.central_with(only).await;
    let later = stage.create("classless-later").await;
    stage.make(stage.service("ours-later").class(OURS)).await;
    stage.provided("ours-later").await;
    assert!(stage.balancer(&later).is_none() && stage.balancer(&theirs).is_none());
    for name in ["theirs", "classless-later"] {
        assert!(!has_finalizer(&stage.get(name).await), "{name}");
        assert_none(&stage.events(name).await);
    }
    stage.delete("ours").await;
    stage.gone("ours").await;
    stage.leave().await;
}
