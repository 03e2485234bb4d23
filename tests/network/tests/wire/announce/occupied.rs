//! Another host has an address that a Service is given: it is told, and not fought.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use mooring_test_netlab::netlab::{Frame, Mac, in_netlab};
use mooring_test_support::wait::{eventually, never};

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};

/// As a kernel asks, or a node before the first use: from no address.
fn probes(frame: &Frame, target: Ipv4Addr) -> bool {
    let probes = |arp: &mooring_test_netlab::netlab::Arp| {
        arp.is_request && arp.sender == Ipv4Addr::UNSPECIFIED && arp.target == target
    };
    frame.arp().as_ref().is_some_and(probes)
}

fn set(cluster: &AnnounceCluster, verb: &str, addresses: Addresses) {
    let client = &cluster.netlab.client;
    let (v4, v6) = (addresses.v4, addresses.v6);
    client
        .ip(&format!("address {verb} {v4}/24 dev eth0"))
        .unwrap();
    let nodad = if verb == "add" { " nodad" } else { "" };
    client
        .ip(&format!("address {verb} {v6}/64 dev eth0{nodad}"))
        .unwrap();
}

#[test]
fn address_of_another_host_is_announced_once_that_has_given_it_up() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        cluster.pod("web", "n1").await;
        let (web, host) = (Addresses::number(108), cluster.netlab.client.mac());
        set(&cluster, "add", web);
        let start = Instant::now();
        cluster.service("web", web, false).await;
        for address in web.both() {
            let event = conflict(&cluster, address, host).await;
            assert!(event.contains("out of the ranges"), "{event}");
        }
        notices(&cluster, true).await;
        is_left_alone(&cluster, web, start).await;
        set(&cluster, "del", web);
        for address in web.both() {
            let (claim, _) = cluster.announced(address, start).await;
            assert_ne!(claim.mac, host);
        }
        three_questions_were_not_answered(&cluster, web.v4, (start, host));
        notices(&cluster, false).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// As where another implementation runs on the nodes: neighbours keep the MAC address that they know.
#[test]
fn node_that_answers_for_an_address_already_announces_it() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        cluster.pod("web", "n1").await;
        for (number, node) in [(101, "n1"), (102, "n2"), (103, "n3")] {
            let (name, web) = (format!("web-{number}"), Addresses::number(number));
            let host = cluster.netlab.node(node);
            host.ip(&format!("address add {}/32 dev eth0", web.v4))
                .unwrap();
            host.ip(&format!("address add {}/128 dev eth0 nodad", web.v6))
                .unwrap();
            let start = Instant::now();
            cluster.pod(&name, "n1").await;
            cluster.service(&name, web, false).await;
            for address in web.both() {
                let (claim, _) = cluster.announced(address, start).await;
                assert_eq!(claim.mac, host.mac(), "{address}");
                assert_eq!(cluster.claimants(address, start), [node]);
            }
        }
    });
}

async fn conflict(cluster: &AnnounceCluster, address: IpAddr, host: Mac) -> String {
    let words = format!("{host}, answers for {address} ");
    let event = cluster
        .told("Service", "web", "AddressConflict", &words)
        .await;
    assert_eq!(event.kind, "Warning");
    event.note
}

/// Whether one node says in the status of the L2Network that there is a conflict.
async fn notices(cluster: &AnnounceCluster, expected: bool) {
    let what = format!("a notice of a conflict: {expected}");
    eventually(&what, SOON, async || {
        let mut said = false;
        for node in ["n1", "n2", "n3"] {
            let entry = cluster.entry(node).await?;
            said |= entry
                .notices
                .iter()
                .any(|notice| notice == "AddressConflict");
        }
        (said == expected).then_some(())
    })
    .await;
}

/// No node claims the address, while another one is announced, and they go on asking.
async fn is_left_alone(cluster: &AnnounceCluster, web: Addresses, start: Instant) {
    cluster.pod("other", "n1").await;
    let (other, from) = (Addresses::number(109), Instant::now());
    cluster.service("other", other, false).await;
    for address in other.both() {
        cluster.announced(address, from).await;
    }
    let host = cluster.netlab.client.mac();
    never(
        "a claim of another host's address",
        SOON,
        async || {
            let frames = cluster.capture.since(from);
            let asked = frames.iter().filter(|frame| probes(frame, web.v4));
            asked.count() >= 10
        },
        async || {
            let claims = web
                .both()
                .into_iter()
                .flat_map(|at| cluster.claims(at, start));
            let mut ours = claims.filter(|claim| claim.mac != host);
            ours.next().map(|claim| format!("{claim:?}"))
        },
    )
    .await;
}

/// Who claimed had asked the host by its MAC address three times after its last answer.
fn three_questions_were_not_answered(
    cluster: &AnnounceCluster,
    address: Ipv4Addr,
    (start, host): (Instant, Mac),
) {
    let claims = cluster.claims(address, start);
    let last = claims.iter().rposition(|claim| claim.mac == host).unwrap();
    let first = &claims[last + 1];
    let frames = cluster.capture.since(claims[last].at);
    let asked: Vec<&Frame> = frames
        .iter()
        .filter(|frame| frame.at > claims[last].at && frame.at <= first.at)
        .filter(|frame| probes(frame, address) && frame.source() == Some(first.mac))
        .collect();
    let alone = asked
        .iter()
        .filter(|frame| frame.destination() == Some(host));
    assert!((3..=6).contains(&alone.count()), "{asked:#?}");
}
