//! Services that share an address by one key.

use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_cluster::test_namespace::{TestNamespace, annotation, ingress};
use serde_json::json;

use super::{cluster_with_central, never_meanwhile, ready_namespace};

const FAILED: &str = reasons::SYNC_LOAD_BALANCER_FAILED;
const CONFLICT: &str = reasons::SHARING_CONFLICT;

/// A Service of the namespace's network with this key and port.
fn sharing(namespace: &TestNamespace, name: &str, key: &str, port: u16) -> ServiceBuilder {
    ServiceBuilder::load_balancer(&namespace.name, name)
        .annotation(annotations::L2_NETWORK_REQUEST, &namespace.network)
        .annotation(annotations::SHARING_KEY, key)
        .port(port, 8080)
}

async fn create(namespace: &TestNamespace, name: &str, key: &str, port: u16) {
    let service = sharing(namespace, name, key, port);
    service.create(&namespace.client).await.unwrap();
}

fn port(number: u16) -> serde_json::Value {
    json!({"spec": {"ports": [{"name": "only", "port": number, "protocol": "TCP"}]}})
}

#[tokio::test]
async fn one_key_gives_one_address_until_the_last_service_goes() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    let first = [namespace.address(0)];
    create(&namespace, "web", "k", 80).await;
    namespace.served_with("web", &first).await;
    create(&namespace, "dns", "k", 53).await;
    namespace.served_with("dns", &first).await;
    // By the names of other implementations, and asking for the address.
    let [_, metallb, old] = annotations::SHARING_KEYS;
    for (name, key, port) in [("ssh", metallb, 22), ("ftp", old, 21)] {
        let service = namespace.service(name).requested_address(&first[0]);
        let service = service.annotation(key, "k");
        service.create(&namespace.client).await.unwrap();
        let told = namespace.told_with(name, FAILED, "both have the port TCP 80");
        assert!(told.await.note.contains(&first[0]));
        namespace.patch(name, &self::port(port)).await;
        namespace.served_with(name, &first).await;
    }
    namespace.network_uses(&namespace.network, 1).await;
    // Another key gets the other address, and without one there is none.
    create(&namespace, "other", "j", 443).await;
    namespace
        .served_with("other", &[namespace.address(1)])
        .await;
    namespace.create("late").await;
    namespace
        .told_with("late", FAILED, "no free IPv4 address")
        .await;
    for name in ["web", "dns", "ssh"] {
        namespace.delete(name).await;
        namespace.gone(name).await;
        assert_eq!(ingress(&namespace.get("ftp").await), first);
    }
    never_meanwhile("a shared address is given away", &cluster, async || {
        let found = ingress(&namespace.get("late").await);
        (!found.is_empty()).then(|| format!("{found:?}"))
    })
    .await;
    namespace.delete("ftp").await;
    namespace.served_with("late", &first).await;
    cluster.finish().await;
}

#[tokio::test]
async fn who_waits_for_a_port_gets_the_address_when_it_is_given_up() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    let first = [namespace.address(0)];
    create(&namespace, "web", "k", 80).await;
    namespace.served_with("web", &first).await;
    create(&namespace, "dns", "k", 53).await;
    namespace.served_with("dns", &first).await;
    let waits = sharing(&namespace, "waits", "k", 80).requested_address(&first[0]);
    waits.create(&namespace.client).await.unwrap();
    namespace
        .told_with("waits", FAILED, "cannot be shared")
        .await;
    namespace.patch("web", &port(8080)).await;
    namespace.served_with("waits", &first).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_service_that_takes_a_port_of_another_gets_another_address_or_none() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 2).await;
    let [first, second] = [[namespace.address(0)], [namespace.address(1)]];
    for (name, port) in [("web", 80), ("dns", 53), ("ssh", 22)] {
        create(&namespace, name, "k", port).await;
        namespace.served_with(name, &first).await;
    }
    namespace.patch("dns", &port(80)).await;
    namespace.served_with("dns", &second).await;
    let told = namespace.told("dns", CONFLICT).await;
    for words in [
        format!(
            "{} is the address of Service {}/web",
            first[0], namespace.name
        ),
        "both have the port TCP 80".to_owned(),
        format!("this one gets {} instead", second[0]),
    ] {
        assert!(told.note.contains(&words), "{words:?} is missing: {told:?}");
    }
    // There is no third one.
    namespace.patch("ssh", &port(80)).await;
    let told = namespace
        .told_with("ssh", FAILED, "this one has lost it")
        .await;
    assert!(told.note.contains("no free IPv4 address"), "{told:?}");
    namespace.served_with("web", &first).await;
    let lost = namespace.get("ssh").await;
    assert!(ingress(&lost).is_empty(), "{lost:?}");
    assert_eq!(annotation(&lost, annotations::ALLOCATED_ADDRESSES), None);
    // A fault in its annotations is no way to keep it, and the right port brings it back.
    namespace.patch("ssh", &port(22)).await;
    namespace.served("ssh").await;
    let shared = ingress(&namespace.get("ssh").await);
    let wrong = json!({
        "metadata": {"annotations": {annotations::ADDRESSES_REQUEST: "nonsense"}},
        "spec": port(80)["spec"],
    });
    namespace.patch("ssh", &wrong).await;
    let told = namespace
        .told_with("ssh", FAILED, "\"nonsense\" is no IP address")
        .await;
    assert!(told.note.contains(&shared[0]), "{told:?}");
    assert!(ingress(&namespace.get("ssh").await).is_empty());
    cluster.finish().await;
}

#[tokio::test]
async fn other_rules_that_are_broken_later_are_told_and_cost_nothing() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    let first = [namespace.address(0)];
    for (name, port) in [("web", 80), ("dns", 53)] {
        create(&namespace, name, "k", port).await;
        namespace.served_with(name, &first).await;
    }
    let local = json!({"spec": {"externalTrafficPolicy": "Local"}});
    namespace.patch("dns", &local).await;
    let words = "externalTrafficPolicy is Cluster on one of them and Local on the other";
    namespace.told_with("dns", CONFLICT, words).await;
    namespace
        .annotate("web", annotations::SHARING_KEY, None)
        .await;
    let words = "has not the same value on both";
    namespace.told_with("web", CONFLICT, words).await;
    for name in ["web", "dns"] {
        assert_eq!(ingress(&namespace.get(name).await), first);
    }
    // To have an address of its own, it asks for one.
    let asked = namespace.address(3);
    let key = annotations::ADDRESSES_REQUEST;
    namespace.annotate("web", key, Some(&asked)).await;
    namespace.served_with("web", &[asked]).await;
    assert_eq!(ingress(&namespace.get("dns").await), first);
    cluster.finish().await;
}

/// A tenant who guesses the key of another namespace gets nothing by it.
#[tokio::test]
async fn namespaces_share_only_where_the_network_says_so() {
    let cluster = cluster_with_central().await;
    let (victim, mut tenant) = (
        ready_namespace(&cluster, 4).await,
        ready_namespace(&cluster, 1).await,
    );
    tenant.network.clone_from(&victim.network);
    create(&victim, "web", "k", 80).await;
    let first = victim.served("web").await;
    let guess = sharing(&tenant, "guess", "k", 53).requested_address(&first[0]);
    guess.create(&tenant.client).await.unwrap();
    let told = tenant.told_with("guess", FAILED, "spec.shareAcrossNamespaces");
    told.await;
    create(&tenant, "automatic", "k", 22).await;
    tenant.served_with("automatic", &[victim.address(1)]).await;
    assert!(ingress(&tenant.get("guess").await).is_empty());
    let patch = json!({"spec": {"shareAcrossNamespaces": true}});
    let networks = victim.networks();
    networks
        .patch(
            &victim.network,
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await
        .unwrap();
    tenant.served_with("guess", &first).await;
    // It takes the victim's port: it goes.
    tenant.patch("guess", &port(80)).await;
    tenant
        .told_with("guess", FAILED, "this one has lost it")
        .await;
    assert!(ingress(&tenant.get("guess").await).is_empty());
    assert_eq!(ingress(&victim.get("web").await), first);
    cluster.finish().await;
}

#[tokio::test]
async fn annotations_that_differ_are_told_and_cost_nothing() {
    let cluster = cluster_with_central().await;
    let namespace = ready_namespace(&cluster, 4).await;
    let [_, metallb, _, kube_vip] = annotations::ADDRESSES_REQUESTS;
    let asked = namespace.address(2);
    let service = namespace.service("web").annotation(metallb, &asked);
    let service = service.annotation(kube_vip, &asked);
    service.create(&namespace.client).await.unwrap();
    namespace
        .served_with("web", std::slice::from_ref(&asked))
        .await;
    let dhcp = namespace.service("dhcp").annotation(kube_vip, "0.0.0.0");
    dhcp.create(&namespace.client).await.unwrap();
    let told = namespace.told_with("dhcp", FAILED, "by DHCP").await;
    assert!(told.note.contains(kube_vip), "{told:?}");
    let differ = json!({"metadata": {"annotations": {
        kube_vip: namespace.address(3),
        annotations::SHARING_KEY: "a",
        annotations::SHARING_KEYS[1]: "b",
        annotations::ADDRESS_POOL_REQUESTS[1]: "no such pool",
    }}});
    namespace.patch("web", &differ).await;
    let told = namespace
        .told_with("web", FAILED, "ask for different things")
        .await;
    for words in [
        metallb,
        kube_vip,
        annotations::SHARING_KEY,
        "\"a\" and \"b\"",
    ] {
        assert!(told.note.contains(words), "{words:?} is missing: {told:?}");
    }
    let mended = json!({"metadata": {"annotations": {
        kube_vip: null, annotations::SHARING_KEY: null,
    }}});
    namespace.patch("web", &mended).await;
    let told = namespace
        .told_with("web", FAILED, "no pool \"no such pool\"")
        .await;
    let pool = annotations::ADDRESS_POOL_REQUESTS[1];
    assert!(told.note.contains(pool), "{told:?}");
    assert_eq!(ingress(&namespace.get("web").await), [asked]);
    cluster.finish().await;
}
