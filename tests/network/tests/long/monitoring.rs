//! A Prometheus scrapes a cluster by HTTPS with a token, has the shipped rules, and sees each thing break and heal:
//! every alert that is shipped fires and clears, but for those of [`NOT_HERE`].

mod certificate;
mod clouds;
mod cluster;
mod control_plane;
mod dashboard;
mod networks;
mod nodes;
mod panels;
mod pictures;
mod prometheus;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use mooring_common::names::annotations;
use mooring_test_cluster::objects::{apply_manifests, create_namespace, create_service_account};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{Fence, NETWORK, NetlabCluster};
use mooring_test_support::wait::eventually;

use self::certificate::ServingCertificate;
use self::clouds::Clouds;
use self::cluster::Monitored;
use self::control_plane::ControlPlaneNode;
use self::prometheus::{Prometheus, alerts};

/// What "eventually" means to somebody who is paged. Other suites are first in line for a processor.
const PAGED: Duration = Duration::from_secs(120);
/// What a Service has of the L2Network `lab`.
const WEB: [IpAddr; 2] = [
    IpAddr::V4(WEB_V4),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x100)),
];
const WEB_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 100);

/// The tokens of a ServiceAccount that may read metrics, and of one that may not.
async fn tokens(cluster: &NetlabCluster) -> [String; 2] {
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
    apply_manifests(cluster, &manifests.join("metrics.yaml"))
        .await
        .unwrap();
    create_namespace(&cluster.admin, "monitoring")
        .await
        .unwrap();
    let mut tokens = Vec::new();
    for name in ["prometheus", "stranger"] {
        create_service_account(&cluster.admin, "monitoring", name)
            .await
            .unwrap();
        tokens.push(cluster.token_for("monitoring", name, None).await.unwrap());
    }
    tokens.try_into().unwrap()
}

/// Alerts that this suite does not see, and why. `promtool` tries them like all others, with made-up series.
const NOT_HERE: [(&str, &str); 1] = [(
    "MooringControlPlaneRevisionsDiffer",
    "the control plane here has one node, which differs from nobody",
)];

/// What fires while something is wrong with each cloud, with L2Networks, with files, and with the API server of a
/// control-plane node.
const AROUND_CENTRAL: [&str; 17] = [
    "MooringCertificateExpiring central",
    "MooringCloudRateLimited brightbox",
    "MooringCloudRequestsFailing phoenixnap",
    "MooringCloudTokenRefused cloudscale",
    "MooringControlPlaneNotReady control-plane",
    BLOCK_LIMIT,
    "MooringL2NetworkNotReady overlapping",
    "MooringLoadBalancersOrphaned",
    "MooringMachinesFileRefused central",
    "MooringNodeDeletionsHeld",
    "MooringNodesUnmatched",
    "MooringPassStuck central service",
    "MooringPassesFailing service",
    "MooringPoolExhausted IPv4 tiny",
    "MooringPoolNearlyFull IPv4 narrow",
    "MooringServiceWithoutAddress cloud_unauthorized",
    "MooringServiceWithoutAddress no_free_address",
];
const BLOCK_LIMIT: &str = "MooringIPBlockLimitReached central";
/// What else may fire then: what is known of a Service whose cloud does not answer, until that takes too long.
const MEANWHILE: [&str; 2] = [
    "MooringServiceWithoutAddress cloud_timeout",
    "MooringServiceWithoutAddress in_progress",
];
/// What fires while something is wrong with two of three nodes, and with what they announce.
const AT_THE_NODES: [&str; 6] = [
    "MooringAddressConflict 10.77.0.100 lab",
    "MooringHeartbeatsLost n2 node_network lab",
    "MooringHeartbeatsLost n2 segment lab",
    BLOCK_LIMIT,
    "MooringNodeWithoutQuorum n3 lab",
    "MooringServiceProxyFailing n3",
];

#[test]
fn alerts_fire_and_clear() {
    in_netlab(async || {
        let mut clouds = Clouds::start().await;
        let certificate = ServingCertificate::lasting(365);
        let central = |spec| certificate.with_central(clouds.with_central(spec));
        let mut cluster = Monitored::start(central).await;
        let tokens = tokens(&cluster.netlab).await;
        let control_plane = ControlPlaneNode::start(cluster.netlab.node("n1")).await;
        networks::make(&cluster).await;
        let prometheus = Prometheus::start(&cluster.netlab, &tokens).await;
        clouds.settle(&cluster.netlab).await;
        announce(&cluster).await;
        only_the_permitted_token_reads(&prometheus).await;
        prometheus.fires(&[]).await;

        clouds.buy_block(&cluster).await;
        panels_have_data(&prometheus).await;
        let files = (&certificate, &control_plane);
        faults_around_central_are_told(&cluster, &mut clouds, files, &prometheus).await;
        networks::delete(&cluster).await;
        faults_at_the_nodes_are_told(&cluster, &prometheus).await;
        Clouds::permit_another_block(&mut cluster);
        a_lost_quorum_is_told(&mut cluster, &prometheus).await;

        let mut here = alerts();
        for (alert, _) in NOT_HERE {
            assert!(here.remove(alert), "{alert} is not shipped");
        }
        assert_eq!(prometheus.seen(), here);
    });
}

/// Lets a Service be announced.
async fn announce(cluster: &Monitored) {
    let addresses = WEB.map(|address| address.to_string()).join(",");
    cluster
        .ask("web", |service| {
            service
                .families(&["IPv4", "IPv6"])
                .annotation(annotations::L2_NETWORK_REQUEST, NETWORK)
                .annotation(annotations::ADDRESSES_REQUEST, &addresses)
        })
        .await;
    for address in WEB {
        cluster.announced(address).await;
    }
}

async fn only_the_permitted_token_reads(prometheus: &Prometheus) {
    eventually("all targets say what is expected", PAGED, async || {
        for target in prometheus.targets().await? {
            let text = |key: &str| target[key].as_str().unwrap_or_default().to_owned();
            let error = text("lastError");
            let expected = match target["labels"]["job"].as_str() {
                Some("mooring" | "control-plane") => text("health") == "up",
                Some("stranger") => error.contains("403"),
                Some("anonymous") => error.contains("401"),
                _ => false,
            };
            anyhow::ensure!(expected, "{target}");
        }
        let up = prometheus.query("sum(up)").await?;
        anyhow::ensure!(up.first() == Some(&5.0), "{up:?}");
        anyhow::Ok(())
    })
    .await;
    let names = prometheus.names().await.unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/endpoints.md");
    let page = std::fs::read_to_string(page).unwrap();
    for name in &names {
        let parts = ["_bucket", "_sum", "_count"];
        let base = parts.iter().find_map(|part| name.strip_suffix(part));
        let described = [Some(name.as_str()), base].into_iter().flatten();
        let is_described = described
            .into_iter()
            .any(|name| page.contains(&format!("`{name}`")));
        assert!(is_described, "docs/reference/endpoints.md has no {name}");
    }
    assert!(names.len() > 60, "{names:?}");
}

/// Each panel shows something, but for those of what has not happened, and of tokens in files.
async fn panels_have_data(prometheus: &Prometheus) {
    let quiet = ["Waiting longest", "Services without address, by reason"];
    panels::have_data(prometheus, "cluster.json", &quiet).await;
    let quiet = ["Messages dropped", "Heartbeats lost"];
    panels::have_data(prometheus, "wire.json", &quiet).await;
    // Prices are asked a minute after a block is bought; no token is in a file.
    let quiet = ["IP blocks per month", "Age of tokens and certificates"];
    panels::have_data(prometheus, "cloud.json", &quiet).await;
}

/// All of this breaks at once, and heals at once.
async fn faults_around_central_are_told(
    cluster: &Monitored,
    clouds: &mut Clouds,
    (certificate, control_plane): (&ServingCertificate, &ControlPlaneNode),
    prometheus: &Prometheus,
) {
    let machines = std::fs::read_to_string(cluster.netlab.machines_file().path()).unwrap();
    certificate.renew(5);
    control_plane.is_ready(false);
    networks::break_all(cluster).await;
    clouds.break_all(cluster).await;
    prometheus.each_fires(&AROUND_CENTRAL, &MEANWHILE).await;

    certificate.renew(365);
    control_plane.is_ready(true);
    networks::mend_all(cluster, &machines).await;
    clouds.mend_all(cluster).await;
    prometheus.fires(&[BLOCK_LIMIT]).await;
}

async fn faults_at_the_nodes_are_told(cluster: &Monitored, prometheus: &Prometheus) {
    let proxy = nodes::service_proxy(cluster);
    nodes::break_all(cluster, &proxy, WEB_V4);
    prometheus.each_fires(&AT_THE_NODES, &[]).await;
    nodes::mend_all(cluster, &proxy);
    prometheus.fires(&[BLOCK_LIMIT]).await;
}

/// Two of three voters die, and central is not there to let the third go on. They return, and find no fence.
async fn a_lost_quorum_is_told(cluster: &mut Monitored, prometheus: &Prometheus) {
    cluster.end_central().await;
    for node in ["n1", "n2"] {
        cluster.kill_daemon(node);
    }
    let fence = Fence::take_down(&cluster.netlab).await;
    let mut expected = vec![
        "MooringAddressWithoutSpeaker lab",
        "MooringDown central",
        "MooringDown n1",
        "MooringDown n2",
        "MooringNoLeader",
        "MooringQuorumLost lab",
    ];
    prometheus.fires(&expected).await;
    for node in ["n1", "n2"] {
        cluster.start_daemon(node);
    }
    expected.retain(|alert| !["MooringDown n1", "MooringDown n2"].contains(alert));
    expected.extend([
        "MooringFenceMissing n1 missing",
        "MooringFenceMissing n2 missing",
    ]);
    prometheus.fires(&expected).await;
    fence.put_up(&cluster.netlab).await;
    prometheus
        .fires(&["MooringDown central", "MooringNoLeader"])
        .await;
    cluster.start_central();
    prometheus.fires(&[]).await;
}
