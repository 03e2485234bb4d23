//! What the dashboards look like: `make pictures` lets five minutes happen on a small cluster with an L2Network and
//! a simulated PhoenixNAP, and draws the dashboards from what a Prometheus has seen.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use kube::api::DeleteParams;
use mooring_cloud_sim::cloud::{Cloud, CloudSim};
use mooring_cloud_sim::phoenixnap::{Behaviour, Pace};
use mooring_common::names::annotations;
use mooring_test_cluster::shipped::permit_kube_vip;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{NETWORK, Network};
use mooring_test_support::wait::eventually;
use serde_json::Value;

use super::cluster::Monitored;
use super::dashboard::{draw, now};
use super::prometheus::Prometheus;
use super::{PAGED, tokens};

/// Where the pictures are.
const PICTURES: &str = "../../docs/how-to/dashboards";

/// Lets so much of the five minutes pass, while a client asks where two addresses are.
async fn pass(cluster: &Monitored, seconds: u64) {
    for _ in 0..seconds {
        for address in [100, 101] {
            cluster.who_has(Ipv4Addr::new(10, 77, 0, address).into());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Makes Services of this class, named for it and for these numbers.
async fn ask(
    cluster: &Monitored,
    class: &str,
    numbers: std::ops::Range<usize>,
    network: Option<&str>,
) {
    for number in numbers {
        cluster
            .ask(&format!("{class}-{number}"), |service| {
                let service = service.class(&format!("mooring.dev/{class}"));
                match network {
                    Some(name) => service.annotation(annotations::L2_NETWORK_REQUEST, name),
                    None => service,
                }
            })
            .await;
    }
}

#[test]
#[ignore = "draws the pictures of the docs: make pictures"]
fn the_dashboards_are_drawn() {
    in_netlab(async || {
        let mut cluster = Monitored::start(|central| central).await;
        permit_kube_vip(&cluster.netlab).await.unwrap();
        let cloud = CloudSim::start(Cloud::Phoenixnap).await;
        let sim = cloud.phoenixnap().expect("it is PhoenixNAP");
        sim.behave(Behaviour::paced(Pace::Takes(Duration::from_secs(2))));
        let network = sim.add_network("services", "PHX");
        cluster.end_central().await;
        let spec = cluster
            .netlab
            .central_spec(&["--cloud-provider=cloudlycke,phoenixnap"]);
        let mut spec = spec.await.unwrap();
        for (name, value) in cloud.environment() {
            spec = spec.env(name, value);
        }
        cluster.central_spec = spec.env("PNAP_LOAD_BALANCER", format!("kube-vip://{network}"));
        cluster.start_central();
        eventually("central leads", PAGED, async || {
            cluster.central.log().contains("leading").then_some(())
        })
        .await;
        let tokens = tokens(&cluster.netlab).await;
        let from = now();
        let prometheus = Prometheus::start(&cluster.netlab, &tokens).await;

        ask(&cluster, "l2", 0..6, Some(NETWORK)).await;
        ask(&cluster, "phoenixnap", 0..4, None).await;
        pass(&cluster, 40).await;
        cluster.kill_daemon("n2");
        pass(&cluster, 40).await;
        cluster.start_daemon("n2");
        let full = Network::new("small", &["10.77.0.120-10.77.0.120"]);
        full.create(&cluster.netlab).await.unwrap();
        ask(&cluster, "l2", 6..8, Some("small")).await;
        pass(&cluster, 60).await;
        let services = cluster.services();
        let params = DeleteParams::default();
        services.delete("l2-7", &params).await.unwrap();
        cloud.set_down(true);
        ask(&cluster, "phoenixnap", 4..6, None).await;
        pass(&cluster, 20).await;
        cloud.set_down(false);
        pass(&cluster, 40).await;
        ask(&cluster, "phoenixnap", 6..20, None).await;
        pass(&cluster, 90).await;

        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(PICTURES);
        std::fs::create_dir_all(&folder).unwrap();
        let dashboards =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring/dashboards");
        for name in ["cluster", "cloud", "wire"] {
            let text = std::fs::read_to_string(dashboards.join(format!("{name}.json"))).unwrap();
            let dashboard: Value = serde_json::from_str(&text).unwrap();
            let svg = draw(&dashboard, &prometheus, [from, now()]).await.unwrap();
            let path = folder.join(format!("{name}.svg"));
            std::fs::write(&path, svg).unwrap();
        }
    });
}
