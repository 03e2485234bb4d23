//! While the API server is away, nothing moves that need not, and what must still does.

use std::time::{Duration, Instant};

use mooring_tests::netlab::in_world;
use mooring_tests::wait::{eventually, never};

use crate::announce::scene::{Addresses, SOON, Scene};

const LEASE: Duration = Duration::from_secs(2);

#[test]
fn case_18_and_19_nothing_moves_while_the_api_server_is_away_but_a_crash_is_survived() {
    in_world(async || {
        let mut scene = Scene::set(&["--lease-duration=2s"]).await;
        for node in ["n1", "n2", "n3"] {
            scene.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        scene.service("web", web, false).await;
        let (_, speaker) = scene.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();

        let before = scene.renewals().await;
        let away = Instant::now();
        scene.cluster.stop_api_server();
        stays(&scene, web, &speaker, away, async || {
            away.elapsed() > LEASE * 3
        })
        .await;
        let speaker = a_crash_is_survived(&mut scene, web, &speaker).await;
        let away = Instant::now();
        scene.cluster.start_api_server().await.unwrap();
        stays(&scene, web, &speaker, away, async || {
            let now = scene.renewals().await;
            now.len() == before.len() && now.iter().all(|(name, at)| before.get(name) != Some(at))
        })
        .await;
        // A peer is given a whole Lease again, and by then has renewed it.
        let back = Instant::now();
        stays(&scene, web, &speaker, away, async || {
            back.elapsed() > LEASE * 2
        })
        .await;

        // A change after the outage is heeded.
        scene.central_is_back().await;
        let restored = scene.cluster.now();
        scene.delete_service("web").await;
        eventually("the address falls silent", SOON, async || {
            let asked = Instant::now();
            scene.ask(web.v4);
            scene.answered(scene.cluster.node("n1").ipv4()).await;
            scene.claims(web.v4, asked).is_empty()
        })
        .await;
        // While it starts, an API server does not know its own roles, and refuses much.
        let log = scene.cluster.audit_settled().await;
        let refused = scene.cluster.shipped.forbidden(&log.since(restored));
        assert!(refused.is_empty(), "{}", refused.summary());
    });
}

/// The speaker's node crashes, and comes back with a daemon that has never seen the API server: it
/// goes by what the last one knew, and takes over when the other one crashes too.
async fn a_crash_is_survived(scene: &mut Scene, web: Addresses, speaker: &str) -> String {
    let heir = crash(scene, web, speaker).await;
    scene.cluster.node(speaker).plug_cable().unwrap();
    let node = scene.cluster.node(speaker);
    let daemon = node.start(scene.specs[speaker].clone()).unwrap();
    let started = Instant::now();
    eventually("it takes part without the API server", SOON, async || {
        let metrics = node.get("http://127.0.0.1:10267/metrics").await?;
        let joined = "l2_transitions_total{segment=\"lab\",transition=\"joined\"} 1";
        anyhow::ensure!(metrics.body.contains(joined), "{}", metrics.body);
        anyhow::Ok(())
    })
    .await;
    // Two seconds, and what a machine takes that has more to do than it can.
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    scene.daemons.insert(speaker.to_owned(), daemon);
    let next = crash(scene, web, &heir).await;
    scene.cluster.node(&heir).plug_cable().unwrap();
    let daemon = scene
        .cluster
        .node(&heir)
        .start(scene.specs[&heir].clone())
        .unwrap();
    scene.daemons.insert(heir, daemon);
    next
}

/// A node loses its cable, and its daemon is killed; gives who answers then.
async fn crash(scene: &mut Scene, web: Addresses, speaker: &str) -> String {
    let daemon = scene.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    scene.cluster.node(speaker).pull_cable().unwrap();
    daemon.kill();
    let (heir, at) = scene.answered_by_another(web.v4, speaker, start).await;
    assert!(at - start < Duration::from_secs(1), "{:?}", at - start);
    heir
}

/// The address is answered for all the time, by the same node only.
async fn stays(
    scene: &Scene,
    web: Addresses,
    speaker: &str,
    since: Instant,
    mut marker: impl AsyncFnMut() -> bool,
) {
    never(
        "another speaker, or none",
        SOON * 2,
        async || {
            let answers = [scene.answered(web.v4).await, scene.answered(web.v6).await];
            assert_eq!(answers, [speaker, speaker]);
            marker().await
        },
        async || {
            let mut heard = scene.claimants(web.v4, since);
            heard.extend(scene.claimants(web.v6, since));
            heard.retain(|name| name != speaker);
            (!heard.is_empty()).then(|| format!("{heard:?} spoke too"))
        },
    )
    .await;
}
