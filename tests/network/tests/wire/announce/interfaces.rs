//! Nodes have the segment on interfaces of different names.

use std::time::Instant;

use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::NETWORK;
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use crate::announce::cluster::{Addresses, AnnounceCluster, NODES, SOON};

#[test]
fn each_node_speaks_on_the_first_listed_interface_that_it_has() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        let n2 = cluster.netlab.node("n2");
        n2.ip("link add wan7 link eth0 type macvlan mode bridge")
            .unwrap();
        n2.ip("link set wan7 up").unwrap();
        let mac = n2.run(&["cat", "/sys/class/net/wan7/address"]).unwrap();
        let mac = mac.trim().to_owned();
        let second = json!({ "matchLabels": { "port": "second" } });
        interfaces_are(
            &cluster,
            json!([{ "name": "wan*", "nodeSelector": second }, { "name": "bond?" }, { "name": "eth*" }]),
        )
        .await;
        for node in NODES {
            is_on(&cluster, node, "eth0").await;
        }

        // Another one on one node alone, and it is what neighbours hear of.
        cluster.label_node("n2", json!({ "port": "second" })).await;
        let entry = is_on(&cluster, "n2", "wan7").await;
        assert_eq!(entry.mac.as_deref(), Some(mac.as_str()));
        is_on(&cluster, "n1", "eth0").await;
        cluster.pod("web", "n2").await;
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, true).await;
        eventually("wan7 announces the address", SOON, async || {
            let claims = cluster.claims(web.v4, start);
            claims
                .into_iter()
                .find(|claim| claim.unasked && claim.mac.to_string() == mac)
        })
        .await;

        // It is gone: an address shows that eth0 is on the same network.
        n2.ip("link delete wan7").unwrap();
        is_on(&cluster, "n2", "eth0").await;

        interfaces_are(&cluster, json!([{ "name": "nowhere*" }])).await;
        let entry = says(&cluster, "n3", "NoInterface").await;
        for word in ["nowhere*", "spec.interfaces", "there are eth0"] {
            assert!(entry.message.contains(word), "{entry:?}");
        }
        interfaces_are(
            &cluster,
            json!([{ "name": "eth0", "nodeSelector": second }]),
        )
        .await;
        eventually("n3 has no entry in the list", SOON, async || {
            let entry = cluster.entry("n3").await?;
            entry
                .message
                .contains("no entry of spec.interfaces")
                .then_some(())
        })
        .await;
        interfaces_are(&cluster, json!([])).await;
        says(&cluster, "n3", "Ready").await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

async fn interfaces_are(cluster: &AnnounceCluster, interfaces: Value) {
    let patch = Patch::Merge(json!({ "spec": { "interfaces": interfaces } }));
    Api::<L2Network>::all(cluster.netlab.admin.clone())
        .patch(NETWORK, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn is_on(cluster: &AnnounceCluster, node: &str, interface: &str) -> SegmentNode {
    eventually(&format!("{node} is on {interface}"), SOON, async || {
        let entry = cluster.entry(node).await;
        match entry {
            Some(entry) if entry.ready && entry.interface.as_deref() == Some(interface) => {
                Ok(entry)
            }
            other => Err(other),
        }
    })
    .await
}

async fn says(cluster: &AnnounceCluster, node: &str, reason: &str) -> SegmentNode {
    eventually(
        &format!("{node} says {reason}"),
        SOON,
        async || match cluster.entry(node).await {
            Some(entry) if entry.reason == reason => Ok(entry),
            other => Err(other),
        },
    )
    .await
}
