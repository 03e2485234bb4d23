//! A Node that is drained says so to load balancers before its addresses move, and never says anything
//! else afterwards.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use mooring_test_cluster::shipped::{CENTRAL_USER, NODE_USER};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::Network;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::announce::cluster::{Addresses, AnnounceCluster, NODES, SOON};

#[test]
fn a_node_that_drains_is_unhealthy_before_another_one_speaks() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        for node in ["n1", "n2"] {
            cluster.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, true).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        let node = cluster.netlab.node(&speaker);
        let paths = ["/healthz", "/services/app/web"];
        let asked = async |path: &str| {
            let begun = Instant::now();
            let answer = node.get(&format!("http://127.0.0.1:10266{path}")).await;
            (begun, answer.unwrap().status)
        };
        for path in paths {
            eventually(&format!("{path} is healthy"), SOON, async || {
                asked(path).await.1 == 200
            })
            .await;
        }

        let healthy = Mutex::new(None);
        let drained = Instant::now();
        let ask = async {
            loop {
                for path in paths {
                    let (begun, status) = asked(path).await;
                    if status == 200 {
                        *healthy.lock().unwrap() = Some((path, begun));
                    }
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let move_away = async {
            let excluded =
                json!({"node.kubernetes.io/exclude-from-external-load-balancers": "true"});
            cluster.label_node(&speaker, excluded).await;
            let moved = cluster.answered_by_another(web.v4, &speaker, drained).await;
            for path in paths {
                assert_eq!(asked(path).await.1, 503, "{path}");
            }
            moved
        };
        let (other, at) = tokio::select! {
            moved = move_away => moved,
            () = ask => unreachable!("it asks for ever"),
        };
        let mut others = cluster.claims(web.v4, drained).into_iter();
        let own = node.mac();
        let first = others
            .find(|claim| claim.mac != own)
            .map_or(at, |claim| claim.at);
        let last = healthy.into_inner().unwrap();
        if let Some((path, begun)) = last {
            assert!(
                begun < first,
                "{path} was healthy {:?} after {other} began to speak",
                begun - first
            );
        }
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// Long enough for the hand-over before.
const MAINTENANCE: SignedDuration = SignedDuration::from_secs(15);

#[test]
fn a_node_speaks_again_once_its_maintenance_has_ended() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        for node in ["n1", "n2"] {
            cluster.pod("web", node).await;
        }
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, true).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        let speaker = speaker.name().to_owned();
        let maintained = async |value: &str| {
            let annotation = json!({ "mooring.dev/maintenance": value });
            cluster.annotate_node(&speaker, annotation).await;
        };
        let says = async |words: &str| {
            eventually(&format!("{speaker} says {words}"), SOON, async || {
                let entry = cluster.entry(&speaker).await?;
                (entry.reason == "Draining" && entry.message.contains(words)).then_some(())
            })
            .await;
        };

        let drained = Instant::now();
        let end = Timestamp::now() + MAINTENANCE;
        maintained(&format!("until={end}")).await;
        let (other, _) = cluster.answered_by_another(web.v4, &speaker, drained).await;
        says(&format!("until {end}")).await;
        eventually("the node takes part again", SOON * 2, async || {
            cluster.entry(&speaker).await.filter(|entry| entry.ready)
        })
        .await;
        assert!(Timestamp::now() >= end, "too early");
        // The annotation is still there, and the node takes what the other cannot serve any more.
        let moved = Instant::now();
        cluster.delete_pod("web", &other).await;
        cluster.announced_by(&speaker, web.v4, moved).await;

        // Nobody knows when a duration began: it lasts until somebody corrects it, and is told.
        cluster.pod("web", &other).await;
        let drained = Instant::now();
        maintained("until=2h").await;
        cluster.answered_by_another(web.v4, &speaker, drained).await;
        says("\"until=2h\" names no time").await;
        cluster
            .told("Node", &speaker, "MaintenanceUnreadable", "until=2h")
            .await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// As on a cluster that kubeadm has made of control plane Nodes alone, with the chart's default: no cloud.
#[test]
fn nodes_that_are_all_excluded_speak_where_the_network_says_so() {
    in_netlab(async || {
        let network = Network::of_the_bridge().with_excluded_nodes();
        let cluster = AnnounceCluster::start_without_cloud(network).await;
        for node in NODES {
            let excluded = json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""});
            cluster.label_node(node, excluded).await;
        }
        cluster.pod("web", "n1").await;
        let start = Instant::now();
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        let (_, speaker) = cluster.announced(web.v4, start).await;
        // One that is drained otherwise hands over all the same.
        let speaker = speaker.name().to_owned();
        let drained = Instant::now();
        cluster
            .annotate_node(&speaker, json!({"mooring.dev/maintenance": ""}))
            .await;
        cluster.answered_by_another(web.v4, &speaker, drained).await;
        let log = cluster.netlab.audit_settled().await;
        for user in [CENTRAL_USER, NODE_USER] {
            let written = log.writes_by(user).of("nodes");
            let written = written.filter(|record| !record.uri.contains("dryRun=All"));
            assert!(written.is_empty(), "{user}: {}", written.summary());
        }
        cluster.netlab.assert_nothing_refused().await;
    });
}
