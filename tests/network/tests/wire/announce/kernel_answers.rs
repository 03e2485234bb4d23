//! A node's kernel that answers for service addresses by itself, as with kube-proxy in IPVS mode without
//! strictARP: what it answers for, and that it is told.

use std::time::Instant;

use mooring_common::names::reasons;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::NETWORK;
use mooring_test_support::wait::eventually;

use crate::announce::cluster::{Addresses, AnnounceCluster, NODES, SOON};

#[test]
fn a_kernel_that_answers_for_the_addresses_of_another_node_is_told() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        cluster.pod("web", "n1").await;
        let (start, web) = (Instant::now(), Addresses::number(100));
        cluster.service("web", web, false).await;
        let (_, host) = cluster.announced(web.v4, start).await;
        let speaker = host.name().to_owned();
        let other = NODES.into_iter().find(|node| *node != speaker).unwrap();
        let host = cluster.netlab.node(other);
        // As kube-proxy leaves it: the interface is not set up. Its kind does not matter.
        for command in [
            "link add kube-ipvs0 type bridge".to_owned(),
            format!("address add {}/32 dev kube-ipvs0", web.v4),
            format!("address add {}/128 dev kube-ipvs0 nodad", web.v6),
        ] {
            host.ip(&command).unwrap();
        }
        let (second, _) = cluster
            .answered_by_another(web.v4, &speaker, Instant::now())
            .await;
        assert_eq!(second, other, "its kernel answers for IPv4");
        let words = "ipvs.strictARP: true";
        let told = cluster.told("L2Network", NETWORK, reasons::KERNEL_ANSWERS, words);
        let note = told.await.note;
        assert!(
            note.contains(&format!("Node {other} ")) && note.contains(&web.v4.to_string()),
            "{note}"
        );
        notice_is(&cluster, other, true).await;
        assert!(!note.contains(&web.v6.to_string()), "{note}");
        answered_by_speaker_alone(&cluster, web.v6, &speaker).await;

        // What strictARP sets.
        host.set("net/ipv4/conf/all/arp_ignore", "1").unwrap();
        notice_is(&cluster, other, false).await;
        answered_by_speaker_alone(&cluster, web.v4, &speaker).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

async fn notice_is(cluster: &AnnounceCluster, node: &str, there: bool) {
    let what = format!("the entry of {node} has the notice: {there}");
    eventually(&what, SOON, async || {
        let notices = cluster.entry(node).await.unwrap_or_default().notices;
        let is_there = notices.iter().any(|notice| notice == "KernelAnswers");
        anyhow::ensure!(is_there == there, "{notices:?}");
        Ok(())
    })
    .await;
}

/// Asked several times, so that whoever else would answer has had the time to.
async fn answered_by_speaker_alone(
    cluster: &AnnounceCluster,
    address: impl Into<std::net::IpAddr>,
    speaker: &str,
) {
    let (address, asked) = (address.into(), Instant::now());
    for _ in 0..3 {
        assert_eq!(cluster.answered(address).await, speaker);
    }
    assert_eq!(cluster.claimants(address, asked), [speaker]);
}
