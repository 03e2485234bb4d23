//! A daemon without a key to sign heartbeats with is silent, says so, and speaks when it has one.

use std::path::Path;
use std::time::Instant;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_common::names::{NAMESPACE, annotations};
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace, events_for};
use mooring_test_netlab::netlab::raw::question;
use mooring_test_netlab::netlab::{Capture, in_netlab};
use mooring_test_netlab::netlab_cluster::{NETWORK, NetlabCluster, Network};
use mooring_test_support::wait::eventually;

use crate::announce::cluster::{APP, Addresses, SOON, claim};

/// The EtherType of heartbeats.
const HEARTBEAT: [u8; 2] = [0x88, 0xb5];

#[test]
fn an_a_daemon_without_a_key_is_silent_and_says_so_until_it_has_one() {
    in_netlab(async || {
        let cluster = NetlabCluster::start(&["n1"]).await.unwrap();
        let _kubelets = cluster.register().await.unwrap();
        let _central = cluster.start_central(&[]).await.unwrap();
        let capture = cluster.lab.capture().unwrap();
        Network::of_the_bridge().create(&cluster).await.unwrap();
        let web = Addresses::number(100);
        serve(&cluster, web).await;
        // As the kubelet mounts a Secret that is optional and not there.
        let keys = cluster.lab.folder().join("mounted-later");
        std::fs::create_dir(&keys).unwrap();
        let flag = format!("--heartbeat-key-file={}", keys.display());
        let node = cluster.node("n1");
        let daemon = cluster.start_daemon(node, &[flag.as_str()]).await.unwrap();

        let admin = cluster.admin.clone();
        let entry = says(&admin, NETWORK, "NoHeartbeatKey").await;
        assert_eq!(entry.notices, ["HeartbeatsUnsigned"]);
        assert!(
            !entry.ready && entry.message.contains("mooring-heartbeat"),
            "{entry:?}"
        );
        signed_is(&admin, "False", "n1").await;
        eventually("an Event says so", SOON, async || {
            let events = events_for(&admin, "L2Network", None, NETWORK).await.ok()?;
            let mut notes = events.iter().map(|event| event.note.as_str());
            notes.find(|note| note.contains("no key to sign")).map(drop)
        })
        .await;
        // What concerns no segment goes on: see the address of its Node. And what the daemon says of a
        // network that is made now shows that it has decided anew.
        let later = Network::new("later", &["10.77.0.120-10.77.0.124"]);
        later.create(&cluster).await.unwrap();
        says(&admin, "later", "NoHeartbeatKey").await;
        asked(&cluster, &capture, web).await;
        assert!(!is_claimed(&capture, web), "it has answered, or announced");
        let heartbeats = capture.pick(|frame| {
            let is_heartbeat = frame.bytes.get(12..14) == Some(&HEARTBEAT[..]);
            (is_heartbeat && frame.source() == Some(node.mac())).then_some(())
        });
        assert!(heartbeats.is_empty(), "it has sent a heartbeat");

        mount(&admin, &keys).await;
        says(&admin, NETWORK, "Ready").await;
        eventually("it answers", SOON, async || {
            cluster
                .client
                .inject(&question(&cluster.client, web.v4.into()))
                .unwrap();
            is_claimed(&capture, web)
        })
        .await;
        signed_is(&admin, "True", "all daemons").await;
        let log = daemon.log();
        assert!(log.contains("until there is a secret"), "{log}");
        let mut lines = log.lines();
        // A new installation is as usual, but for networks that are there before the secret.
        let is_warning = |line: &str| {
            let of_a_segment = line.contains("segment cannot be spoken on");
            line.contains(" WARN ") && line.contains("secret") && !of_a_segment
        };
        assert!(!lines.any(is_warning), "{log}");
        cluster.assert_nothing_refused().await;
    });
}

async fn serve(cluster: &NetlabCluster, web: Addresses) {
    let admin = cluster.admin.clone();
    create_namespace(&admin, APP).await.unwrap();
    PodBuilder::new(APP, "web-n1")
        .node("n1")
        .label("app", "web")
        .running(&["10.244.9.1"])
        .create(&admin)
        .await
        .unwrap();
    ServiceBuilder::load_balancer(APP, "web")
        .port(80, 8080)
        .selector("app", "web")
        .annotation(annotations::ADDRESSES_REQUEST, &web.v4.to_string())
        .create(&admin)
        .await
        .unwrap();
    let services = Api::<k8s_openapi::api::core::v1::Service>::namespaced(admin, APP);
    eventually("it has its address", SOON, async || {
        let status = services.get("web").await.ok()?.status?.load_balancer?;
        (status.ingress?.len() == 1).then_some(())
    })
    .await;
}

/// Waits until the L2Network says this of n1.
async fn says(admin: &Client, network: &str, reason: &str) -> SegmentNode {
    let networks = Api::<L2Network>::all(admin.clone());
    eventually(
        &format!("{network} says {reason} of n1"),
        SOON,
        async || {
            let status = networks.get(network).await.ok()?.status?;
            let entry = status.nodes.into_iter().find(|entry| entry.name == "n1");
            entry.filter(|entry| entry.reason == reason)
        },
    )
    .await
}

/// Waits until central says so of the whole segment.
async fn signed_is(admin: &Client, status: &str, words: &str) {
    let networks = Api::<L2Network>::all(admin.clone());
    eventually(&format!("HeartbeatsSigned is {status}"), SOON, async || {
        let found = networks.get(NETWORK).await?.status.unwrap_or_default();
        let mut all = found.conditions.iter();
        let condition = all.find(|condition| condition.type_ == "HeartbeatsSigned");
        let as_expected =
            condition.is_some_and(|c| c.status == status && c.message.contains(words));
        anyhow::ensure!(as_expected, "{condition:?}");
        anyhow::Ok(())
    })
    .await;
}

/// Asks where the address is, and waits until the question is on the wire.
async fn asked(cluster: &NetlabCluster, capture: &Capture, web: Addresses) {
    let start = Instant::now();
    let client = &cluster.client;
    for _ in 0..20 {
        client.inject(&question(client, web.v4.into())).unwrap();
    }
    eventually("the questions are on the wire", SOON, async || {
        let frames = capture.since(start);
        let mine = frames
            .iter()
            .filter(|frame| frame.source() == Some(client.mac()));
        mine.count() >= 20
    })
    .await;
}

fn is_claimed(capture: &Capture, web: Addresses) -> bool {
    !capture.pick(|frame| claim(frame, web.v4.into())).is_empty()
}

/// The Secret that central has made, as the kubelet mounts it.
async fn mount(admin: &Client, folder: &Path) {
    let secrets = Api::<Secret>::namespaced(admin.clone(), NAMESPACE);
    let secret = eventually("central has made the Secret", SOON, async || {
        secrets.get("mooring-heartbeat").await
    })
    .await;
    for (name, content) in secret.data.unwrap() {
        std::fs::write(folder.join(name), content.0).unwrap();
    }
}
