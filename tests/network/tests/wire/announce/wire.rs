//! One address from its first frame to its last: who speaks, what is said, and who is silent.

use std::net::IpAddr;
use std::time::Instant;

use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::wait::{eventually, never};

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};
use crate::announce::notices;
use crate::announce::sound;

#[test]
fn an_address_is_announced_and_answered_from_one_mac() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        for node in ["n1", "n2", "n3"] {
            cluster.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        sound::burst_follows_the_schedule(&cluster, web, start).await;
        sound::questions_are_answered(&cluster, web, &speaker).await;
        sound::others_are_silent(&cluster, web, &speaker).await;
        no_interface_has_it(&cluster, web);
        for address in web.both() {
            assert_eq!(cluster.claimants(address, start), [speaker.as_str()]);
        }
        one_voice(&cluster, web, start);
        notices::announcement_is_told(&cluster, &speaker).await;
        addresses_are_spread(&cluster, &speaker).await;
        notices::a_foreign_station_is_reported(&cluster, web, &speaker).await;
        notices::a_missing_parent_is_told(&cluster).await;
        silence_after_deletion(&cluster, web).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// Whoever says it is the station whose frame it is.
fn one_voice(cluster: &AnnounceCluster, web: Addresses, start: Instant) {
    for address in web.both() {
        for claim in cluster.claims(address, start) {
            assert_eq!(claim.mac, claim.source, "{address}");
        }
    }
}

/// It lives in the daemon alone: the kernel knows nothing of it.
fn no_interface_has_it(cluster: &AnnounceCluster, web: Addresses) {
    for node in &cluster.netlab.nodes {
        let text = node.ip("-oneline address show").unwrap();
        for address in web.both() {
            let line = format!(" {address}/");
            assert!(
                !text.contains(&line),
                "{} has {address}:\n{text}",
                node.name()
            );
        }
    }
}

/// The addresses are shared among the nodes.
async fn addresses_are_spread(cluster: &AnnounceCluster, speaker: &str) {
    let start = Instant::now();
    let mut speakers = std::collections::BTreeSet::from([speaker.to_owned()]);
    for number in [101, 102, 103, 104] {
        let (name, addresses) = (format!("other-{number}"), Addresses::number(number));
        cluster.pod(&name, "n1").await;
        cluster.service(&name, addresses, false).await;
        let (_, node) = cluster.announced(addresses.v4, start).await;
        speakers.insert(node.name().to_owned());
    }
    assert!(speakers.len() > 1, "{speakers:?} have all five addresses");
}

/// A deleted Service is not spoken for, while others are.
async fn silence_after_deletion(cluster: &AnnounceCluster, web: Addresses) {
    cluster.delete_service("web").await;
    // Daemons hear of it by their watch, a moment after it is gone.
    for address in web.both() {
        eventually(&format!("{address} falls silent"), SOON, async || {
            let asked = Instant::now();
            cluster.ask(address);
            cluster.answered(Addresses::number(101).v4).await;
            cluster.claims(address, asked).is_empty()
        })
        .await;
    }
    let silent = Instant::now();
    for address in web.both() {
        cluster.ask(address);
    }
    let others = Addresses::number(103).both();
    never(
        "an answer for a deleted Service",
        SOON,
        async || {
            cluster.answered(others[0]).await;
            cluster.answered(others[1]).await;
            true
        },
        async || {
            let claims: Vec<_> = web
                .both()
                .into_iter()
                .flat_map(|address: IpAddr| cluster.claims(address, silent))
                .collect();
            (!claims.is_empty()).then(|| format!("{claims:?}"))
        },
    )
    .await;
}
