//! Nodes of a control plane behind one address, without a cluster: `mooring-node control-plane` on each, by its
//! file, beside an API server, or what stands in for one.
//!
//! ```text
//!   cp1, cp2 …: mooring-node control-plane, API server ── br0 ── client: datagrams to the address
//!                        every file and state is its own       └─ asker: a new neighbour, 50 times a second
//! ```

mod kube_vip;
mod node;
pub mod stand_in;
mod watch;
mod writer;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use node::{ControlPlaneNode, Part, State};
pub use watch::Watch;
pub use writer::{Noticed, Writer};

use crate::failover::Seen;
use crate::failover::faults::until_measured;
use crate::netlab::{Host, Mac, Netlab, Watchdog};
use mooring_test_cluster::control_plane::StackedNodes;
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// The control plane's addresses.
pub const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 100)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 0x100)),
];

/// Where what stands in for an API server sends datagrams back.
pub const ECHO: u16 = 7;

/// How long everything may take to be as it should. A node whose API server has failed twice within a minute waits
/// for a while before it counts as ready.
const SOON: Duration = Duration::from_secs(60);

/// How long is watched after a fault at least: longer than any wrong answer takes to come.
const AFTER: Duration = Duration::from_millis(1500);

/// When is given up that all be well again.
const LIMIT: Duration = Duration::from_secs(20);

/// Who votes, by a file.
#[derive(Clone, Debug)]
pub struct Members {
    /// Goes up by one with each change.
    pub revision: u64,
    /// The control-plane nodes.
    pub members: Vec<&'static str>,
    /// Who votes only.
    pub witness: Option<&'static str>,
}

impl Members {
    /// These nodes.
    pub fn new(revision: u64, members: &[&'static str]) -> Self {
        Self {
            revision,
            members: members.to_vec(),
            witness: None,
        }
    }

    /// The same with a witness.
    #[must_use]
    pub fn with_witness(mut self, witness: &'static str) -> Self {
        self.witness = Some(witness);
        self
    }

    /// All that vote.
    pub fn voters(&self) -> impl Iterator<Item = &'static str> {
        self.members.iter().copied().chain(self.witness)
    }
}

/// The nodes, and who asks.
pub struct ControlPlaneNodes {
    /// Whether the rig keeps time.
    pub watchdog: Watchdog,
    /// Sends datagrams.
    pub client: Host,
    /// Where new neighbours ask.
    pub asker: Host,
    /// The nodes.
    pub nodes: Vec<ControlPlaneNode>,
    /// The real API servers, if there are any.
    pub stacked: Option<StackedNodes>,
    /// Everything else.
    pub lab: Netlab,
}

impl ControlPlaneNodes {
    /// Makes the hosts and what stands in for the API servers. Nothing runs yet.
    ///
    /// # Errors
    /// If a host cannot be made, or a file written.
    pub fn new(names: &[&'static str]) -> Result<Self> {
        let lab = Netlab::new()?;
        let hosts = names.iter().map(|name| lab.node(name));
        let hosts: Vec<Host> = hosts.collect::<Result<_>>()?;
        let (client, asker) = (lab.client("client")?, lab.client("asker")?);
        let nodes = hosts
            .into_iter()
            .map(|host| ControlPlaneNode::new(host, lab.folder()));
        Ok(Self {
            watchdog: Watchdog::start(),
            client,
            asker,
            nodes: nodes.collect::<Result<_>>()?,
            stacked: None,
            lab,
        })
    }

    /// [`Self::new`] with a real API server and a real member of etcd on each node.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub async fn with_api_servers(names: &[&'static str]) -> Result<Self> {
        let mut nodes = Self::new(names)?;
        let own = nodes.nodes.iter();
        let own = own.map(|node| (node.name(), node.host.ipv4().into()));
        let own: Vec<(&str, IpAddr)> = own.collect();
        let stacked = StackedNodes::new(ADDRESSES[0], &own).await?;
        for node in &mut nodes.nodes {
            let real = stacked.node(node.name())?;
            node.set(Part::Etcd, real.etcd);
            node.set(Part::ApiServer, real.api_server);
        }
        nodes.stacked = Some(stacked);
        Ok(nodes)
    }

    /// Measures release builds, where there are such.
    ///
    /// # Errors
    /// If there is no build at all.
    pub fn run_release(&mut self) -> Result<()> {
        let program = Program::Node.release_or_own()?.1;
        for node in &mut self.nodes {
            node.run_announcer(program.clone())?;
        }
        Ok(())
    }

    /// A client that writes to the API server behind the address.
    ///
    /// # Errors
    /// If there are no API servers.
    pub async fn writer(&self) -> Result<Writer> {
        let stacked = self.stacked.as_ref().context("there are no API servers")?;
        Ok(Writer::start(&self.client, stacked.admin().await?))
    }

    /// A node.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn node(&self, name: &str) -> &ControlPlaneNode {
        let node = self.nodes.iter().find(|node| node.name() == name);
        node.unwrap_or_else(|| panic!("no node {name}"))
    }

    /// A node, to do something to it.
    ///
    /// # Panics
    /// If there is none of this name.
    pub fn node_mut(&mut self, name: &str) -> &mut ControlPlaneNode {
        let node = self.nodes.iter_mut().find(|node| node.name() == name);
        node.unwrap_or_else(|| panic!("no node {name}"))
    }

    /// Writes the same file on these nodes.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write_file(&self, on: &[&str], members: &Members) -> Result<()> {
        let text = self.file(members);
        on.iter()
            .try_for_each(|name| self.node(name).write_file(&text))
    }

    fn file(&self, members: &Members) -> String {
        let member = |name: &&str| {
            let address = self.node(name).host.ipv4();
            format!("{{name: {name}, address: {address}}}")
        };
        let listed: Vec<String> = members.members.iter().map(member).collect();
        let witness = members.witness.iter().map(member);
        let witness: String = witness.map(|one| format!("witness: {one}\n")).collect();
        let key = self.lab.folder().join("heartbeat.key");
        format!(
            "version: 1\nrevision: {}\naddresses: [{}, \"{}\"]\ninterface: eth0\nmembers: [{}]\n{witness}keyFile: {}\n",
            members.revision,
            ADDRESSES[0],
            ADDRESSES[1],
            listed.join(", "),
            key.display(),
        )
    }

    /// Writes the file on all of its nodes, starts them, and waits until they go by it.
    ///
    /// # Errors
    /// If they do not in time.
    pub async fn start(&mut self, members: &Members) -> Result<()> {
        let names: Vec<&str> = members.voters().collect();
        self.write_file(&names, members)?;
        for name in names {
            let serves = members.members.contains(&name);
            self.node_mut(name).boot(serves)?;
        }
        self.settled(members).await
    }

    /// Ends all faults, and waits until all is well.
    ///
    /// # Errors
    /// If that does not come about in time.
    pub async fn restore(&mut self, members: &Members) -> Result<()> {
        for name in members.voters() {
            let serves = members.members.contains(&name);
            self.node_mut(name).boot(serves)?;
        }
        self.settled(members).await
    }

    /// Waits until all that the file names go by it, hear each other, and one has the address.
    ///
    /// # Errors
    /// If that does not come about in time.
    pub async fn settled(&self, members: &Members) -> Result<()> {
        let voters: Vec<&str> = members.voters().collect();
        let look = async || {
            let mut held = Vec::new();
            for name in &voters {
                let state = self.node(name).state().await?;
                let wanted = State {
                    ready: members.members.contains(name),
                    revision: members.revision,
                    quorum: true,
                    peers: voters.len() - 1,
                    announced: state.addresses,
                    addresses: state.addresses,
                };
                ensure!(state == wanted, "{name} is {state:?}");
                held.push(state.addresses);
            }
            held.retain(|addresses| *addresses > 0);
            ensure!(
                held == [ADDRESSES.len()],
                "addresses of each that has any: {held:?}"
            );
            Ok(())
        };
        let settled = try_eventually(SOON, look).await;
        settled.map_err(|reason| {
            let logs = self.nodes.iter().map(ControlPlaneNode::log_tail);
            let logs: Vec<String> = logs.collect();
            anyhow::anyhow!("not settled: {reason}\n{}", logs.join("\n"))
        })
    }

    /// The name of the host with a hardware address.
    pub fn name_of(&self, mac: Mac) -> String {
        let node = self.nodes.iter().find(|node| node.host.mac() == mac);
        node.map_or_else(|| mac.to_string(), |node| node.name().to_owned())
    }

    /// Lets something befall whoever has the address, until it has been measured so many times by a rig that kept
    /// time, and restores everything each time. That never two answer is asserted each time.
    /// Another node has the address afterwards.
    ///
    /// # Errors
    /// If the fault cannot be made, or not all is well in time, or the machine is too busy.
    pub async fn measure(
        &mut self,
        times: usize,
        members: &Members,
        fault: impl Fn(&mut Self, &str) -> Result<()>,
    ) -> Result<Vec<Seen>> {
        until_measured(times, async || self.measure_once(members, &fault).await).await
    }

    /// The same once, whether the rig keeps time or not.
    ///
    /// # Errors
    /// See [`Self::measure`].
    pub async fn measure_once(
        &mut self,
        members: &Members,
        fault: impl Fn(&mut Self, &str) -> Result<()>,
    ) -> Result<Seen> {
        let (mut watch, speaker) = self.watch_speaker().await?;
        watch.begin();
        fault(self, &speaker)?;
        watch.settle(AFTER, LIMIT).await;
        let seen = watch.end(self);
        println!("{seen}");
        seen.assert_safe();
        ensure!(
            seen.speakers.last().is_some_and(|last| *last != speaker),
            "{speaker} still has the address: {seen}"
        );
        self.restore(members).await?;
        Ok(seen)
    }
}
