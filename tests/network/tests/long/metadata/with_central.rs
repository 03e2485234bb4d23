//! Both programs and a cloud: the daemon goes by its metadata, central by the cloud's listing.

use std::time::{Duration, Instant};

use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_common::names::{annotations, labels, reasons};
use mooring_test_cluster::cluster::{addresses, label, provider_id};
use mooring_test_cluster::shipped::{CENTRAL_USER, NODE_USER};
use mooring_test_netlab::metadata_sim::Machine;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::metadata::cluster::{LIMIT, MetadataCluster, annotation, asked_again};

/// Central would wait for an hour, but for the daemon's word that it leaves the Node to it. The
/// server is found by the ID that the daemon has written, although it was renamed.
#[test]
fn ni_02_what_the_daemon_leaves_central_does_at_once() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1"]).await;
        let cloud = CloudSim::start(Cloud::Cloudscale).await;
        let renamed = Server::named("renamed-in-the-panel").kind("flex-4-2");
        let id = cloud.add(renamed.public("5.102.144.1").private("10.0.0.1"));
        let uuid = id.trim_start_matches("cloudscale://");
        let service = cluster.service("n1", Machine::cloudscale(uuid, "n1")).await;
        let _central = cluster.central(&cloud, &["--node-daemon-grace=1h"]).await;
        let _daemon = cluster.daemon("n1", &[]).await;

        let node = cluster.initialized("n1").await;
        assert_eq!(provider_id(&node), Some(&*id));
        assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("flex-4-2"));
        assert_eq!(label(&node, labels::ZONE), Some("rma1"));
        let found = addresses(&node);
        for wanted in ["ExternalIP 5.102.144.1", "InternalIP 10.0.0.1"] {
            assert!(found.iter().any(|a| a == wanted), "{found:?}");
        }
        asked_again(&service, 3).await;
        let writes = cluster.written_on("n1").await;
        let by = |user| writes.iter().filter(|w| w.user == user).count();
        assert_eq!(
            (by(NODE_USER), by(CENTRAL_USER)),
            (1, 2),
            "{}",
            writes.summary()
        );
        assert_eq!(cluster.events("n1", reasons::SYNCED).await.len(), 1);

        // Central goes on to describe it, which corrects nobody.
        cloud.resize(&id, "flex-8-4");
        let resized = |node: &_| label(node, labels::INSTANCE_TYPE) == Some("flex-8-4");
        cluster.is("n1", "resized", resized).await;
        assert!(
            cluster
                .events("n1", reasons::FACTS_CORRECTED)
                .await
                .is_empty()
        );
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// A Linode of the type `g6-standard-4`, by its provider ID, and metadata that name another type.
fn a_linode_that_says_it_is(cloud: &CloudSim, kind: &str) -> (String, Machine) {
    let server = Server::named("n1").kind("g6-standard-4");
    let id = cloud.add(server.public("203.0.113.7"));
    let number = id.trim_start_matches("linode://").parse().unwrap();
    let says = Machine::linode(number, "n1").with("/instance/type", json!(kind));
    (id, says)
}

/// Metadata that contradict the cloud are overruled after the daemon's own time, with one Event,
/// and the daemon does not write against it.
#[test]
fn what_contradicts_the_cloud_is_corrected_once_and_the_daemon_leaves_it_so() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1"]).await;
        let cloud = CloudSim::start(Cloud::Linode).await;
        let (id, lie) = a_linode_that_says_it_is(&cloud, "a-lie");
        let service = cluster.service("n1", lie).await;
        let _daemon = cluster.daemon("n1", &[]).await;
        let node = cluster.initialized("n1").await;
        assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("a-lie"));
        assert!(!addresses(&node).contains(&"ExternalIP 203.0.113.7".to_owned()));

        let _central = cluster.central(&cloud, &["--node-daemon-grace=1s"]).await;
        let node = cluster
            .is("n1", "corrected", |node| {
                label(node, labels::INSTANCE_TYPE) == Some("g6-standard-4")
                    && addresses(node).contains(&"ExternalIP 203.0.113.7".to_owned())
            })
            .await;
        let note = annotation(&node, annotations::CORRECTED_BY_CENTRAL);
        assert_eq!(note, Some("addresses, labels"));
        eventually("an Event", LIMIT, async || {
            cluster.events("n1", reasons::FACTS_CORRECTED).await.len() == 1
        })
        .await;

        // The marker: the daemon has looked at its metadata again and again.
        let before = cluster.written_on("n1").await.len();
        asked_again(&service, 6).await;
        let writes = cluster.written_on("n1").await;
        assert_eq!(writes.len(), before, "{}", writes.summary());

        // What changes later is central's to follow, and no news.
        cloud.resize(&id, "g6-standard-8");
        let resized = |node: &_| label(node, labels::INSTANCE_TYPE) == Some("g6-standard-8");
        cluster.is("n1", "resized", resized).await;
        assert_eq!(
            cluster.events("n1", reasons::FACTS_CORRECTED).await.len(),
            1
        );
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// What the cloud has said before an outage may be out of date, and a correction silences the daemon for
/// good: central waits for the cloud.
#[test]
fn what_contradicts_the_cloud_is_not_corrected_while_the_cloud_is_away() {
    const PATIENCE: Duration = Duration::from_secs(5);
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1"]).await;
        let cloud = CloudSim::start(Cloud::Linode).await;
        let (_, other) = a_linode_that_says_it_is(&cloud, "g6-standard-8");
        let _service = cluster.service("n1", other).await;
        let _daemon = cluster.daemon("n1", &[]).await;
        cluster.initialized("n1").await;

        // One listing, from before central has seen the contradiction.
        let flags = [
            "--node-daemon-grace=1s",
            "--node-status-update-frequency=4s",
        ];
        let _central = cluster.central(&cloud, &flags).await;
        eventually("a listing", LIMIT, async || {
            let listings = cloud.listings();
            !listings.filter(|call| call.took.is_some()).is_empty()
        })
        .await;
        cloud.set_down(true);
        let since = Instant::now();
        // The marker: it has asked in vain, and its patience with the daemon has ended.
        eventually("it waits for the cloud", LIMIT, async || {
            cloud.turned_away() > 1 && since.elapsed() > PATIENCE * 2
        })
        .await;
        let node = cluster.node("n1").await;
        assert_eq!(label(&node, labels::INSTANCE_TYPE), Some("g6-standard-8"));
        assert_eq!(annotation(&node, annotations::CORRECTED_BY_CENTRAL), None);

        cloud.set_down(false);
        let corrected = |node: &_| label(node, labels::INSTANCE_TYPE) == Some("g6-standard-4");
        cluster.is("n1", "corrected", corrected).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// Two daemons that claim the same machine: neither can know, central can.
#[test]
fn two_nodes_that_claim_one_machine_are_told_of() {
    in_netlab(async || {
        let cluster = MetadataCluster::start(&["n1", "n2"]).await;
        // The API server would refuse the second.
        let netlab = &cluster.netlab;
        let without = netlab
            .shipped
            .without_identity_fence(netlab.control_plane());
        without.await.unwrap();
        let cloud = CloudSim::start(Cloud::Linode).await;
        let id = cloud.add(Server::named("n1").public("203.0.113.7"));
        let number = id.trim_start_matches("linode://").parse().unwrap();
        let _first = cluster.service("n1", Machine::linode(number, "n1")).await;
        let _second = cluster.service("n2", Machine::linode(number, "n2")).await;
        let _daemons = [
            cluster.daemon("n1", &[]).await,
            cluster.daemon("n2", &[]).await,
        ];
        for name in ["n1", "n2"] {
            let node = cluster.initialized(name).await;
            assert_eq!(provider_id(&node), Some(&*id));
        }
        let _central = cluster.central(&cloud, &["--node-daemon-grace=1s"]).await;
        let told = async || {
            let mut told = Vec::new();
            for name in ["n1", "n2"] {
                let events = cluster.events(name, reasons::DUPLICATE_PROVIDER_ID).await;
                told.extend(events.into_iter().map(|event| event.note));
            }
            told
        };
        eventually("an Event about one of them", LIMIT, async || {
            !told().await.is_empty()
        })
        .await;
        // The marker: the cloud was listed a few times more.
        let listed = cloud.listings().len();
        eventually("listings", LIMIT, async || {
            cloud.listings().len() >= listed + 3
        })
        .await;
        let told = told().await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told.iter().all(|note| note.contains(&id)), "{told:?}");
    });
}
