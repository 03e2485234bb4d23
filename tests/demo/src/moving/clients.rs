//! Clients of every address that notice each silence.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::super::console::{Console, Step};
use super::services::{PORT, addresses};
use mooring_test_netlab::netlab::{Mac, Prober, UdpFlow};
use mooring_test_netlab::netlab_cluster::NetlabCluster;

/// How many datagrams each client sends.
const PER_SECOND: u32 = 100;

/// Who has answered all questions for so long is the speaker.
const STEADY: Duration = Duration::from_millis(400);

/// All clients.
pub(super) struct Clients {
    since: Instant,
    clients: Vec<Client>,
}

/// One address, and who asks.
struct Client {
    service: String,
    address: IpAddr,
    /// Asks what answers, with a neighbour that its kernel knows.
    flow: UdpFlow,
    /// Asks where the address is, as who has not known it. IPv4 alone: MetalLB answers IPv6 through its
    /// kernel, which asks in turn where the asker is, and who asks here does not answer.
    prober: Option<Prober>,
    before: Mac,
}

/// What the clients of an address have seen.
pub(super) struct Seen {
    pub(super) service: String,
    pub(super) address: IpAddr,
    /// The nodes that spoke first, and last.
    pub(super) before: String,
    pub(super) after: String,
    /// The longest time without an answer.
    pub(super) silence: Duration,
    /// How long nobody said where the address is, in sum, and how long two did.
    pub(super) neighbours: Option<(Duration, Duration)>,
}

impl Clients {
    /// Lets them ask, and waits until each is answered.
    pub(super) async fn start(console: &Console, cluster: &NetlabCluster) -> Result<Self> {
        let step = Step::new("clients ask without a pause", 60, &["metallb"]);
        console
            .run(step, async {
                let mut clients: Vec<Client> = Vec::new();
                for (service, addresses) in addresses(cluster).await? {
                    for address in addresses {
                        // Of those that share it, the one with datagrams.
                        if service != "names-tcp" {
                            let client = ask(cluster, &service, address).await?;
                            clients.push(client);
                        }
                    }
                }
                let seen = format!(
                    "{} addresses, {PER_SECOND} datagrams a second each",
                    clients.len()
                );
                let clients = Self {
                    since: Instant::now(),
                    clients,
                };
                Ok((clients, seen))
            })
            .await
    }

    /// Whether each address has one speaker.
    pub(super) fn each_has_one_speaker(&self) -> Result<()> {
        for client in &self.clients {
            if let Some(prober) = &client.prober {
                only_speaker(prober, client.address)?;
            }
        }
        Ok(())
    }

    /// Stops them. `cluster`: where they asked.
    pub(super) fn end(self, cluster: &NetlabCluster) -> Result<Vec<Seen>> {
        let name = |mac: Mac| {
            let node = cluster.node_of(mac);
            node.map_or_else(|| mac.to_string(), |node| node.name().to_owned())
        };
        let since = self.since;
        let seen = self.clients.into_iter().map(|client| {
            let after = speaker(cluster, client.address)?;
            let answers = client.prober.map(|prober| prober.end(since));
            Ok(Seen {
                before: name(client.before),
                after: name(after),
                silence: client.flow.end(since).longest,
                neighbours: answers.map(|answers| (answers.dark(), answers.two())),
                service: client.service,
                address: client.address,
            })
        });
        seen.collect()
    }
}

fn only_speaker(prober: &Prober, address: IpAddr) -> Result<Mac> {
    let speaker = prober.only_speaker(STEADY);
    speaker.with_context(|| format!("not one, and always one, answers for {address}"))
}

/// Where the client's kernel believes the address to be.
fn speaker(cluster: &NetlabCluster, address: IpAddr) -> Result<Mac> {
    let mac = cluster.client.mac_of(address)?;
    mac.with_context(|| format!("the client does not know where {address} is"))
}

async fn ask(cluster: &NetlabCluster, service: &str, address: IpAddr) -> Result<Client> {
    let step = Step::new("a client is answered", 9, &[]);
    let flow = cluster
        .client
        .udp_flow(SocketAddr::new(address, PORT), PER_SECOND)?;
    step.until(async || {
        ensure!(
            flow.flows_since(STEADY),
            "{service} does not answer at {address}"
        );
        Ok(())
    })
    .await?;
    let prober = if address.is_ipv4() {
        let prober = cluster.client.prober(address)?;
        step.until(async || only_speaker(&prober, address)).await?;
        Some(prober)
    } else {
        None
    };
    Ok(Client {
        service: service.to_owned(),
        address,
        flow,
        prober,
        before: speaker(cluster, address)?,
    })
}
