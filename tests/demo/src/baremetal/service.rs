//! A Service: its address is bought, spoken for, and given back.

use std::net::Ipv4Addr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams};
use mooring_common::l2_network::{L2Network, L2NetworkSpec};
use serde_json::Value;

use super::network::{self, POD_PORT, Server, VLAN};
use super::scenario::Cast;
use crate::console::{Console, Ink, Step, short};
use crate::scenario::MOORING;
use mooring_cloud_sim::phoenixnap::Kind;
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};

const NAMESPACE: &str = "demo";
const SERVICE: &str = "hello";

/// A Service is made, and gets an address of a block that is bought for it. Gives the address.
pub(super) async fn expose(console: &Console, cast: &Cast) -> Result<Ipv4Addr> {
    console.chapter("A Service of type LoadBalancer");
    let admin = cast.cluster.admin();
    create_namespace(&admin, NAMESPACE).await?;
    for server in cast.servers {
        PodBuilder::new(NAMESPACE, &format!("hello-{}", server.name))
            .node(server.name)
            .label("app", SERVICE)
            .running(&[&server.private().to_string()])
            .create(&admin)
            .await?;
    }
    ServiceBuilder::load_balancer(NAMESPACE, SERVICE)
        .port(80, POD_PORT)
        .selector("app", SERVICE)
        .create(&admin)
        .await?;
    console.event(&format!("Service {NAMESPACE}/{SERVICE} created"));
    let step = Step::new("an IP block is bought", 60, MOORING);
    console
        .run(step, async {
            let bought = step
                .until(async || cast.cloud.purchases().pop().context("none is bought yet"))
                .await?;
            Ok(((), describe(&bought.block)))
        })
        .await?;
    let step = Step::new("it is in the public network", 60, MOORING);
    let gateway = console
        .run(step, async {
            let block = step.until(async || in_the_network(cast)).await?;
            let gateway = gateway(&block)?;
            network::route(&cast.hands, &gateway).await?;
            Ok((gateway.clone(), format!("the cloud's router is {gateway}")))
        })
        .await?;
    let step = Step::new("the Service has its address", 60, MOORING);
    let address = console
        .run(step, async {
            let address = step.until(async || published(cast).await).await?;
            Ok((address, console.paint(Ink::Address, &address.to_string())))
        })
        .await?;
    ensure!(
        cast.cloud.purchases().len() == 1,
        "more than one block is bought"
    );
    check_segment(console, cast, &gateway).await?;
    Ok(address)
}

/// `203.0.113.16/28 in PHX, with the tags cluster, pool, usage`.
fn describe(block: &Value) -> String {
    let text = |field: &str| block[field].as_str().unwrap_or_default();
    let tags = block["tags"].as_array().into_iter().flatten();
    let mut names: Vec<&str> = tags.filter_map(|tag| tag["name"].as_str()).collect();
    names.sort_unstable();
    let (cidr, location) = (text("cidr"), text("location"));
    format!("{cidr} in {location}, with the tags {}", names.join(", "))
}

fn in_the_network(cast: &Cast) -> Result<Value> {
    let block = cast.cloud.all(Kind::Block).pop().context("there is none")?;
    let on_network = block["assignedResourceId"] == cast.network.as_str();
    ensure!(
        on_network && block["status"] == "assigned",
        "it is {}",
        block["status"]
    );
    Ok(block)
}

/// The first address of a block, with the length of its prefix: the cloud's router has it.
fn gateway(block: &Value) -> Result<String> {
    let cidr = block["cidr"].as_str().context("a block has a cidr")?;
    let (first, length) = cidr.split_once('/').context("a cidr has a length")?;
    let first: Ipv4Addr = first.parse()?;
    Ok(format!("{}/{length}", Ipv4Addr::from(u32::from(first) + 1)))
}

async fn published(cast: &Cast) -> Result<Ipv4Addr> {
    let services = Api::<Service>::namespaced(cast.cluster.admin(), NAMESPACE);
    let status = services.get(SERVICE).await?.status.unwrap_or_default();
    let ingress = status
        .load_balancer
        .unwrap_or_default()
        .ingress
        .unwrap_or_default();
    let entry = ingress.into_iter().next().context("no address yet")?;
    Ok(entry.ip.context("an entry without an address")?.parse()?)
}

/// The VLAN: what central has written of it, whom the cloud lets it reach, and what the daemons make
/// of it.
async fn check_segment(console: &Console, cast: &Cast, gateway: &str) -> Result<()> {
    let networks = Api::<L2Network>::all(cast.cluster.admin());
    let name = format!("phoenixnap-{}", cast.network);
    let step = Step::new("central describes the VLAN", 30, MOORING);
    console
        .run(step, async {
            let network = step.until(async || Ok(networks.get(&name).await?)).await;
            let L2NetworkSpec { vlan, subnets, .. } = network?.spec;
            let routers: Vec<&str> = subnets
                .iter()
                .filter_map(|s| s.gateway.as_deref())
                .collect();
            let expected = gateway.split('/').next().unwrap_or_default();
            ensure!(vlan == Some(VLAN), "its VLAN is {vlan:?}");
            ensure!(routers == [expected], "its routers are {routers:?}");
            Ok((
                (),
                format!("L2Network {name}: VLAN {VLAN}, router {expected}"),
            ))
        })
        .await?;
    let step = Step::new("all servers are in the public network", 90, MOORING);
    console
        .run(step, async {
            for server in cast.servers {
                step.until(async || member(cast, server)).await?;
                network::carry_vlan(&cast.hands, server).await?;
                console.event(&format!(
                    "{} is a member: VLAN {VLAN} reaches it",
                    server.name
                ));
            }
            Ok(((), "by --attach-nodes, without an address there".to_owned()))
        })
        .await?;
    let step = Step::new("the VLAN is on all Nodes", 240, MOORING);
    console
        .run(step, async {
            let found = step
                .until(async || {
                    let status = networks.get(&name).await?.status.unwrap_or_default();
                    let ready = status.nodes.iter().filter(|node| node.ready);
                    let ready: Vec<String> = ready
                        .filter_map(|node| {
                            Some(format!("{} {}", node.name, node.interface.as_ref()?))
                        })
                        .collect();
                    ensure!(ready.len() == cast.servers.len(), "{:?}", status.nodes);
                    Ok(ready)
                })
                .await?;
            Ok(((), format!("{}, on bond0", found.join(", "))))
        })
        .await
}

fn member(cast: &Cast, server: &Server) -> Result<()> {
    let all = cast.cloud.all(Kind::Server);
    let found = all.iter().find(|known| known["hostname"] == server.name);
    let networks = &found.context("there is no such server")?["networkConfiguration"]["publicNetworkConfiguration"]
        ["publicNetworks"];
    let mut networks = networks.as_array().into_iter().flatten();
    let joined = networks.find(|joined| joined["id"] == cast.network.as_str());
    let state = joined.map(|joined| &joined["statusDescription"]);
    ensure!(
        state.is_some_and(|state| state == "assigned"),
        "it is {state:?}"
    );
    Ok(())
}

/// A client gets an answer.
pub(super) async fn answer(console: &Console, cast: &Cast, address: Ipv4Addr) -> Result<()> {
    console.chapter("A client asks");
    network::translate(&cast.hands, cast.servers, address).await?;
    network::ask_steadily(&cast.hands, address).await?;
    console.event("nftables on each Node lead the address to its Pod, in kube-proxy's place");
    let step = Step::new("HTTP answer", 240, MOORING);
    console
        .run(step, async {
            let greetings: Vec<String> = cast.servers.iter().map(Server::greeting).collect();
            network::await_answer(&cast.hands, &greetings).await?;
            let asked = network::asked(&cast.hands).await?;
            let answer = asked.into_iter().rev().find_map(|asked| asked.answer);
            Ok((
                (),
                format!("http://{address}/ says {:?}", answer.unwrap_or_default()),
            ))
        })
        .await?;
    let step = Step::new("MAC seen by the router", 60, MOORING);
    console
        .run(step, async {
            let server = step.until(async || speaker(cast, address).await).await?;
            let text = format!("{address} is at {} ({})", server.mac(), server.name);
            Ok(((), console.paint(Ink::Address, &text)))
        })
        .await
}

/// The server at which the router sees the address.
pub(super) async fn speaker(cast: &Cast, address: Ipv4Addr) -> Result<&'static Server> {
    let mac = network::seen_at(&cast.hands, address).await?;
    let mut servers = cast.servers.iter();
    let found = servers.find(|server| server.mac() == mac);
    found.with_context(|| format!("the router believes a stranger: {mac}"))
}

/// The Service goes, and the block is given back.
pub(super) async fn withdraw(console: &Console, cast: &Cast, address: Ipv4Addr) -> Result<()> {
    console.chapter("The Service goes");
    let services = Api::<Service>::namespaced(cast.cluster.admin(), NAMESPACE);
    let start = Instant::now();
    services.delete(SERVICE, &DeleteParams::default()).await?;
    let step = Step::new("the Service is gone", 60, MOORING);
    console
        .run(step, async {
            let gone = async || {
                let found = services.get_opt(SERVICE).await?;
                ensure!(found.is_none(), "it is still there");
                Ok(())
            };
            step.until(gone).await?;
            Ok(((), "its block is marked: nobody's from then on".to_owned()))
        })
        .await?;
    let step = Step::new("the block is given back", 90, MOORING);
    console
        .run(step, async {
            step.until(async || {
                let left = cast.cloud.all(Kind::Block);
                ensure!(left.is_empty(), "there is {left:?}");
                Ok(())
            })
            .await?;
            let released = cast.cloud.releases().len();
            ensure!(released == 1, "{released} blocks were given back");
            let misdirected = cast.cloud.misdirected();
            ensure!(misdirected.is_empty(), "{misdirected:?}");
            Ok((
                (),
                format!("{} after the Service's deletion", short(start.elapsed())),
            ))
        })
        .await?;
    let step = Step::new("nobody answers for the address", 240, MOORING);
    console
        .run(step, async {
            network::await_silence(&cast.hands, cast.servers, address).await?;
            Ok(((), format!("the router asks for {address} in vain")))
        })
        .await
}
