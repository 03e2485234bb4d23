//! What whoever may write Services in a namespace can write is a wish, and never a record.

use mooring_common::names::{annotations, finalizers, reasons};
use mooring_tests::objects::{NodeBuilder, unique};
use mooring_tests::shipped::{CENTRAL_USER, CentralFlags};
use mooring_tests::stage::{Stage, ingress};
use mooring_tests::turn::Turn;
use serde_json::json;

/// Addresses that no Service may have, each with a name for the Service that claims it. The Node's is in
/// the ranges.
fn forged(stage: &Stage) -> [(&'static str, String); 5] {
    let first = stage.address(0);
    let prefix = first.rsplit_once('.').unwrap().0.to_owned();
    [
        ("gateway", format!("{prefix}.1")),
        ("broadcast", format!("{prefix}.255")),
        ("api-server", "10.0.0.1".to_owned()),
        ("metadata", "169.254.169.254".to_owned()),
        ("node", stage.address(1)),
    ]
}

/// A Service with a record as central writes it, and with its finalizer.
async fn claim(stage: &Stage, name: &str, address: &str) {
    let service = stage.service(name);
    let service = service.annotation(annotations::ALLOCATED_NETWORK, &stage.network);
    let service = service.annotation(annotations::ALLOCATED_ADDRESSES, address);
    service.create(&stage.client).await.unwrap();
    let finalizer = json!({ "metadata": { "finalizers": [finalizers::SERVICE] } });
    stage.patch(name, &finalizer).await;
}

#[tokio::test]
async fn a_record_that_no_status_confirms_gives_nobody_a_reserved_address() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 20).await;
    NodeBuilder::new(&unique("router-like"))
        .address("InternalIP", &stage.address(1))
        .ready()
        .create(&stage.client)
        .await
        .unwrap();
    let started = turn.now();
    for (name, address) in forged(&stage) {
        claim(&stage, &format!("before-{name}"), &address).await;
    }
    // Nor does a status that says the same, for what is another's.
    for (name, address) in [
        ("gateway", &forged(&stage)[0].1),
        ("node", &stage.address(1)),
    ] {
        let name = format!("status-{name}");
        claim(&stage, &name, address).await;
        let status = json!({ "loadBalancer": { "ingress": [{ "ip": address }] } });
        stage.patch_status(&name, &status).await;
    }
    let _central = turn.central(CentralFlags::alone()).await;
    let offered: Vec<_> = (0..20)
        .filter(|n| *n != 1)
        .map(|n| stage.address(n))
        .collect();
    for (name, _) in forged(&stage) {
        let given = stage.served(&format!("before-{name}")).await;
        assert!(offered.contains(&given[0]), "{name}: {given:?}");
    }
    for name in ["status-gateway", "status-node"] {
        let expected = |address: &String| offered.contains(address);
        mooring_tests::wait::eventually(name, mooring_tests::stage::SOON, async || {
            ingress(&stage.get(name).await).iter().all(expected)
        })
        .await;
    }
    for (name, address) in forged(&stage) {
        let name = format!("while-{name}");
        claim(&stage, &name, &address).await;
        let given = stage.served(&name).await;
        assert!(offered.contains(&given[0]), "{name}: {given:?}");
    }
    let log = turn.audit_settled().await.since(started);
    let written = log.writes_by(CENTRAL_USER).of("services");
    for record in written.in_namespace(&stage.namespace).to_vec() {
        let body = serde_json::to_string(&record.body).unwrap();
        for (name, address) in forged(&stage) {
            assert!(!body.contains(&format!("\"{address}\"")), "{name}: {body}");
        }
    }
    turn.leave().await;
}

#[tokio::test]
async fn an_address_outside_of_all_ranges_stays_only_if_status_and_record_say_so() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 8).await;
    let central = turn.central(CentralFlags::alone()).await;
    for name in ["kept", "wiped"] {
        stage.create(name).await;
    }
    let kept = stage.served("kept").await;
    let wiped = stage.served("wiped").await;
    drop(central);
    stage.set_ranges(&stage.network, &[stage.range(4, 4)]).await;
    stage
        .patch_status("wiped", &json!({ "loadBalancer": null }))
        .await;
    let _central = turn.central(CentralFlags::alone()).await;
    let next = stage.served("wiped").await;
    assert_ne!(next, wiped, "nothing but an annotation speaks for it");
    stage.served_with("kept", &kept).await;
    turn.leave().await;
}

#[tokio::test]
async fn a_reserved_address_is_refused_and_one_that_becomes_reserved_is_told() {
    let turn = Turn::take().await;
    let stage = Stage::new(turn.admin(), 4).await;
    let _central = turn.central(CentralFlags::alone()).await;
    let gateway = &forged(&stage)[0].1;
    let asking = stage.service("asking").requested_address(gateway);
    asking.create(&stage.client).await.unwrap();
    let told = stage
        .told("asking", reasons::SYNC_LOAD_BALANCER_FAILED)
        .await;
    assert!(told.note.contains("the router in L2Network"), "{told:?}");
    stage.create("web").await;
    let addresses = stage.served("web").await;
    let node = unique("late");
    NodeBuilder::new(&node)
        .address("InternalIP", &addresses[0])
        .ready()
        .create(&stage.client)
        .await
        .unwrap();
    let told = stage.told("web", reasons::ADDRESS_RESERVED).await;
    assert!(
        told.note.contains(&format!("an address of Node {node}")),
        "{told:?}"
    );
    assert_eq!(
        stage.served("web").await,
        addresses,
        "nothing is taken away"
    );
    turn.leave().await;
}
