//! Addresses move when they should, at once, and are with one node only.

use std::time::{Duration, Instant};

use mooring_common::names::labels;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::figures::figure_time;
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use crate::announce::cluster::{Addresses, AnnounceCluster, SOON};

/// How long others may take to hear of something from the API server, and to act.
const AT_ONCE: Duration = Duration::from_millis(1500);
/// How long nobody may answer after a crash.
const CRASH: Duration = Duration::from_secs(1);

#[test]
fn addresses_move_when_they_should() {
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&[]).await;
        for node in ["n1", "n2", "n3"] {
            cluster.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        let successor = an_excluded_node_hands_over(&cluster, web, &speaker).await;
        it_gets_nothing_back(&cluster, web, &speaker, &successor).await;
        a_local_service_follows_its_endpoint(&cluster).await;
        a_killed_daemon_is_outlived_and_gets_its_voice_back(&mut cluster, web, &successor).await;
        let next = a_daemon_that_ends_hands_over(&mut cluster, web, &successor).await;
        a_crashed_node_is_outlived(&mut cluster, web, &next).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// Waits for the announcement of another node than this one; gives it and the time.
async fn taken_over(
    cluster: &AnnounceCluster,
    web: Addresses,
    from: &str,
    since: Instant,
) -> (String, Instant) {
    let old = cluster.netlab.node(from).mac();
    let claim = eventually("another node announces the address", SOON, async || {
        let claims = cluster.claims(web.v4, since);
        claims
            .into_iter()
            .find(|claim| claim.unasked && claim.mac != old)
    })
    .await;
    let successor = cluster.netlab.node_of(claim.mac).expect("one of ours");
    (successor.name().to_owned(), claim.at)
}

/// Once another speaks, the old speaker is not heard again. The marker: everybody was asked after
/// that, several times, for longer than any right of the old one can have lasted.
async fn only_the_heir_is_heard(
    cluster: &AnnounceCluster,
    web: Addresses,
    successor: &str,
    since: Instant,
) {
    never(
        "two speakers",
        SOON,
        async || {
            let answers = [
                cluster.answered(web.v4).await,
                cluster.answered(web.v6).await,
            ];
            since.elapsed() > Duration::from_secs(2) && answers == [successor, successor]
        },
        async || {
            let mut heard = cluster.claimants(web.v4, since);
            heard.extend(cluster.claimants(web.v6, since));
            heard.retain(|name| name != successor);
            (!heard.is_empty()).then(|| format!("heard after {successor} took over: {heard:?}"))
        },
    )
    .await;
}

async fn an_excluded_node_hands_over(
    cluster: &AnnounceCluster,
    web: Addresses,
    speaker: &str,
) -> String {
    let start = Instant::now();
    let exclude = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: "true" });
    cluster.label_node(speaker, exclude).await;
    let (successor, at) = taken_over(cluster, web, speaker, start).await;
    let took = at - start;
    figure_time("Hand-over of an address from an excluded node", took);
    assert!(took < AT_ONCE, "{took:?}");
    only_the_heir_is_heard(cluster, web, &successor, at).await;
    successor
}

/// Every move breaks connections, so an address stays where it is once the node is back.
async fn it_gets_nothing_back(
    cluster: &AnnounceCluster,
    web: Addresses,
    speaker: &str,
    successor: &str,
) {
    let start = Instant::now();
    let include = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: null });
    cluster.label_node(speaker, include).await;
    eventually("the node takes part again", SOON, async || {
        cluster.entry(speaker).await.filter(|entry| entry.ready)
    })
    .await;
    only_the_heir_is_heard(cluster, web, successor, start).await;
}

/// `externalTrafficPolicy: Local`: the address is where an endpoint is.
async fn a_local_service_follows_its_endpoint(cluster: &AnnounceCluster) {
    let local = Addresses::number(103);
    cluster.pod("local", "n2").await;
    let start = Instant::now();
    cluster.service("local", local, true).await;
    cluster.announced_by("n2", local.v4, start).await;
    cluster.pod("local", "n3").await;
    let moved = Instant::now();
    cluster.delete_pod("local", "n2").await;
    let at = cluster.announced_by("n3", local.v4, moved).await;
    figure_time(
        "Move of a Local Service's address after its endpoint",
        at - moved,
    );
    assert!(at - moved < AT_ONCE, "{:?}", at - moved);
    only_the_heir_is_heard(cluster, local, "n3", at).await;
    cluster.delete_service("local").await;
}

/// SIGKILL of the daemon alone: its node forwards on, so another only answers in its place, and no
/// neighbour that knows it is told. The next daemon there gets the voice back.
async fn a_killed_daemon_is_outlived_and_gets_its_voice_back(
    cluster: &mut AnnounceCluster,
    web: Addresses,
    speaker: &str,
) {
    let daemon = cluster.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    daemon.kill();
    let (successor, at) = cluster.answered_by_another(web.v4, speaker, start).await;
    let took = at - start;
    figure_time("Answers for an address after SIGKILL of the daemon", took);
    assert!(took <= CRASH, "{took:?}: too late");
    only_the_heir_is_heard(cluster, web, &successor, at).await;
    let unasked: Vec<_> = cluster
        .claims(web.v4, start)
        .into_iter()
        .filter(|claim| claim.unasked)
        .collect();
    assert!(unasked.is_empty(), "neighbours were told: {unasked:?}");

    let node = cluster.netlab.node(speaker);
    let daemon = cluster.netlab.start_daemon(node, &[]).await.unwrap();
    cluster.daemons.insert(speaker.to_owned(), daemon);
    eventually("its voice is back", SOON * 2, async || {
        let answer = cluster.answered(web.v4).await;
        if answer == speaker {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
}

/// SIGTERM: everything is handed over before the process ends.
async fn a_daemon_that_ends_hands_over(
    cluster: &mut AnnounceCluster,
    web: Addresses,
    speaker: &str,
) -> String {
    let daemon = cluster.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    daemon.terminate().unwrap();
    let (successor, at) = cluster.answered_by_another(web.v4, speaker, start).await;
    let took = at - start;
    figure_time("Hand-over of an address at SIGTERM", took);
    assert!(took < AT_ONCE, "{took:?}");
    assert_eq!(daemon.wait_for_code(SOON).await, 0);
    only_the_heir_is_heard(cluster, web, &successor, at).await;
    let node = cluster.netlab.node(speaker);
    let daemon = cluster.netlab.start_daemon(node, &[]).await.unwrap();
    cluster.daemons.insert(speaker.to_owned(), daemon);
    eventually("its voice is back", SOON * 2, async || {
        let answer = cluster.answered(web.v4).await;
        if answer == speaker {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
    speaker.to_owned()
}

/// The cable is pulled and the daemon killed in one moment: another tells everybody.
async fn a_crashed_node_is_outlived(cluster: &mut AnnounceCluster, web: Addresses, speaker: &str) {
    let daemon = cluster.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    cluster.netlab.node(speaker).pull_cable().unwrap();
    daemon.kill();
    let (successor, at) = taken_over(cluster, web, speaker, start).await;
    let took = at - start;
    figure_time("Take-over of an address after a node's crash", took);
    assert!(took <= CRASH, "{took:?}: too late");
    only_the_heir_is_heard(cluster, web, &successor, at).await;
}
