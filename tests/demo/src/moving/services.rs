//! Services as MetalLB's users have them, with what answers for them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};

use super::super::console::{Console, Step};
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab::Echo;
use mooring_test_netlab::netlab_cluster::NetlabCluster;
use mooring_test_support::process::Process;

const NAMESPACE: &str = "shop";
const BACKENDS: [&str; 2] = ["n2", "n3"];

/// The Services' port, for UDP; for TCP where it is said.
pub(super) const PORT: u16 = 7;

/// What serves as long as this is there.
pub(super) struct Backends {
    _proxies: Vec<Process>,
    _echoes: Vec<Echo>,
}

/// Makes them, and waits until MetalLB has given each its addresses.
pub(super) async fn create(console: &Console, cluster: &NetlabCluster) -> Result<Backends> {
    let step = Step::new("kube-proxy on all nodes", 60, &[]);
    let proxies = console
        .run(step, async {
            let proxies = cluster.nodes.iter().map(|node| node.kube_proxy(cluster));
            Ok((try_join_all(proxies).await?, "nftables mode".to_owned()))
        })
        .await?;
    create_namespace(&cluster.admin, NAMESPACE).await?;
    let mut echoes = Vec::new();
    for name in BACKENDS {
        let host = cluster.node(name);
        let (v4, v6) = host.add_pod(5)?;
        for address in [IpAddr::from(v4), v6.into()] {
            echoes.push(host.echo(SocketAddr::new(address, PORT))?);
        }
        PodBuilder::new(NAMESPACE, &format!("echo-{name}"))
            .node(name)
            .label("app", "echo")
            .running(&[&v4.to_string(), &v6.to_string()])
            .create(&cluster.admin)
            .await?;
    }
    let described = described();
    let count = described.len();
    for service in described {
        service
            .selector("app", "echo")
            .create(&cluster.admin)
            .await?;
    }
    let step = Step::new("MetalLB has given addresses", 60, &["metallb"]);
    console
        .run(step, async {
            let served = step
                .until(async || {
                    let served = addresses(cluster).await?;
                    ensure!(served.len() == count, "served so far: {served:?}");
                    Ok(served)
                })
                .await?;
            for (name, addresses) in &served {
                console.event(&format!("Service {NAMESPACE}/{name}: {}", list(addresses)));
            }
            Ok(((), format!("{count} Services")))
        })
        .await?;
    Ok(Backends {
        _proxies: proxies,
        _echoes: echoes,
    })
}

/// One of each kind: both families, a requested address, a pool on request, one that goes only to
/// nodes with an endpoint, and two that share an address.
fn described() -> Vec<ServiceBuilder> {
    let udp =
        |name: &str| ServiceBuilder::load_balancer(NAMESPACE, name).port_of("UDP", PORT, PORT);
    let key = ("metallb.io/allow-shared-ip", "names");
    vec![
        udp("web").families(&["IPv4", "IPv6"]),
        udp("api").annotation("metallb.io/loadBalancerIPs", "10.77.0.213"),
        udp("files").annotation("metallb.io/address-pool", "reserved"),
        udp("local").local(),
        udp("names-udp")
            .annotation(key.0, key.1)
            .annotation("metallb.io/loadBalancerIPs", "10.77.0.214"),
        ServiceBuilder::load_balancer(NAMESPACE, "names-tcp")
            .port_of("TCP", PORT, PORT)
            .annotation(key.0, key.1)
            .annotation("metallb.io/loadBalancerIPs", "10.77.0.214"),
    ]
}

/// The Services of type LoadBalancer that have addresses, and these.
pub(super) async fn addresses(cluster: &NetlabCluster) -> Result<BTreeMap<String, Vec<IpAddr>>> {
    let services = Api::<Service>::namespaced(cluster.admin.clone(), NAMESPACE);
    let mut served = BTreeMap::new();
    for service in services.list(&ListParams::default()).await? {
        let ingress = service
            .status
            .and_then(|status| status.load_balancer?.ingress)
            .unwrap_or_default();
        let ips = ingress.into_iter().filter_map(|entry| entry.ip);
        let ips: Vec<IpAddr> = ips.filter_map(|ip| ip.parse().ok()).collect();
        if !ips.is_empty() {
            served.insert(service.metadata.name.unwrap_or_default(), ips);
        }
    }
    Ok(served)
}

/// For people.
pub(super) fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
