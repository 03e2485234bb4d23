//! Addresses move when they should, at once where somebody can say so, and to one node only.

use std::time::{Duration, Instant};

use mooring_common::names::labels;
use mooring_tests::figures::figure_time;
use mooring_tests::netlab::in_world;
use mooring_tests::wait::{eventually, never};
use serde_json::json;

use crate::scene::{Addresses, SOON, Scene};

const LEASE: Duration = Duration::from_secs(3);

/// How long others may take to hear of something from the API server, and to act.
const AT_ONCE: Duration = Duration::from_millis(1500);

#[test]
fn addresses_move_when_they_should() {
    in_world(async || {
        let mut scene = Scene::set(&["--lease-duration=3s"]).await;
        for node in ["n1", "n2", "n3"] {
            scene.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        scene.service("web", web, false).await;
        let (_, speaker) = scene.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        let heir = an_excluded_node_hands_over(&scene, web, &speaker).await;
        it_comes_back(&scene, web, &speaker, &heir).await;
        a_local_service_follows_its_endpoint(&scene).await;
        let heir = a_daemon_that_ends_hands_over(&mut scene, web, &speaker).await;
        a_daemon_that_is_killed_is_outlived(&mut scene, web, &heir).await;
        scene.cluster.assert_nothing_was_refused().await;
    });
}

/// Waits for the announcement of another node than this one; gives it and the time.
async fn taken_over(
    scene: &Scene,
    web: Addresses,
    from: &str,
    since: Instant,
) -> (String, Instant) {
    let old = scene.cluster.node(from).mac();
    let claim = eventually("another node announces the address", SOON, async || {
        let claims = scene.claims(web.v4, since);
        claims
            .into_iter()
            .find(|claim| claim.unasked && claim.mac != old)
    })
    .await;
    let heir = scene.cluster.node_of(claim.mac).expect("one of ours");
    (heir.name().to_owned(), claim.at)
}

/// Once another has announced it, the old speaker is not heard again.
async fn only_the_heir_is_heard(scene: &Scene, web: Addresses, heir: &str, since: Instant) {
    // The two daemons hear of a change in either order, some milliseconds apart.
    let settled = since + Duration::from_millis(500);
    never(
        "two speakers",
        SOON,
        async || {
            let answers = [scene.answered(web.v4).await, scene.answered(web.v6).await];
            Instant::now() > settled + LEASE && answers == [heir, heir]
        },
        async || {
            let mut heard = scene.claimants(web.v4, settled);
            heard.extend(scene.claimants(web.v6, settled));
            heard.retain(|name| name != heir);
            (!heard.is_empty()).then(|| format!("heard after {heir} took over: {heard:?}"))
        },
    )
    .await;
}

async fn an_excluded_node_hands_over(scene: &Scene, web: Addresses, speaker: &str) -> String {
    let start = Instant::now();
    let exclude = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: "true" });
    scene.label_node(speaker, exclude).await;
    let (heir, at) = taken_over(scene, web, speaker, start).await;
    let took = at - start;
    figure_time("Hand-over of an address from an excluded node", took);
    assert!(took < AT_ONCE, "{took:?}");
    only_the_heir_is_heard(scene, web, &heir, at).await;
    heir
}

async fn it_comes_back(scene: &Scene, web: Addresses, speaker: &str, heir: &str) {
    let start = Instant::now();
    let include = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: null });
    scene.label_node(speaker, include).await;
    let (back, at) = taken_over(scene, web, heir, start).await;
    assert_eq!(back, speaker, "the same nodes choose the same speaker");
    only_the_heir_is_heard(scene, web, speaker, at).await;
}

/// `externalTrafficPolicy: Local`: the address is where an endpoint is.
async fn a_local_service_follows_its_endpoint(scene: &Scene) {
    let local = Addresses::number(103);
    scene.pod("local", "n2").await;
    let start = Instant::now();
    scene.service("local", local, true).await;
    scene.announced_by("n2", local.v4, start).await;
    scene.pod("local", "n3").await;
    let moved = Instant::now();
    scene.delete_pod("local", "n2").await;
    let at = scene.announced_by("n3", local.v4, moved).await;
    figure_time(
        "Move of a Local Service's address after its endpoint",
        at - moved,
    );
    assert!(at - moved < AT_ONCE, "{:?}", at - moved);
    only_the_heir_is_heard(scene, local, "n3", at).await;
    scene.delete_service("local").await;
}

/// SIGTERM: the Lease is released, and another takes over at once.
async fn a_daemon_that_ends_hands_over(scene: &mut Scene, web: Addresses, speaker: &str) -> String {
    let daemon = scene.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    daemon.terminate().unwrap();
    let (heir, at) = taken_over(scene, web, speaker, start).await;
    let took = at - start;
    figure_time("Hand-over of an address at SIGTERM", took);
    assert!(
        took < AT_ONCE,
        "{took:?}: it waited for the Lease to expire"
    );
    assert_eq!(daemon.wait_for_code(SOON).await, 0);
    only_the_heir_is_heard(scene, web, &heir, at).await;
    heir
}

/// SIGKILL: the others wait for the Lease to expire, no shorter and not much longer.
async fn a_daemon_that_is_killed_is_outlived(scene: &mut Scene, web: Addresses, speaker: &str) {
    let daemon = scene.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    daemon.kill();
    let (heir, at) = taken_over(scene, web, speaker, start).await;
    let took = at - start;
    figure_time(
        "Take-over of an address after SIGKILL, with a Lease of 3 s",
        took,
    );
    // It was renewed at most a third of its duration before.
    assert!(
        took >= LEASE * 2 / 3 - Duration::from_millis(200),
        "{took:?}: too early"
    );
    assert!(took <= LEASE + AT_ONCE, "{took:?}: too late");
    only_the_heir_is_heard(scene, web, &heir, at).await;
}
