//! A Service, its backends, its addresses, and what is told about it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;

use super::console::{Console, Ink, Step};
use super::scenario::{Cast, MOORING};
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab_cluster::{NetlabCluster, Network};
use mooring_test_support::process::Process;

/// The first of them goes to n1 while all nodes live, so that the node that is taken down later
/// carries no backend, and what is seen is the fail-over of the address alone.
const RANGES: [&str; 2] = ["10.77.0.204-10.77.0.219", "fd77::200/124"];

/// Where the backends are.
const BACKENDS: [&str; 2] = ["n2", "n3"];

const NAMESPACE: &str = "demo";
const SERVICE: &str = "hello";
const BACKEND_PORT: u16 = 8080;
const LIVEZ_PORT: u16 = 10266;

/// How long a request of the client may take while nobody may be there to answer.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_millis(250);

/// The addresses of the Service.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

impl Addresses {
    pub(super) fn urls(&self) -> [String; 2] {
        [
            format!("http://{}/", self.v4),
            format!("http://[{}]/", self.v6),
        ]
    }
}

/// Service proxies and backends.
pub(super) async fn serve(console: &Console, cast: &mut Cast) -> Result<()> {
    console.chapter("Something to reach");
    let cluster = &cast.cluster;
    let step = Step::new("kube-proxy on all nodes", 60, &[]);
    cast.proxies = console
        .run(step, async {
            let proxies = cluster.nodes.iter().map(async |node| {
                let proxy = node.kube_proxy(cluster).await?;
                anyhow::Ok((node.name().to_owned(), proxy))
            });
            let proxies = try_join_all(proxies).await?.into_iter().collect();
            Ok((proxies, "nftables mode, rules programmed".to_owned()))
        })
        .await?;
    let step = Step::new("two Pods serve HTTP", 30, &[]);
    cast.servers = console
        .run(step, async {
            let admin = cluster.admin.clone();
            create_namespace(&admin, NAMESPACE).await?;
            let servers = try_join_all(BACKENDS.map(|name| start_backend(cluster, name))).await?;
            Ok((servers, format!("on {}", BACKENDS.join(" and "))))
        })
        .await?;
    Ok(())
}

async fn start_backend(cluster: &NetlabCluster, node: &str) -> Result<Process> {
    let host = cluster.node(node);
    let (v4, v6) = host.add_pod(5)?;
    let server = host
        .serve(BACKEND_PORT, &format!("hello from a Pod on {node}"))
        .await?;
    PodBuilder::new(NAMESPACE, &format!("hello-{node}"))
        .node(node)
        .label("app", SERVICE)
        .running(&[&v4.to_string(), &v6.to_string()])
        .create(&cluster.admin)
        .await?;
    Ok(server)
}

/// The network, the Service, its addresses, and the first answers.
pub(super) async fn expose(console: &Console, cast: &Cast) -> Result<(Addresses, Duration)> {
    console.chapter("A Service of type LoadBalancer");
    let cluster = &cast.cluster;
    let step = Step::new("L2Network ready", 30, MOORING);
    console
        .run(step, async {
            Network::new("lab", &RANGES).create(cluster).await?;
            Ok(((), format!("addresses from {}", RANGES.join(" and "))))
        })
        .await?;
    let start = Instant::now();
    ServiceBuilder::load_balancer(NAMESPACE, SERVICE)
        .port(80, BACKEND_PORT)
        .selector("app", SERVICE)
        .families(&["IPv4", "IPv6"])
        .create(&cluster.admin)
        .await?;
    console.event(&format!(
        "Service {NAMESPACE}/{SERVICE} created, for IPv4 and IPv6"
    ));
    let step = Step::new("addresses assigned", 30, MOORING);
    let addresses = console
        .run(step, async {
            let addresses = step.until(async || assigned(cluster).await).await?;
            let seen = format!("{} and {}", addresses.v4, addresses.v6);
            Ok((addresses, seen))
        })
        .await?;
    let [v4, v6] = addresses.urls();
    let step = Step::new("HTTP answer over IPv4", 30, MOORING);
    let figure = console
        .run(step, async {
            let seen = ask(step, cluster, &v4).await?;
            Ok((start.elapsed(), seen))
        })
        .await?;
    let step = Step::new("HTTP answer over IPv6", 30, MOORING);
    console
        .run(step, async { Ok(((), ask(step, cluster, &v6).await?)) })
        .await?;
    let step = Step::new("MAC seen by the client", 10, MOORING);
    console
        .run(step, async {
            Ok(((), neighbours(console, cluster, &addresses)?))
        })
        .await?;
    Ok((addresses, figure))
}

async fn assigned(cluster: &NetlabCluster) -> Result<Addresses> {
    let service = Api::<Service>::namespaced(cluster.admin.clone(), NAMESPACE)
        .get(SERVICE)
        .await?;
    let ingress = service
        .status
        .and_then(|status| status.load_balancer?.ingress)
        .unwrap_or_default();
    let ips: Vec<String> = ingress.into_iter().filter_map(|entry| entry.ip).collect();
    Ok(Addresses {
        v4: ips
            .iter()
            .find_map(|ip| ip.parse().ok())
            .context("no IPv4 address yet")?,
        v6: ips
            .iter()
            .find_map(|ip| ip.parse().ok())
            .context("no IPv6 address yet")?,
    })
}

async fn ask(step: Step, cluster: &NetlabCluster, url: &str) -> Result<String> {
    let client = &cluster.client;
    let answer = step
        .until(async || client.get_within(url, REQUEST_LIMIT).await)
        .await?;
    Ok(format!("{url} says {:?}", answer.body))
}

/// Where the client believes the addresses to be.
pub(super) fn neighbours(
    console: &Console,
    cluster: &NetlabCluster,
    addresses: &Addresses,
) -> Result<String> {
    let place = |address: IpAddr| -> Result<String> {
        let mac = cluster
            .client
            .mac_of(address)?
            .context("the client knows no neighbour")?;
        let node = cluster
            .node_of(mac)
            .context("the client believes a stranger")?;
        let text = format!("{address} is at {mac} ({})", node.name());
        Ok(console.paint(Ink::Address, &text))
    };
    Ok(format!(
        "{}, {}",
        place(addresses.v4.into())?,
        place(addresses.v6.into())?
    ))
}

/// What a load balancer in front of each node would be told.
pub(super) async fn check_health(console: &Console, cast: &Cast) -> Result<()> {
    console.chapter("What each node says of itself");
    let cluster = &cast.cluster;
    let step = Step::new("/livez and /services on all nodes", 20, MOORING);
    console
        .run(step, async {
            let mut seen = Vec::new();
            for node in &cluster.nodes {
                let status = async |path: &str| {
                    let url = format!("http://{}:{LIVEZ_PORT}{path}", node.ipv4());
                    anyhow::Ok(cluster.client.get(&url).await?.status)
                };
                let service = format!("/services/{NAMESPACE}/{SERVICE}");
                let expected = if BACKENDS.contains(&node.name()) {
                    200
                } else {
                    503
                };
                let found = step
                    .until(async || {
                        let found = (status("/livez").await?, status(&service).await?);
                        ensure!(
                            found == (200, expected),
                            "{} answers {found:?}",
                            node.name()
                        );
                        Ok(found)
                    })
                    .await?;
                let name = node.name();
                console.event(&format!(
                    "{name}: /livez {}, {service} {}",
                    found.0, found.1
                ));
                seen.push(format!("{name} {}/{}", found.0, found.1));
            }
            Ok((
                (),
                format!("{} (503: no endpoint on that node)", seen.join(", ")),
            ))
        })
        .await
}
