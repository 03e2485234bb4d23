//! A whole small cluster on a lab's bridge, with Mooring as it is shipped.
//!
//! ```text
//!   netlab: kube-apiserver, kube-controller-manager, mooring-central ── br0
//!             n1: mooring-node, kube-proxy, backends ── eth0 ─┤
//!             n2: …                                           ├─ client
//! ```
//!
//! The kubelets are played by [`Kubelet`]. Everything else is real: the manifests of `deploy/` are
//! applied, and the programs run with the arguments that these give them, under the
//! ServiceAccounts that these name, each daemon with the token of a Pod on its Node.
//!
//! ```no_run
//! # use mooring_test_netlab::netlab::in_netlab;
//! # use mooring_test_netlab::netlab_cluster::NetlabCluster;
//! // #[test]
//! fn something_about_addresses() {
//!     in_netlab(async || {
//!         let cluster = NetlabCluster::start(&["n1", "n2"]).await.unwrap();
//!         let central = cluster.start_central(&[]).await.unwrap();
//!         let daemons = cluster.start_daemons(&["--lease-duration=3s"]).await.unwrap();
//!         // ... what the suite is about ...
//!         cluster.assert_nothing_refused().await;
//!     });
//! }
//! ```

mod fence;
mod kubelet;
mod objects;
mod workloads;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::path::PathBuf;

use anyhow::{Context, Result};
use futures::future::try_join_all;

pub use fence::Fence;
pub use kubelet::Kubelet;
pub use objects::{NETWORK, Network};

use crate::netlab::{Host, Mac, Netlab};
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;

/// With which all heartbeats are signed.
pub const HEARTBEAT_KEY: &str =
    "3b1f0c64a7d2e98f5b6a1c0d4e7f8a92b3c4d5e6f708192a3b4c5d6e7f809102\n";

/// The cluster: nodes, a client, and a control plane. Programs are started one by one.
pub struct NetlabCluster {
    /// The nodes' hosts, in the order given.
    pub nodes: Vec<Host>,
    /// A host that is no node.
    pub client: Host,
    /// The control plane, on the bridge's own address, with the manifests.
    cluster: Cluster,
    /// The bridge.
    pub lab: Netlab,
    machines: MachinesFile,
}

impl Deref for NetlabCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl NetlabCluster {
    /// Makes the lab, starts the control plane and applies the manifests. There are no Nodes yet.
    pub async fn start(nodes: &[&str]) -> Result<Self> {
        let site = Site::build(nodes)?;
        let control_plane = site.control_plane().await?;
        site.install(control_plane).await
    }

    /// A node's host.
    pub fn node(&self, name: &str) -> &Host {
        let found = self.nodes.iter().find(|node| node.name() == name);
        found.unwrap_or_else(|| panic!("there is no node {name}"))
    }

    /// The node with this hardware address.
    pub fn node_of(&self, mac: Mac) -> Option<&Host> {
        self.nodes.iter().find(|node| node.mac() == mac)
    }

    /// Registers all nodes, tainted as by a kubelet with an external cloud provider.
    pub async fn register(&self) -> Result<BTreeMap<String, Kubelet>> {
        let kubelets = self.nodes.iter().map(async |node| {
            let kubelet = Kubelet::register(self, node.name()).await?;
            anyhow::Ok((node.name().to_owned(), kubelet))
        });
        Ok(try_join_all(kubelets).await?.into_iter().collect())
    }

    /// Starts central beside the API server, with the arguments of the Deployment and these.
    pub async fn start_central(&self, flags: &[&str]) -> Result<Process> {
        Process::start(&self.central_spec(flags).await?)
    }

    /// What [`Self::start_central`] starts.
    pub async fn central_spec(&self, flags: &[&str]) -> Result<Spec> {
        let kubeconfig = self.shipped.central_kubeconfig(self).await?;
        let spec = Program::Central
            .spec(
                self.folder(),
                workloads::central_arguments(&self.admin).await?,
            )?
            .args([
                self.machines.flag(),
                format!("--kubeconfig={}", kubeconfig.display()),
            ])
            .args(flags.iter().copied())
            .env("POD_NAMESPACE", mooring_common::names::NAMESPACE);
        Ok(spec)
    }

    /// Starts the daemon in a node's namespace, with the arguments of the DaemonSet and these. Its
    /// Node must be registered: the daemon's Pod runs on it.
    pub async fn start_daemon(&self, node: &Host, flags: &[&str]) -> Result<Process> {
        node.start(self.daemon_spec(node, flags).await?)
    }

    /// What [`Self::start_daemon`] starts.
    pub async fn daemon_spec(&self, node: &Host, flags: &[&str]) -> Result<Spec> {
        self.daemon_spec_of(node.name(), node.ipv4(), flags).await
    }

    /// [`Self::daemon_spec`] for a node that is elsewhere.
    pub async fn daemon_spec_of(
        &self,
        name: &str,
        address: Ipv4Addr,
        flags: &[&str],
    ) -> Result<Spec> {
        let kubeconfig = workloads::daemon_kubeconfig(self, name, address)
            .await
            .with_context(|| format!("a token for the daemon on {name}"))?;
        let mut spec = Program::Node
            .spec(
                self.lab.folder(),
                workloads::daemon_arguments(&self.admin).await?,
            )?
            .args([
                self.machines.flag(),
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--state-dir={}", self.lab.folder().join("state").display()),
                format!("--heartbeat-key-file={}", self.heartbeat_keys()?.display()),
            ])
            .args(flags.iter().copied())
            .env("NODE_NAME", name)
            .env("POD_NAMESPACE", mooring_common::names::NAMESPACE);
        spec.name = format!("mooring-node on {name}");
        Ok(spec)
    }

    /// The file with the key that the daemons sign with, as the kubelet would mount it.
    pub fn heartbeat_keys(&self) -> Result<PathBuf> {
        let path = self.lab.folder().join("heartbeat-keys");
        if !path.exists() {
            std::fs::write(&path, HEARTBEAT_KEY)?;
        }
        Ok(path)
    }

    /// Starts the daemons of all nodes.
    pub async fn start_daemons(&self, flags: &[&str]) -> Result<BTreeMap<String, Process>> {
        let daemons = self.nodes.iter().map(async |node| {
            let daemon = self.start_daemon(node, flags).await?;
            anyhow::Ok((node.name().to_owned(), daemon))
        });
        Ok(try_join_all(daemons).await?.into_iter().collect())
    }

    /// What all programs read of the machines.
    pub const fn machines_file(&self) -> &MachinesFile {
        &self.machines
    }

    /// Which node the client believes an address to be at.
    pub fn seen_at(&self, address: impl Into<IpAddr>) -> Result<Option<&Host>> {
        let mac = self.client.mac_of(address)?;
        Ok(mac.and_then(|mac| self.node_of(mac)))
    }
}

/// The lab without a control plane: for those who show one thing after the other.
#[derive(Debug)]
pub struct Site {
    /// The bridge.
    pub lab: Netlab,
    /// The nodes' hosts.
    pub nodes: Vec<Host>,
    /// A host that is no node.
    pub client: Host,
}

impl Site {
    /// Makes the bridge and the hosts.
    pub fn build(nodes: &[&str]) -> Result<Self> {
        let lab = Netlab::new()?;
        let nodes = nodes
            .iter()
            .map(|name| lab.node(name))
            .collect::<Result<_>>()?;
        let client = lab.client("client")?;
        Ok(Self { lab, nodes, client })
    }

    /// Starts the control plane, with the controller that looks after the life of Nodes.
    pub async fn control_plane(&self) -> Result<ControlPlane> {
        let options = Options::default()
            .bind(Netlab::GATEWAY_V4)
            .with_controller_manager()
            .controller("node-lifecycle-controller");
        ControlPlane::start(options).await
    }

    /// Applies the manifests, and writes the machines file that describes the hosts.
    pub async fn install(self, control_plane: ControlPlane) -> Result<NetlabCluster> {
        let cluster = Cluster::on(control_plane).await?;
        let machines = self.nodes.iter().enumerate().map(|(index, node)| {
            Machine::named(node.name())
                .internal(&node.ipv4().to_string())
                .internal(&node.ipv6().to_string())
                .address("Hostname", node.name())
                .placed("namespace.small", &format!("rack-{}", index + 1), "lab")
        });
        Ok(NetlabCluster {
            machines: MachinesFile::new(&Machines::of(machines))?,
            nodes: self.nodes,
            client: self.client,
            lab: self.lab,
            cluster,
        })
    }
}
