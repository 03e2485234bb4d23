//! One address from its first frame to its last: who speaks, what is said, and who is silent.

use std::net::IpAddr;
use std::time::Instant;

use mooring_tests::netlab::in_world;
use mooring_tests::wait::{eventually, never};

use crate::announce::notices;
use crate::announce::scene::{Addresses, SOON, Scene};
use crate::announce::sound;

#[test]
fn an_address_is_announced_and_answered_from_one_mac() {
    in_world(async || {
        let scene = Scene::set(&[]).await;
        for node in ["n1", "n2", "n3"] {
            scene.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        scene.service("web", web, false).await;
        let (_, speaker) = scene.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        sound::burst_follows_the_schedule(&scene, web, start).await;
        sound::questions_are_answered(&scene, web, &speaker).await;
        sound::others_are_silent(&scene, web, &speaker).await;
        no_interface_has_it(&scene, web);
        for address in web.both() {
            assert_eq!(scene.claimants(address, start), [speaker.as_str()]);
        }
        one_voice(&scene, web, start);
        notices::announcement_is_told(&scene, &speaker).await;
        addresses_are_spread(&scene, &speaker).await;
        notices::a_foreign_station_is_reported(&scene, web, &speaker).await;
        notices::a_missing_parent_is_told(&scene).await;
        silence_after_deletion(&scene, web).await;
        scene.cluster.assert_nothing_refused().await;
    });
}

/// Whoever says it is the station whose frame it is.
fn one_voice(scene: &Scene, web: Addresses, start: Instant) {
    for address in web.both() {
        for claim in scene.claims(address, start) {
            assert_eq!(claim.mac, claim.source, "{address}");
        }
    }
}

/// It lives in the daemon alone: the kernel knows nothing of it.
fn no_interface_has_it(scene: &Scene, web: Addresses) {
    for node in &scene.cluster.nodes {
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
async fn addresses_are_spread(scene: &Scene, speaker: &str) {
    let start = Instant::now();
    let mut speakers = std::collections::BTreeSet::from([speaker.to_owned()]);
    for number in [101, 102, 103, 104] {
        let (name, addresses) = (format!("other-{number}"), Addresses::number(number));
        scene.pod(&name, "n1").await;
        scene.service(&name, addresses, false).await;
        let (_, node) = scene.announced(addresses.v4, start).await;
        speakers.insert(node.name().to_owned());
    }
    assert!(speakers.len() > 1, "{speakers:?} have all five addresses");
}

/// A deleted Service is not spoken for, while others are.
async fn silence_after_deletion(scene: &Scene, web: Addresses) {
    scene.delete_service("web").await;
    // Daemons hear of it by their watch, a moment after it is gone.
    for address in web.both() {
        eventually(&format!("{address} falls silent"), SOON, async || {
            let asked = Instant::now();
            scene.ask(address);
            scene.answered(Addresses::number(101).v4).await;
            scene.claims(address, asked).is_empty()
        })
        .await;
    }
    let silent = Instant::now();
    for address in web.both() {
        scene.ask(address);
    }
    let others = Addresses::number(103).both();
    never(
        "an answer for a deleted Service",
        SOON,
        async || {
            scene.answered(others[0]).await;
            scene.answered(others[1]).await;
            true
        },
        async || {
            let claims: Vec<_> = web
                .both()
                .into_iter()
                .flat_map(|address: IpAddr| scene.claims(address, silent))
                .collect();
            (!claims.is_empty()).then(|| format!("{claims:?}"))
        },
    )
    .await;
}
