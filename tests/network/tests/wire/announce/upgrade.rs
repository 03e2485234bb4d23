//! A daemon is replaced by another one on the same node, of this version or of a former one: nothing moves,
//! and nobody is told anything.

use std::path::Path;
use std::time::{Duration, Instant};

use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::figures::figure_time;
use mooring_test_support::program::Program;
use mooring_test_support::wait::{eventually, never};

use crate::announce::cluster::{Addresses, AnnounceCluster, NODES, SOON};

#[test]
fn an_update_of_the_daemon_moves_nothing() {
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&[]).await;
        let (web, speaker) = announced_quietly(&cluster).await;
        let quiet = Instant::now();
        for turn in 0..2 {
            let next = Program::Node.path().unwrap();
            update(&mut cluster, web, &speaker, &speaker, &next, turn).await;
            let told = cluster.entry(&speaker).await.unwrap();
            assert_eq!(told.addresses.len(), 2, "{told:?}");
        }
        assert_unmoved(&cluster, web, &speaker, quiet).await;
    });
}

/// `FORMER` is the folder of its two programs. There and back: each pair of versions meets on the segment, and
/// each of daemon and central.
#[test]
#[ignore = "make test-former"]
fn a_former_version_and_this_one_take_over_from_each_other() {
    let former = std::env::var("FORMER").expect("make test-former builds it, and says where it is");
    let former = Path::new(&former);
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&[]).await;
        let (web, speaker) = announced_quietly(&cluster).await;
        let quiet = Instant::now();
        let here = Program::Node.path().unwrap();
        let here = here.parent().unwrap();
        for (turn, programs) in [former, here].into_iter().enumerate() {
            for (number, node) in NODES.into_iter().enumerate() {
                let next = programs.join(Program::Node.file_name());
                update(&mut cluster, web, &speaker, node, &next, turn).await;
                if number == 0 {
                    let central = programs.join(Program::Central.file_name());
                    cluster.replace_central(&central).await;
                }
            }
            // What is new is served by both.
            let other = Addresses::number(101 + u8::try_from(turn).unwrap());
            let name = format!("of-{turn}");
            let asked = Instant::now();
            cluster.pod(&name, "n2").await;
            cluster.service(&name, other, false).await;
            cluster.announced(other.v4, asked).await;
            cluster.all_vote().await;
        }
        assert_unmoved(&cluster, web, &speaker, quiet).await;
    });
}

/// A Service whose addresses are announced, and the node that speaks for them. The burst is over: what is
/// announced from now on is announced because of what the test does.
async fn announced_quietly(cluster: &AnnounceCluster) -> (Addresses, String) {
    cluster.pod("web", "n1").await;
    let start = Instant::now();
    let web = Addresses::number(100);
    cluster.service("web", web, false).await;
    let (_, speaker) = cluster.announced(web.v4, start).await;
    let speaker = speaker.name().to_owned();
    eventually("the last round of the burst", SOON, async || {
        let claims = cluster.claims(web.v4, start);
        let last = claims
            .last()
            .is_some_and(|last| last.at - claims[0].at >= Duration::from_millis(1950));
        last && claims.len() >= 15
    })
    .await;
    (web, speaker)
}

async fn assert_unmoved(cluster: &AnnounceCluster, web: Addresses, speaker: &str, quiet: Instant) {
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
}

/// The next daemon starts beside the last one, as with `maxSurge: 1`; then the last one is ended.
async fn update(
    cluster: &mut AnnounceCluster,
    web: Addresses,
    speaker: &str,
    updated: &str,
    program: &Path,
    turn: usize,
) {
    let node = cluster.netlab.node(updated);
    let mut spec = cluster.specs[updated].clone();
    spec.program = program.to_owned();
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
    let last = cluster.daemons.remove(updated).expect("it runs");
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
    let spoken = told.addresses.iter().map(|spoken| &*spoken.address);
    let spoken: Vec<&str> = spoken.collect();
    let wanted = web.both().map(|address| address.to_string());
    assert!(wanted.iter().all(|it| spoken.contains(&&**it)), "{told:?}");
    cluster.daemons.insert(updated.to_owned(), next);
}
