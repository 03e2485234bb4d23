//! A daemon is replaced by another one on the same node: nothing moves, and nobody is told anything.

use std::time::{Duration, Instant};

use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::figures::figure_time;
use mooring_test_support::wait::{eventually, never};

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};

#[test]
fn an_update_of_the_daemon_moves_nothing() {
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&[]).await;
        cluster.pod("web", "n1").await;
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        // The burst is over: what is announced from now on is announced because of the update.
        eventually("the last round of the burst", SOON, async || {
            let claims = cluster.claims(web.v4, start);
            let last = claims
                .last()
                .is_some_and(|last| last.at - claims[0].at >= Duration::from_millis(1950));
            last && claims.len() >= 15
        })
        .await;
        let quiet = Instant::now();
        for turn in 0..2 {
            update(&mut cluster, web, &speaker, turn).await;
        }
        let warnings = cluster.warnings();
        assert!(warnings.is_empty(), "{}", warnings.join("\n"));
        let mut heard = cluster.claimants(web.v4, quiet);
        heard.extend(cluster.claimants(web.v6, quiet));
        heard.dedup();
        assert_eq!(heard, [speaker], "one node speaks all the time");
        let told: Vec<_> = cluster
            .claims(web.v4, quiet)
            .into_iter()
            .filter(|claim| claim.unasked)
            .collect();
        assert!(told.is_empty(), "neighbours were told: {told:?}");
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// The next daemon starts beside the last one, as with `maxSurge: 1`; then the last one is ended.
async fn update(cluster: &mut AnnounceCluster, web: Addresses, speaker: &str, turn: usize) {
    let node = cluster.netlab.node(speaker);
    let mut spec = cluster.specs[speaker].clone();
    spec.log.set_extension(format!("{turn}.log"));
    let next = node.start(spec).unwrap();
    eventually("it waits for the end of the last one", SOON, async || {
        let readyz = node.get("http://127.0.0.1:10266/readyz").await?;
        anyhow::ensure!(readyz.status == 200, "{}", readyz.body);
        let log = next.log();
        anyhow::ensure!(log.contains("waiting until it ends"), "{log}");
        anyhow::ensure!(log.contains("the fence stands"), "{log}");
        anyhow::Ok(())
    })
    .await;
    let last = cluster.daemons.remove(speaker).expect("it runs");
    let ended = Instant::now();
    last.terminate().unwrap();
    let mut longest = Duration::ZERO;
    let mut heard_at = ended;
    never(
        "another answer, or none for long",
        SOON,
        async || {
            let answer = cluster.answered(web.v4).await;
            assert_eq!(answer, speaker);
            longest = longest.max(heard_at.elapsed());
            heard_at = Instant::now();
            next.log()
                .contains("going on for the daemon before this one")
                && ended.elapsed() > Duration::from_secs(2)
        },
        async || None::<String>,
    )
    .await;
    assert_eq!(last.wait_for_code(SOON).await, 0);
    figure_time("Longest time without an answer during an update", longest);
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    let told = cluster.entry(speaker).await.expect("it says what it does");
    assert_eq!(told.addresses.len(), 2, "{told:?}");
    cluster.daemons.insert(speaker.to_owned(), next);
}
