//! Services that share an address: one speaker, and each is reached on its own port, through kube-proxy in
//! iptables mode; other suites have it in nftables mode.

use std::time::Instant;

use kube::api::{DeleteParams, Patch, PatchParams};
use mooring_common::names::{annotations, reasons};
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder};
use mooring_test_netlab::netlab::{ProxyMode, in_netlab};
use mooring_test_support::process::Process;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::announce::cluster::{APP, Addresses, AnnounceCluster, NODES, SOON};

#[test]
fn services_that_share_an_address_are_reached_and_outlive_each_other() {
    in_netlab(async || {
        let cluster = AnnounceCluster::start(&[]).await;
        let mut proxies = Vec::new();
        for node in NODES {
            let host = cluster.netlab.node(node);
            let proxy = host.kube_proxy_in(ProxyMode::Iptables, &cluster.netlab);
            proxies.push(proxy.await.unwrap());
        }
        let _backends = [
            backend(&cluster, "web", 5, 8080).await,
            backend(&cluster, "api", 6, 9090).await,
        ];
        let start = Instant::now();
        let shared = Addresses::number(100);
        // `api` is the first by its name, and goes first.
        create(&cluster, "api", shared, (8000, 9090), false).await;
        let (_, host) = cluster.announced(shared.v4, start).await;
        let speaker = host.name().to_owned();
        create(&cluster, "web", shared, (80, 8080), false).await;
        for (name, port) in [("web", 80), ("api", 8000)] {
            reached(&cluster, shared, name, port).await;
            let reason = reasons::ADDRESS_ANNOUNCED;
            cluster.told("Service", name, reason, &speaker).await;
        }
        let words = format!("as it does for Service {APP}/api already");
        let told = cluster.told("Service", "web", reasons::ADDRESS_ANNOUNCED, &words);
        told.await;
        services_go_one_by_one(&cluster, shared, &speaker, start).await;
        local_services_are_where_their_pods_are(&cluster).await;
        cluster.netlab.assert_nothing_refused().await;
    });
}

/// A Pod on n2, whose server says its name.
async fn backend(cluster: &AnnounceCluster, app: &str, number: u8, port: u16) -> Process {
    let host = cluster.netlab.node("n2");
    let (v4, v6) = host.add_pod(number).unwrap();
    PodBuilder::new(APP, &format!("{app}-n2"))
        .node("n2")
        .label("app", app)
        .running(&[&v4.to_string(), &v6.to_string()])
        .create(&cluster.netlab.admin)
        .await
        .unwrap();
    host.serve(port, app).await.unwrap()
}

/// A Service for the Pods of its name, or of `web` if it is local, with these addresses by one key.
async fn create(
    cluster: &AnnounceCluster,
    name: &str,
    addresses: Addresses,
    (port, target): (u16, u16),
    local: bool,
) {
    let wanted = format!("{},{}", addresses.v4, addresses.v6);
    let mut service = ServiceBuilder::load_balancer(APP, name)
        .port(port, target)
        .selector("app", if local { "web" } else { name })
        .families(&["IPv4", "IPv6"])
        .annotation(annotations::SHARING_KEY, "k")
        .annotation(annotations::ADDRESSES_REQUEST, &wanted);
    if local {
        service = service.local();
    }
    service.create(&cluster.netlab.admin).await.unwrap();
    let services = cluster.services();
    eventually(&format!("{name} has its addresses"), SOON, async || {
        let status = services.get(name).await.ok()?.status?.load_balancer?;
        (status.ingress?.len() == 2).then_some(())
    })
    .await;
}

/// The server of this name answers at the port, on both addresses.
async fn reached(cluster: &AnnounceCluster, addresses: Addresses, name: &str, port: u16) {
    let urls = [
        format!("http://{}:{port}/", addresses.v4),
        format!("http://[{}]:{port}/", addresses.v6),
    ];
    for url in urls {
        eventually(&format!("{name} answers at {url}"), SOON, async || {
            let answer = cluster.netlab.client.get(&url).await?;
            anyhow::ensure!(answer.body == name, "{}", answer.body);
            Ok(())
        })
        .await;
    }
}

/// While one goes the other is reached all the time, at the same node; with the last one the address
/// falls silent.
async fn services_go_one_by_one(
    cluster: &AnnounceCluster,
    shared: Addresses,
    speaker: &str,
    start: Instant,
) {
    let client = &cluster.netlab.client;
    let web = format!("http://{}/", shared.v4);
    let services = cluster.services();
    services
        .delete("api", &DeleteParams::default())
        .await
        .unwrap();
    let mut asked = 0;
    eventually("the first Service is gone", SOON, async || {
        let answer = client.get(&web).await.expect("the other one is reached");
        assert_eq!(answer.body, "web");
        asked += 1;
        let gone = services.get_opt("api").await?.is_none();
        anyhow::ensure!(gone && asked > 20, "{asked} asked");
        Ok(())
    })
    .await;
    // The daemons and proxies have heard of it when nobody answers at its port.
    let api = format!("http://{}:8000/", shared.v4);
    eventually("nobody answers at its port", SOON, async || {
        client.get(&api).await.is_err()
    })
    .await;
    reached(cluster, shared, "web", 80).await;
    for address in shared.both() {
        assert_eq!(cluster.claimants(address, start), [speaker], "{address}");
    }
    // It takes the port of the one that is gone.
    let ports = json!({"spec": {"ports": [{"name": "tcp-80", "port": 8000, "targetPort": 8080}]}});
    services
        .patch("web", &PatchParams::default(), &Patch::Merge(ports))
        .await
        .unwrap();
    reached(cluster, shared, "web", 8000).await;
    cluster.delete_service("web").await;
    eventually("the speaker is silent", SOON, async || {
        let entry = cluster.entry(speaker).await.unwrap_or_default();
        anyhow::ensure!(entry.addresses.is_empty(), "{entry:?}");
        Ok(())
    })
    .await;
}

/// And nobody answers for what is given up.
async fn local_services_are_where_their_pods_are(cluster: &AnnounceCluster) {
    let start = Instant::now();
    let shared = Addresses::number(101);
    for (name, port) in [("http", 80), ("alternative", 8000)] {
        create(cluster, name, shared, (port, 8080), true).await;
        reached(cluster, shared, "web", port).await;
    }
    for address in shared.both() {
        assert_eq!(cluster.claimants(address, start), ["n2"], "{address}");
    }
    let given_up = Addresses::number(100).v4;
    let asked = Instant::now();
    cluster.ask(given_up);
    cluster.answered(shared.v4).await;
    assert_eq!(cluster.claims(given_up, asked), []);
}
