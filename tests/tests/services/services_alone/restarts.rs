//! What happens while central is down.

use std::time::Instant;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::{NAMESPACE, annotations, finalizers, reasons};
use mooring_tests::control_plane::{ControlPlane, Options};
use mooring_tests::objects::{NodeBuilder, ServiceBuilder, create_namespace};
use mooring_tests::shipped::{CENTRAL_USER, CentralFlags, Shipped};
use mooring_tests::stage::{MARKER_LIMIT, SOON, Stage, has_finalizer, is_served, is_untouched};
use mooring_tests::turn::Turn;
use mooring_tests::wait::{eventually, never};
use serde_json::json;

use super::written;

#[tokio::test]
async fn sv_05_a_service_made_while_central_was_down_is_served() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    stage.create("web").await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.served("web").await;
    stage.told("web", reasons::ENSURING_LOAD_BALANCER).await;
    stage.told("web", reasons::ENSURED_LOAD_BALANCER).await;
    turn.leave().await;
}

#[tokio::test]
async fn sd_02_a_service_deleted_while_central_was_down_is_cleaned_up() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 1).await;
    let central = turn.central(CentralFlags::alone()).await;
    stage.create("web").await;
    stage.served("web").await;
    drop(central);
    stage.delete("web").await;
    assert!(
        has_finalizer(&stage.get("web").await),
        "the finalizer holds it"
    );
    let _central = turn.central(CentralFlags::alone()).await;
    stage.gone("web").await;
    stage.told("web", reasons::DELETING_LOAD_BALANCER).await;
    stage.told("web", reasons::DELETED_LOAD_BALANCER).await;
    stage.create("next").await;
    stage.served("next").await;
    turn.leave().await;
}

#[tokio::test]
async fn sd_03_sd_08_a_finalizer_behind_which_nothing_is_goes() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let ours = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    let plain = ServiceBuilder::new(&stage.namespace, "plain").port(80, 8080);
    plain.create(&stage.client).await.unwrap();
    stage.create("empty").await;
    for name in ["plain", "empty"] {
        stage.patch(name, &ours).await;
    }
    stage.delete("empty").await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.gone("empty").await;
    eventually("the plain one's finalizer is off", SOON, async || {
        is_untouched(&stage.get("plain").await)
    })
    .await;
    turn.leave().await;
}

#[tokio::test]
async fn sv_39_a_restart_costs_no_write() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 210).await;
    let flags = || CentralFlags::alone().with("--concurrent-service-syncs=8");
    let central = turn.central(flags()).await;
    let start = Instant::now();
    let names: Vec<_> = (0..200).map(|n| format!("web-{n}")).collect();
    let stage_ref = &stage;
    futures::stream::iter(&names)
        .for_each_concurrent(16, async |name| stage_ref.create(name).await)
        .await;
    let what = "200 Services are served";
    eventually(what, 3 * MARKER_LIMIT, async || {
        let all = stage.all().await;
        all.iter()
            .filter(|service| is_served(service).is_ok())
            .count()
            == 200
    })
    .await;
    mooring_tests::figures::figure_time("200 Services served", start.elapsed());
    drop(central);
    let restarted = turn.now();
    // One worker: all that was there before is looked at before the marker.
    let _central = turn
        .central(CentralFlags::alone().with("--concurrent-service-syncs=1"))
        .await;
    stage.create("marker").await;
    stage.served("marker").await;
    let log = turn.audit_settled().await.since(restarted);
    let writes = log.writes_by(CENTRAL_USER).filter(|record| {
        record.namespace == stage.namespace
            && record.name != "marker"
            && record.resource != "events"
    });
    assert!(writes.is_empty(), "{}", writes.summary());
    turn.leave().await;
}

#[tokio::test]
async fn an_address_survives_a_restart_whatever_was_written_on_the_service_meanwhile() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let central = turn.central(CentralFlags::alone()).await;
    let names = ["wiped", "replaced", "misread", "misled"];
    let mut addresses = Vec::new();
    for name in names {
        stage.create(name).await;
        addresses.push(stage.served(name).await);
    }
    drop(central);
    stage
        .patch_status("wiped", &json!({ "loadBalancer": null }))
        .await;
    let replaced = json!({ "metadata": { "finalizers": null, "annotations": {
        annotations::ALLOCATED_NETWORK: null, annotations::ALLOCATED_ADDRESSES: null,
    } } });
    stage.patch("replaced", &replaced).await;
    let record = annotations::ALLOCATED_ADDRESSES;
    // Nobody else may write it.
    let writer = turn.client_for(NAMESPACE, "mooring-central", None).await;
    let garbage = json!({ "metadata": { "annotations": { record: "garbage" } } });
    Api::<Service>::namespaced(writer.unwrap(), &stage.namespace)
        .patch_status("misread", &PatchParams::default(), &Patch::Merge(garbage))
        .await
        .unwrap();
    let wanted = annotations::ADDRESSES_REQUEST;
    stage.annotate("misled", wanted, Some("\u{7}garbage")).await;
    // It would be first, by its name and by its record.
    let copy = stage.service("a-copy").annotation(record, &addresses[0][0]);
    let copy = copy.annotation(annotations::ALLOCATED_NETWORK, &stage.network);
    copy.create(&stage.client).await.unwrap();
    let _central = turn.central(CentralFlags::alone()).await;
    stage
        .told("a-copy", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    for (name, before) in names.iter().zip(&addresses) {
        stage.served_with(name, before).await;
    }
    stage
        .told("misled", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    turn.leave().await;
}

#[tokio::test]
async fn without_any_network_one_warning_says_what_to_do_and_nothing_is_written() {
    let cp = ControlPlane::start(Options::default()).await.unwrap();
    let shipped = Shipped::install(&cp).await.unwrap();
    let stage = Stage::without_network(cp.admin()).await;
    let flags = CentralFlags::alone().with("--concurrent-service-syncs=1");
    let _central = shipped.start_central(&cp, flags).await.unwrap();
    let plain = |name: &str| ServiceBuilder::load_balancer(&stage.namespace, name).port(80, 8080);
    plain("web").create(&stage.client).await.unwrap();
    let told = stage.told("web", reasons::SYNC_LOAD_BALANCER_FAILED).await;
    assert!(
        told.kind == "Warning"
            && told
                .note
                .contains("create one (kubectl explain l2networks.spec)"),
        "{told:?}"
    );
    plain("marker").create(&stage.client).await.unwrap();
    never(
        "a Service is touched that cannot be served",
        MARKER_LIMIT,
        async || !stage.warnings("marker").await.is_empty(),
        async || {
            let service = stage.get("web").await;
            (!is_untouched(&service)).then(|| format!("{service:?}"))
        },
    )
    .await;
    assert_eq!(
        stage.events("web").await.len(),
        1,
        "{:?}",
        stage.events("web").await
    );
    let written = cp
        .audit_settled()
        .await
        .writes_by(CENTRAL_USER)
        .of("services");
    let written = written.in_namespace(&stage.namespace);
    assert!(written.is_empty(), "{}", written.summary());

    // The only network there is serves Services that ask for none. No Node can carry traffic yet.
    stage
        .create_network(&stage.network, &[stage.range(0, 4)])
        .await;
    stage.served("web").await;
    stage.served("marker").await;
    stage.told("web", reasons::UNAVAILABLE_LOAD_BALANCER).await;
    NodeBuilder::new("n1")
        .ready()
        .create(&stage.client)
        .await
        .unwrap();
    let mut other = stage.clone();
    other.namespace = "elsewhere".to_owned();
    create_namespace(&other.client, &other.namespace)
        .await
        .unwrap();
    eventually("a Service is served without a Warning", SOON, async || {
        let name = mooring_tests::objects::unique("web");
        other.create(&name).await;
        other.served(&name).await;
        other.told(&name, reasons::ENSURED_LOAD_BALANCER).await;
        other.warnings(&name).await.is_empty()
    })
    .await;
    shipped.assert_no_forbidden(&cp).await;
}

#[tokio::test]
async fn finalizers_and_addresses_of_central_are_on_the_status_alone() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let _central = turn.central(CentralFlags::alone()).await;
    stage.create("web").await;
    stage.served("web").await;
    stage.delete("web").await;
    stage.gone("web").await;
    stage.told("web", reasons::DELETED_LOAD_BALANCER).await;
    let written = written(&turn, &stage).await;
    assert!(
        written.len() == 3
            && written
                .iter()
                .all(|r| r.verb == "patch" && r.subresource == "status"),
        "{written:#?}"
    );
    turn.leave().await;
}
