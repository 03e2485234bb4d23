//! While the API server is away, nothing moves that need not, and what must still does.

use std::time::{Duration, Instant};

use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::wait::{eventually, never};

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};

const LEASE: Duration = Duration::from_secs(2);

#[test]
fn case_18_and_19_nothing_moves_while_the_api_server_is_away_but_a_crash_is_survived() {
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&["--lease-duration=2s"]).await;
        for node in ["n1", "n2", "n3"] {
            cluster.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();

        let before = cluster.renewals().await;
        let away = Instant::now();
        cluster.netlab.stop_api_server();
        stays(&cluster, web, &speaker, away, async || {
            away.elapsed() > LEASE * 3
        })
        .await;
        let speaker = a_crash_is_survived(&mut cluster, web, &speaker).await;
        let away = Instant::now();
        cluster.netlab.start_api_server().await.unwrap();
        stays(&cluster, web, &speaker, away, async || {
            let now = cluster.renewals().await;
            now.len() == before.len() && now.iter().all(|(name, at)| before.get(name) != Some(at))
        })
        .await;
        // A peer is given a whole Lease again, and by then has renewed it.
        let back = Instant::now();
        stays(&cluster, web, &speaker, away, async || {
            back.elapsed() > LEASE * 2
        })
        .await;

        it_is_told_once(&cluster);

        // A change after the outage is heeded.
        cluster.central_is_back().await;
        let restored = cluster.netlab.now();
        cluster.delete_service("web").await;
        eventually("the address falls silent", SOON, async || {
            let asked = Instant::now();
            cluster.ask(web.v4);
            cluster.answered(cluster.netlab.node("n1").ipv4()).await;
            cluster.claims(web.v4, asked).is_empty()
        })
        .await;
        // While it starts, an API server does not know its own roles, and refuses much.
        let log = cluster.netlab.audit_settled().await;
        let refused = cluster.netlab.shipped.forbidden(&log.since(restored));
        assert!(refused.is_empty(), "{}", refused.summary());
    });
}

/// However long it lasts, and however often that is found: by watches, requests, renewals of the Lease.
fn it_is_told_once(cluster: &AnnounceCluster) {
    for (name, daemon) in &cluster.daemons {
        let log = daemon.log();
        let told = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        // The log is that of the daemon before it too.
        let away = told("API server cannot be reached");
        assert!((1..=2).contains(&away), "{name}: {away} times");
        assert!(told("not renewed") <= away, "{name}");
        assert_eq!(told("API server can be reached again"), 1, "{name}");
        assert_eq!(told("watch refused"), 0, "{name}");
        assert_eq!(told("watch interrupted"), 0, "{name}");
    }
}

/// The speaker's node crashes, and comes back with a daemon that has never seen the API server: it
/// goes by what the last one knew, and takes over when the other one crashes too.
async fn a_crash_is_survived(
    cluster: &mut AnnounceCluster,
    web: Addresses,
    speaker: &str,
) -> String {
    let successor = crash(cluster, web, speaker).await;
    cluster.netlab.node(speaker).plug_cable().unwrap();
    let node = cluster.netlab.node(speaker);
    let daemon = node.start(cluster.specs[speaker].clone()).unwrap();
    let started = Instant::now();
    eventually("it takes part without the API server", SOON, async || {
        let metrics = node.get("http://127.0.0.1:10267/metrics").await?;
        let joined = "mooring_l2_transitions_total{segment=\"lab\",transition=\"joined\"} 1";
        anyhow::ensure!(metrics.body.contains(joined), "{}", metrics.body);
        anyhow::Ok(())
    })
    .await;
    // Two seconds, and what a machine takes that has more to do than it can.
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
    cluster.daemons.insert(speaker.to_owned(), daemon);
    let next = crash(cluster, web, &successor).await;
    cluster.netlab.node(&successor).plug_cable().unwrap();
    let daemon = cluster
        .netlab
        .node(&successor)
        .start(cluster.specs[&successor].clone())
        .unwrap();
    cluster.daemons.insert(successor, daemon);
    next
}

/// A node loses its cable, and its daemon is killed; gives who answers then.
async fn crash(cluster: &mut AnnounceCluster, web: Addresses, speaker: &str) -> String {
    let daemon = cluster.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    cluster.netlab.node(speaker).pull_cable().unwrap();
    daemon.kill();
    let (successor, at) = cluster.answered_by_another(web.v4, speaker, start).await;
    assert!(at - start < Duration::from_secs(1), "{:?}", at - start);
    successor
}

/// The address is answered for all the time, by the same node only.
async fn stays(
    cluster: &AnnounceCluster,
    web: Addresses,
    speaker: &str,
    since: Instant,
    mut marker: impl AsyncFnMut() -> bool,
) {
    never(
        "another speaker, or none",
        SOON * 2,
        async || {
            let answers = [
                cluster.answered(web.v4).await,
                cluster.answered(web.v6).await,
            ];
            assert_eq!(answers, [speaker, speaker]);
            marker().await
        },
        async || {
            let mut heard = cluster.claimants(web.v4, since);
            heard.extend(cluster.claimants(web.v6, since));
            heard.retain(|name| name != speaker);
            (!heard.is_empty()).then(|| format!("{heard:?} spoke too"))
        },
    )
    .await;
}
