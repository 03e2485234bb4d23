//! Addresses on the interface of the node that speaks for them: the kernel answers, and programs of the
//! node can have connections of their own there.

use std::time::{Duration, Instant};

use mooring_common::names::labels;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::Network;
use mooring_test_support::process::Process;
use mooring_test_support::wait::{eventually, never};
use serde_json::json;

use crate::announce::cluster::{Addresses, AnnounceCluster, NODES, SOON};

/// Where a program of each node listens, on all addresses that the node has.
const PORT: u16 = 8088;

#[test]
fn addresses_are_on_the_interface_of_their_speaker_alone() {
    in_netlab(async || {
        let network = Network::of_the_bridge().with_kernel_addresses();
        let mut cluster = AnnounceCluster::start_on(network, &[]).await;
        let mut listeners: Vec<Process> = Vec::new();
        for node in NODES {
            cluster.pod("web", node).await;
            let host = cluster.netlab.node(node);
            listeners.push(host.serve(PORT, node).await.unwrap());
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        only_on(&cluster, web, &speaker).await;
        the_kernel_answers(&cluster, web, &speaker).await;
        let speaker = a_drained_node_has_them_no_more(&cluster, web, &speaker).await;
        an_update_leaves_them(&mut cluster, web, &speaker).await;
        a_killed_daemon_leaves_nothing(&mut cluster, web, &speaker).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// The nodes with both addresses on their interface, and those with one of them.
fn having(cluster: &AnnounceCluster, web: Addresses) -> (Vec<String>, Vec<String>) {
    let (mut both, mut one) = (Vec::new(), Vec::new());
    for node in &cluster.netlab.nodes {
        let shown = node.ip("-o address show dev eth0").unwrap();
        let v4 = shown.contains(&format!(" {}/32 ", web.v4));
        let v6 = shown.contains(&format!(" {}/128 ", web.v6));
        match (v4, v6) {
            (true, true) => both.push(node.name().to_owned()),
            (false, false) => {}
            _ => one.push(node.name().to_owned()),
        }
    }
    (both, one)
}

/// Waits until this node has the addresses and no other has, and a program of it can be reached there.
async fn only_on(cluster: &AnnounceCluster, web: Addresses, node: &str) {
    eventually(&format!("{node} alone has them"), SOON, async || {
        let (both, one) = having(cluster, web);
        anyhow::ensure!(both == [node] && one.is_empty(), "{both:?}, {one:?}");
        anyhow::Ok(())
    })
    .await;
    for url in [
        format!("http://{}:{PORT}/", web.v4),
        format!("http://[{}]:{PORT}/", web.v6),
    ] {
        eventually(&format!("{node} is reached at {url}"), SOON, async || {
            let answer = cluster.netlab.client.get(&url).await?;
            anyhow::ensure!(answer.body == node, "{} answers", answer.body);
            anyhow::Ok(())
        })
        .await;
    }
}

/// Questions are answered, by the kernel: the daemon has heard them and says nothing.
async fn the_kernel_answers(cluster: &AnnounceCluster, web: Addresses, speaker: &str) {
    assert_eq!(cluster.answered(web.v4).await, speaker);
    assert_eq!(cluster.answered(web.v6).await, speaker);
    let node = cluster.netlab.node(speaker);
    let count = async |what: &str| {
        let metrics = node.get("http://127.0.0.1:10267/metrics").await.unwrap();
        let lines = metrics.body.lines().filter(|line| line.starts_with(what));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum::<u64>()
    };
    for (asked, answered) in [
        (
            "mooring_l2_arp_requests_total",
            "mooring_l2_arp_replies_total",
        ),
        (
            "mooring_l2_ndp_solicitations_total",
            "mooring_l2_ndp_advertisements_total",
        ),
    ] {
        eventually(&format!("{asked} counts"), SOON, async || {
            count(asked).await > 0
        })
        .await;
        assert_eq!(count(answered).await, 0, "{answered}");
    }
}

async fn a_drained_node_has_them_no_more(
    cluster: &AnnounceCluster,
    web: Addresses,
    speaker: &str,
) -> String {
    let start = Instant::now();
    let exclude = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: "true" });
    cluster.label_node(speaker, exclude).await;
    let (successor, _) = cluster.answered_by_another(web.v4, speaker, start).await;
    only_on(cluster, web, &successor).await;
    let include = json!({ labels::EXCLUDE_FROM_LOAD_BALANCERS: null });
    cluster.label_node(speaker, include).await;
    eventually("the node takes part again", SOON, async || {
        cluster.entry(speaker).await.filter(|entry| entry.ready)
    })
    .await;
    successor
}

/// The next daemon of the node takes the addresses over as they are: connections live on.
async fn an_update_leaves_them(cluster: &mut AnnounceCluster, web: Addresses, speaker: &str) {
    let node = cluster.netlab.node(speaker);
    let mut spec = cluster.specs[speaker].clone();
    spec.log.set_extension("next.log");
    let next = node.start(spec).unwrap();
    eventually("it waits for the end of the last one", SOON, async || {
        let log = next.log();
        log.contains("waiting until it ends") && log.contains("the fence stands")
    })
    .await;
    let last = cluster.daemons.remove(speaker).expect("it runs");
    let ended = Instant::now();
    last.terminate().unwrap();
    never(
        "an address goes from the interface during an update",
        SOON,
        async || {
            // For longer than an address lives that nobody renews.
            next.log()
                .contains("going on for the daemon before this one")
                && ended.elapsed() > Duration::from_secs(4)
        },
        async || {
            let (both, one) = having(cluster, web);
            (both != [speaker] || !one.is_empty()).then(|| format!("{both:?}, {one:?}"))
        },
    )
    .await;
    assert_eq!(last.wait_for_code(SOON).await, 0);
    cluster.daemons.insert(speaker.to_owned(), next);
}

/// SIGKILL: the kernel drops them by itself. The daemon that is started again has them only with the
/// right to them.
async fn a_killed_daemon_leaves_nothing(
    cluster: &mut AnnounceCluster,
    web: Addresses,
    speaker: &str,
) {
    let daemon = cluster.daemons.remove(speaker).expect("it runs");
    let start = Instant::now();
    daemon.kill();
    let (successor, _) = cluster.answered_by_another(web.v4, speaker, start).await;
    only_on(cluster, web, &successor).await;
    let node = cluster.netlab.node(speaker);
    let daemon = cluster.netlab.start_daemon(node, &[]).await.unwrap();
    cluster.daemons.insert(speaker.to_owned(), daemon);
    eventually("its voice is back", SOON * 2, async || {
        let answer = cluster.answered(web.v4).await;
        anyhow::ensure!(answer == speaker, "{answer}");
        anyhow::Ok(())
    })
    .await;
    only_on(cluster, web, speaker).await;

    // Killed and started at once: what was left is swept away.
    let daemon = cluster.daemons.remove(speaker).expect("it runs");
    daemon.kill();
    let daemon = cluster
        .netlab
        .start_daemon(cluster.netlab.node(speaker), &[])
        .await
        .unwrap();
    cluster.daemons.insert(speaker.to_owned(), daemon);
    eventually("one node alone has them", SOON * 2, async || {
        let (both, one) = having(cluster, web);
        let answer = cluster.answered(web.v4).await;
        anyhow::ensure!(both == [answer] && one.is_empty(), "{both:?}, {one:?}");
        anyhow::Ok(())
    })
    .await;
}
