//! What a status claims that central cannot have given: the daemons do not answer for it.

use std::net::Ipv4Addr;
use std::time::Instant;

use kube::api::{Patch, PatchParams};
use mooring_common::names::annotations;
use mooring_test_cluster::objects::ServiceBuilder;
use mooring_test_netlab::netlab::{Netlab, in_netlab};
use mooring_test_netlab::netlab_cluster::NETWORK;
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use crate::announce::cluster::{APP, Addresses, AnnounceCluster, NODES, SOON};

/// Writes a Service with this address in its status, and with this record beside it, as somebody does
/// who may write both.
async fn claim(cluster: &AnnounceCluster, name: &str, address: Ipv4Addr, record: Ipv4Addr) {
    cluster.pod(name, "n1").await;
    ServiceBuilder::load_balancer(APP, name)
        .port(80, 8080)
        .selector("app", name)
        .annotation(annotations::ALLOCATED_NETWORK, NETWORK)
        .annotation(annotations::ALLOCATED_ADDRESSES, &record.to_string())
        .create(&cluster.netlab.admin)
        .await
        .unwrap();
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } });
    cluster
        .services()
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[test]
fn nobody_answers_for_a_routers_a_nodes_or_a_strangers_address() {
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&[]).await;
        // It would correct the status.
        cluster.stop_central();
        let n2 = Ipv4Addr::new(10, 77, 0, 12);
        let stranger = Ipv4Addr::new(10, 77, 0, 200);
        let given = Addresses::number(105).v4;
        let start = Instant::now();
        claim(&cluster, "router", Netlab::GATEWAY_V4, Netlab::GATEWAY_V4).await;
        claim(&cluster, "node", n2, n2).await;
        claim(&cluster, "stranger", stranger, given).await;
        for (name, words) in [
            ("router", "the router"),
            ("node", "an address of Node n2"),
            ("stranger", "in no range"),
        ] {
            let event = cluster.told("Service", name, "AddressRefused", words).await;
            assert_eq!(event.kind, "Warning");
        }
        claim(&cluster, "given", given, given).await;
        cluster.announced(given, start).await;
        let macs = NODES.map(|node| cluster.netlab.node(node).mac());
        never(
            "an answer for an address that is another's",
            SOON,
            async || {
                for address in [Netlab::GATEWAY_V4, n2, stranger] {
                    cluster.ask(address);
                }
                cluster.answered(given).await;
                true
            },
            async || {
                let claims = [Netlab::GATEWAY_V4, n2, stranger]
                    .into_iter()
                    .flat_map(|address| {
                        let claims = cluster.claims(address, start);
                        claims.into_iter().map(move |claim| (address, claim))
                    });
                // The kernel of n2 answers for its own.
                let mut wrong = claims.filter(|(address, claim)| {
                    macs.contains(&claim.mac) && (*address != n2 || claim.mac != macs[1])
                });
                wrong.next().map(|wrong| format!("{wrong:?}"))
            },
        )
        .await;
        eventually("the status of each node says so too", SOON, async || {
            let entry = cluster.entry("n1").await?;
            let notices = entry.notices.iter();
            notices
                .into_iter()
                .find(|said| *said == "AddressRefused")
                .cloned()
        })
        .await;
    });
}
