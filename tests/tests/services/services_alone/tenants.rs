//! What whoever may write Services in a namespace can write is a wish, and never a record.

use mooring_common::names::{annotations, finalizers, reasons};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_cluster::shipped::{CENTRAL_USER, CentralFlags};
use mooring_test_cluster::test_namespace::{TestNamespace, ingress};
use serde_json::json;

/// Addresses that no Service may have, each with a name for the Service that claims it. The Node's is in
/// the ranges.
fn forged(namespace: &TestNamespace) -> [(&'static str, String); 5] {
    let first = namespace.address(0);
    let prefix = first.rsplit_once('.').unwrap().0.to_owned();
    [
        ("gateway", format!("{prefix}.1")),
        ("broadcast", format!("{prefix}.255")),
        ("api-server", "10.0.0.1".to_owned()),
        ("metadata", "169.254.169.254".to_owned()),
        ("node", namespace.address(1)),
    ]
}

/// A Service with a record as central writes it, and with its finalizer.
async fn claim(namespace: &TestNamespace, name: &str, address: &str) {
    let service = namespace.service(name);
    let service = service.annotation(annotations::ALLOCATED_NETWORK, &namespace.network);
    let service = service.annotation(annotations::ALLOCATED_ADDRESSES, address);
    service.create(&namespace.client).await.unwrap();
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    namespace.patch(name, &finalizer).await;
}

#[tokio::test]
async fn a_record_that_no_status_confirms_gives_nobody_a_reserved_address() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(20).await;
    NodeBuilder::new(&unique("router-like"))
        .address("InternalIP", &namespace.address(1))
        .ready()
        .create(&namespace.client)
        .await
        .unwrap();
    let started = cluster.now();
    for (name, address) in forged(&namespace) {
        claim(&namespace, &format!("before-{name}"), &address).await;
    }
    // Nor does a status that says the same, for what is another's.
    for (name, address) in [
        ("gateway", &forged(&namespace)[0].1),
        ("node", &namespace.address(1)),
    ] {
        let name = format!("status-{name}");
        claim(&namespace, &name, address).await;
        let status = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        namespace.patch_status(&name, &status).await;
    }
    let _central = cluster.start_central(CentralFlags::alone()).await;
    let offered: Vec<_> = (0..20)
        .filter(|n| *n != 1)
        .map(|n| namespace.address(n))
        .collect();
    for (name, _) in forged(&namespace) {
        let given = namespace.served(&format!("before-{name}")).await;
        assert!(offered.contains(&given[0]), "{name}: {given:?}");
    }
    for name in ["status-gateway", "status-node"] {
        let expected = |address: &String| offered.contains(address);
        mooring_test_support::wait::eventually(
            name,
            mooring_test_cluster::test_namespace::SOON,
            async || ingress(&namespace.get(name).await).iter().all(expected),
        )
        .await;
    }
    for (name, address) in forged(&namespace) {
        let name = format!("while-{name}");
        claim(&namespace, &name, &address).await;
        let given = namespace.served(&name).await;
        assert!(offered.contains(&given[0]), "{name}: {given:?}");
    }
    let log = cluster.audit().await.since(started);
    let written = log.writes_by(CENTRAL_USER).of("services");
    for record in written.in_namespace(&namespace.name).to_vec() {
        let body = serde_json::to_string(&record.body).unwrap();
        for (name, address) in forged(&namespace) {
            assert!(!body.contains(&format!("\"{address}\"")), "{name}: {body}");
        }
    }
    cluster.finish().await;
}

#[tokio::test]
async fn an_address_outside_of_all_ranges_stays_only_if_status_and_record_say_so() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(8).await;
    let central = cluster.start_central(CentralFlags::alone()).await;
    for name in ["kept", "wiped"] {
        namespace.create(name).await;
    }
    let kept = namespace.served("kept").await;
    let wiped = namespace.served("wiped").await;
    drop(central);
    namespace
        .set_ranges(&namespace.network, &[namespace.range(4, 4)])
        .await;
    namespace
        .patch_status("wiped", &json!({ "loadBalancer": null }))
        .await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    let next = namespace.served("wiped").await;
    assert_ne!(next, wiped, "nothing but an annotation speaks for it");
    namespace.served_with("kept", &kept).await;
    cluster.finish().await;
}

#[tokio::test]
async fn a_reserved_address_is_refused_and_one_that_becomes_reserved_is_told() {
    let cluster = Cluster::exclusive().await;
    let namespace = cluster.namespace_with_network(4).await;
    let _central = cluster.start_central(CentralFlags::alone()).await;
    let gateway = &forged(&namespace)[0].1;
    let asking = namespace.service("asking").requested_address(gateway);
    asking.create(&namespace.client).await.unwrap();
    let told = namespace
        .told("asking", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(told.note.contains("the router in L2Network"), "{told:?}");
    namespace.create("web").await;
    let addresses = namespace.served("web").await;
    let node = unique("late");
    NodeBuilder::new(&node)
        .address("InternalIP", &addresses[0])
        .ready()
        .create(&namespace.client)
        .await
        .unwrap();
    let told = namespace.told("web", reasons::ADDRESS_RESERVED).await;
    assert!(
        told.note.contains(&format!("an address of Node {node}")),
        "{told:?}"
    );
    assert_eq!(
        namespace.served("web").await,
        addresses,
        "nothing is taken away"
    );
    cluster.finish().await;
}
