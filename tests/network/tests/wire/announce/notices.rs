//! What people are told.

use std::time::Instant;

use mooring_test_netlab::netlab::raw::ArpToSend;
use mooring_test_netlab::netlab_cluster::Network;
use mooring_test_support::wait::eventually;

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};

/// The Service says where its addresses are.
pub async fn announcement_is_told(cluster: &AnnounceCluster, speaker: &str) {
    let event = cluster
        .told("Service", "web", "AddressAnnounced", speaker)
        .await;
    assert_eq!(
        (event.kind.as_str(), event.reporter.as_str()),
        ("Normal", "mooring-node")
    );
}

/// A machine that is none of ours claims the address: the Service says so, and it is defended.
pub async fn a_foreign_station_is_reported(
    cluster: &AnnounceCluster,
    web: Addresses,
    speaker: &str,
) {
    let client = &cluster.netlab.client;
    let start = Instant::now();
    let claim = ArpToSend::who_has(web.v4, web.v4, client.mac());
    client.inject(&claim.bytes()).unwrap();
    let event = cluster
        .told(
            "Service",
            "web",
            "AddressConflict",
            &client.mac().to_string(),
        )
        .await;
    assert_eq!(event.kind, "Warning");
    assert!(event.note.contains(&web.v4.to_string()), "{}", event.note);
    let own = cluster.netlab.node(speaker).mac();
    eventually("the address is defended", SOON, async || {
        cluster
            .claims(web.v4, start)
            .iter()
            .any(|claim| claim.unasked && claim.mac == own)
    })
    .await;
    assert_eq!(cluster.answered(web.v4).await, speaker);
}

/// The interface that the VLAN would be on is not there: the L2Network says so, and what to correct.
pub async fn a_missing_parent_is_told(cluster: &AnnounceCluster) {
    let network = Network::new("tagged", &["10.77.0.120-10.77.0.124"])
        .vlan(100)
        .parent("uplink");
    network.create(&cluster.netlab).await.unwrap();
    let event = cluster
        .told("L2Network", "tagged", "SegmentUnavailable", "\"uplink\"")
        .await;
    assert_eq!(event.kind, "Warning");
    assert!(event.note.contains("spec.parent"), "{}", event.note);
}
