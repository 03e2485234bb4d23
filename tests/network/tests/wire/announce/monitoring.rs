//! A Prometheus scrapes a cluster by HTTPS with a token, has the shipped rules, and sees each thing break and heal.

mod dashboard;
mod pictures;
mod prometheus;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams};
use mooring_common::l2_network::L2Network;
use mooring_test_cluster::objects::{
    ServiceBuilder, apply_manifests, create_namespace, create_service_account,
};
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{NETWORK, NetlabCluster, Network};
use mooring_test_support::wait::eventually;
use serde_json::Value;

use self::dashboard::draw;
use self::prometheus::Prometheus;
use crate::announce::cluster::{APP, Addresses, AnnounceCluster, NODES};

/// What "eventually" means to somebody who is paged.
const PAGED: Duration = Duration::from_secs(60);
/// Where the daemons serve metrics by HTTPS.
const SECURE: &str = "--metrics-secure-bind-address=[::]:10270";

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

/// A Service that is to have an address of this network.
async fn ask_for_address(cluster: &AnnounceCluster, name: &str, network: &str) {
    ServiceBuilder::load_balancer(APP, name)
        .port(80, 8080)
        .annotation("mooring.dev/l2-network", network)
        .create(&cluster.netlab.admin)
        .await
        .unwrap();
}

#[test]
fn alerts_fire_and_clear() {
    in_netlab(async || {
        let mut cluster = AnnounceCluster::start(&[SECURE]).await;
        let tokens = tokens(&cluster.netlab).await;
        for node in NODES {
            cluster.pod("web", node).await;
        }
        let prometheus = Prometheus::start(&cluster.netlab, &tokens).await;
        let web = Addresses::number(100);
        cluster.service("web", web, false).await;
        for address in web.both() {
            cluster.answered(address).await;
        }
        only_the_permitted_token_reads(&prometheus).await;
        panels_have_data(&prometheus).await;
        prometheus.fires(&[]).await;

        a_full_network_is_told(&cluster, &prometheus).await;
        a_network_that_is_not_ready_is_told(&cluster, &prometheus).await;
        a_lost_quorum_is_told(&mut cluster, &prometheus).await;
        a_central_that_is_gone_is_told(&mut cluster, &prometheus).await;
    });
}

async fn only_the_permitted_token_reads(prometheus: &Prometheus) {
    eventually("all targets say what is expected", PAGED, async || {
        for target in prometheus.targets().await? {
            let text = |key: &str| target[key].as_str().unwrap_or_default().to_owned();
            let error = text("lastError");
            let expected = match target["labels"]["job"].as_str() {
                Some("mooring") => text("health") == "up",
                Some("stranger") => error.contains("403"),
                Some("anonymous") => error.contains("401"),
                _ => false,
            };
            anyhow::ensure!(expected, "{target}");
        }
        let up = prometheus.query("sum(up)").await?;
        anyhow::ensure!(up.first() == Some(&4.0), "{up:?}");
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

/// Each panel about the cluster and the wire shows something; without a cloud, none of the third has to.
async fn panels_have_data(prometheus: &Prometheus) {
    // What nothing has happened of yet.
    let quiet = BTreeSet::from([
        "Waiting longest",
        "Services without address, by reason",
        "Messages dropped",
        "Heartbeats lost",
    ]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/dashboards");
    for file in ["cluster.json", "wire.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                eventually(&format!("{title} has data: {query}"), PAGED, async || {
                    let values = prometheus.query(query).await?;
                    let is_quiet = quiet.contains(title);
                    anyhow::ensure!(is_quiet || !values.is_empty(), "nothing");
                    anyhow::Ok(())
                })
                .await;
            }
        }
        let now = dashboard::now();
        let svg = draw(&dashboard, prometheus, [now - 60.0, now]).await;
        let svg = svg.unwrap();
        assert!(svg.contains("<path class"), "{svg}");
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            assert!(svg.contains(&format!(">{title}</text>")), "{title}: {svg}");
        }
    }
}

async fn a_full_network_is_told(cluster: &AnnounceCluster, prometheus: &Prometheus) {
    let network = Network::new("tiny", &["10.77.0.120-10.77.0.120"]);
    network.create(&cluster.netlab).await.unwrap();
    for name in ["first", "second"] {
        ask_for_address(cluster, name, "tiny").await;
    }
    prometheus
        .fires(&["MooringPoolExhausted", "MooringServiceWithoutAddress"])
        .await;
    let services: Api<Service> = cluster.services();
    for name in ["first", "second"] {
        let params = DeleteParams::default();
        services.delete(name, &params).await.unwrap();
    }
    prometheus.fires(&[]).await;
}

async fn a_network_that_is_not_ready_is_told(cluster: &AnnounceCluster, prometheus: &Prometheus) {
    let overlapping = Network::new("overlapping", &["10.77.0.105-10.77.0.130"]);
    // It never becomes Ready, which is what `create` waits for.
    let _ = overlapping.create(&cluster.netlab).await;
    prometheus.fires(&["MooringL2NetworkNotReady"]).await;
    let networks = Api::<L2Network>::all(cluster.netlab.admin.clone());
    let params = DeleteParams::default();
    networks.delete("overlapping", &params).await.unwrap();
    prometheus.fires(&[]).await;
}

/// Two of three voters die, and central is not there to let the third go on.
async fn a_lost_quorum_is_told(cluster: &mut AnnounceCluster, prometheus: &Prometheus) {
    cluster.stop_central();
    for node in ["n1", "n2"] {
        cluster.daemons.remove(node).expect("it runs").kill();
    }
    prometheus
        .fires(&[
            "MooringAddressWithoutSpeaker",
            "MooringDown",
            "MooringNoLeader",
            "MooringQuorumLost",
        ])
        .await;
    for node in ["n1", "n2"] {
        let host = cluster.netlab.node(node);
        let daemon = host.start(cluster.specs[node].clone()).unwrap();
        cluster.daemons.insert(node.to_owned(), daemon);
    }
    prometheus.fires(&["MooringDown", "MooringNoLeader"]).await;
}

async fn a_central_that_is_gone_is_told(cluster: &mut AnnounceCluster, prometheus: &Prometheus) {
    cluster.central_is_back().await;
    prometheus.fires(&[]).await;
    let networks = Api::<L2Network>::all(cluster.netlab.admin.clone());
    assert!(networks.get(NETWORK).await.is_ok());
}
