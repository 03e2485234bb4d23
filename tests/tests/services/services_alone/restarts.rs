//! What happens while central is down.

use std::time::Instant;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::names::{NAMESPACE, annotations, finalizers, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, create_namespace};
use mooring_test_cluster::shipped::{CENTRAL_USER, CentralFlags};
use mooring_test_cluster::test_namespace::{
    MARKER_LIMIT, SOON, TestNamespace, has_finalizer, is_served, is_untouched,
};
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use super::written;

#[tokio::test]
async fn sv_05_a_service_made_while_central_was_down_is_served() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    namespace.create("web").await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.served("web").await;
    namespace.told("web", reasons::ENSURING_LOAD_BALANCER).await;
    namespace.told("web", reasons::ENSURED_LOAD_BALANCER).await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_02_a_service_deleted_while_central_was_down_is_cleaned_up() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(1).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("web").await;
    namespace.served("web").await;
    drop(central);
    namespace.delete("web").await;
    assert!(
        has_finalizer(&namespace.get("web").await),
        "the finalizer holds it"
    );
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.gone("web").await;
    namespace.told("web", reasons::DELETING_LOAD_BALANCER).await;
    namespace.told("web", reasons::DELETED_LOAD_BALANCER).await;
    namespace.create("next").await;
    namespace.served("next").await;
    cluster.finish().await;
}

#[tokio::test]
async fn sd_03_sd_08_a_finalizer_behind_which_nothing_is_goes() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let ours = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    let plain = ServiceBuilder::new(&namespace.name, "plain").port(80, 8080);
    plain.create(&namespace.client).await.unwrap();
    namespace.create("empty").await;
    for name in ["plain", "empty"] {
        namespace.patch(name, &ours).await;
    }
    namespace.delete("empty").await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.gone("empty").await;
    eventually("the plain one's finalizer is off", SOON, async || {
        is_untouched(&namespace.get("plain").await)
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn sv_39_a_restart_costs_no_write() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(210).await;
    let flags = || CentralFlags::alone().with("--concurrent-service-syncs=8");
    let central = cluster.start_central(flags()).await;
    let start = Instant::now();
    let names: Vec<_> = (0..200).map(|n| format!("web-{n}")).collect();
    let stage_ref = &namespace;
    futures::stream::iter(&names)
        .for_each_concurrent(16, async |name| stage_ref.create(name).await)
        .await;
    let what = "200 Services are served";
    eventually(what, 3 * MARKER_LIMIT, async || {
        let all = namespace.all().await;
        all.iter()
            .filter(|service| is_served(service).is_ok())
            .count()
            == 200
    })
    .await;
    mooring_test_support::figures::figure_time("200 Services served", start.elapsed());
    drop(central);
    let restarted = cluster.now();
    // One worker: all that was there before is looked at before the marker.
    let _central = cluster
        .start_central(CentralFlags::alone().with("--concurrent-service-syncs=1"))
        .await;
    namespace.create("marker").await;
    namespace.served("marker").await;
    let log = cluster.audit().await.since(restarted);
    let writes = log.writes_by(CENTRAL_USER).filter(|record| {
        record.namespace == namespace.name && record.name != "marker" && record.resource != "events"
    });
    assert!(writes.is_empty(), "{}", writes.summary());
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_survives_a_restart_whatever_was_written_on_the_service_meanwhile() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    let names = ["wiped", "replaced", "misread", "misled"];
    let mut addresses = Vec::new();
    for name in names {
        namespace.create(name).await;
        addresses.push(namespace.served(name).await);
    }
    drop(central);
    namespace
        .patch_status("wiped", &json!({ "loadBalancer": null }))
        .await;
    let replaced = json!({ "metadata": { "finalizers": null, "annotations": {
        annotations::ALLOCATED_NETWORK: null, annotations::ALLOCATED_ADDRESSES: null,
    } } });
    namespace.patch("replaced", &replaced).await;
    let record = annotations::ALLOCATED_ADDRESSES;
    // Nobody else may write it.
    let writer = cluster.client_for(NAMESPACE, "mooring-central", None).await;
    let garbage = json!({ "metadata": { "annotations": { record: "garbage" } } });
    Api::<Service>::namespaced(writer.unwrap(), &namespace.name)
        .patch_status("misread", &PatchParams::default(), &Patch::Merge(garbage))
        .await
        .unwrap();
    let wanted = annotations::ADDRESSES_REQUEST;
    namespace
        .annotate("misled", wanted, Some("\u{7}garbage"))
        .await;
    // It would be first, by its name and by its record.
    let copy = namespace
        .service("a-copy")
        .annotation(record, &addresses[0][0]);
    let copy = copy.annotation(annotations::ALLOCATED_NETWORK, &namespace.network);
    copy.create(&namespace.client).await.unwrap();
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace
        .told("a-copy", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    for (name, before) in names.iter().zip(&addresses) {
        namespace.served_with(name, before).await;
    }
    namespace
        .told("misled", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    cluster.finish().await;
}

#[tokio::test]
async fn without_any_network_one_warning_says_what_to_do_and_nothing_is_written() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace().await;
    let flags = CentralFlags::alone().with("--concurrent-service-syncs=1");
    let _central = cluster.start_central(flags).await;
    let plain = |name: &str| ServiceBuilder::load_balancer(&namespace.name, name).port(80, 8080);
    plain("web").create(&namespace.client).await.unwrap();
    let told = namespace
        .told("web", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(
        told.kind == "Warning"
            && told
                .note
                .contains("create one (kubectl explain l2networks.spec)"),
        "{told:?}"
    );
    plain("marker").create(&namespace.client).await.unwrap();
    never(
        "a Service is touched that cannot be served",
        MARKER_LIMIT,
        async || !namespace.warnings("marker").await.is_empty(),
        async || {
            let service = namespace.get("web").await;
            (!is_untouched(&service)).then(|| format!("{service:?}"))
        },
    )
    .await;
    assert_eq!(
        namespace.events("web").await.len(),
        1,
        "{:?}",
        namespace.events("web").await
    );
    let written = cluster.audit().await.writes_by(CENTRAL_USER).of("services");
    let written = written.in_namespace(&namespace.name);
    assert!(written.is_empty(), "{}", written.summary());

    // The only network there is serves Services that ask for none. No Node can carry traffic yet.
    namespace
        .create_network(&namespace.network, &[namespace.range(0, 4)])
        .await;
    namespace.served("web").await;
    namespace.served("marker").await;
    namespace
        .told("web", reasons::UNAVAILABLE_LOAD_BALANCER)
        .await;
    NodeBuilder::new("n1")
        .ready()
        .create(&namespace.client)
        .await
        .unwrap();
    let mut other = namespace.clone();
    other.name = "elsewhere".to_owned();
    create_namespace(&other.client, &other.name).await.unwrap();
    eventually("a Service is served without a Warning", SOON, async || {
        let name = mooring_test_cluster::objects::unique("web");
        other.create(&name).await;
        other.served(&name).await;
        other.told(&name, reasons::ENSURED_LOAD_BALANCER).await;
        other.warnings(&name).await.is_empty()
    })
    .await;
    cluster.finish().await;
}

#[tokio::test]
async fn finalizers_and_addresses_of_central_are_on_the_status_alone() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    namespace.create("web").await;
    namespace.served("web").await;
    namespace.delete("web").await;
    namespace.gone("web").await;
    namespace.told("web", reasons::DELETED_LOAD_BALANCER).await;
    let written = written(&cluster, &namespace).await;
    assert!(
        written.len() == 3
            && written
                .iter()
                .all(|r| r.verb == "patch" && r.subresource == "status"),
        "{written:#?}"
    );
    cluster.finish().await;
}

/// Two share by a record, two by what MetalLB has left, and two of different namespaces likewise.
#[tokio::test]
async fn who_shares_an_address_keeps_it_through_a_restart_and_is_adopted() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(8).await;
    let mut other = namespace.clone();
    other.name = "other".to_owned();
    create_namespace(&other.client, &other.name).await.unwrap();
    let [own, metallb, _] = annotations::SHARING_KEYS;
    let create = async |namespace: &TestNamespace, name: &str, (key, value), port: u16| {
        let service = ServiceBuilder::load_balancer(&namespace.name, name)
            .annotation(key, value)
            .port(port, 8080);
        service.create(&namespace.client).await.unwrap();
    };
    let shown = |address: &str| json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
    let [new, adopted, apart] = [0, 5, 6].map(|number| namespace.address(number));
    for (namespace, name, port, address) in [
        (&namespace, "old-a", 80, &adopted),
        (&namespace, "old-b", 53, &adopted),
        (&namespace, "apart", 8080, &apart),
        (&other, "apart", 53, &apart),
    ] {
        create(namespace, name, (metallb, "k"), port).await;
        namespace.patch_status(name, &shown(address)).await;
    }
    let central = cluster.start_central(CentralFlags::alone()).await;
    for name in ["old-a", "old-b"] {
        namespace
            .served_with(name, std::slice::from_ref(&adopted))
            .await;
    }
    for namespace in [&namespace, &other] {
        namespace
            .served_with("apart", std::slice::from_ref(&apart))
            .await;
    }
    for (name, value, port, address) in [
        ("web", "w", 80, &new),
        ("dns", "w", 53, &new),
        ("keyless", "k", 22, &adopted),
    ] {
        create(&namespace, name, (own, value), port).await;
        namespace
            .served_with(name, std::slice::from_ref(address))
            .await;
    }
    namespace.network_uses(&namespace.network, 3).await;
    drop(central);
    for name in ["web", "dns"] {
        let wiped = json!({ "loadBalancer": null });
        namespace.patch_status(name, &wiped).await;
    }
    namespace.annotate("keyless", own, None).await;
    // Whoever takes a port of an older one meanwhile has lost the address.
    let ports = json!({"spec": {"ports": [{"name": "tcp-80", "port": 80}]}});
    namespace.patch("old-b", &ports).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    let reason = reasons::SHARING_CONFLICT;
    let words = "both have the port TCP 80";
    namespace.told_with("old-b", reason, words).await;
    for name in ["old-a", "keyless"] {
        namespace
            .served_with(name, std::slice::from_ref(&adopted))
            .await;
    }
    for name in ["web", "dns"] {
        namespace
            .served_with(name, std::slice::from_ref(&new))
            .await;
    }
    let words = "has not the same value on both";
    namespace.told_with("keyless", reason, words).await;
    assert_ne!(namespace.served("old-b").await, [adopted]);
    other.served_with("apart", &[apart]).await;
    let words = "spec.shareAcrossNamespaces";
    other.told_with("apart", reason, words).await;
    cluster.finish().await;
}
