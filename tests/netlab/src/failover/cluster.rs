//! A cluster whose nodes fail, and a backend that does not.

mod deeds;
mod rest;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::Api;
use mooring_common::names::annotations;
use serde_json::{Value, json};

use crate::netlab::{Capture, Echo, Host, Mac, Port, ProxyMode, Segment, Watchdog};
use crate::netlab_cluster::{Kubelet, NETWORK, NetlabCluster, Network};
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// The Kubernetes namespace of the Services.
pub const APP: &str = "app";

/// The host of the backend. It has no daemon.
const BACKEND: &str = "b1";

/// How long the cluster may take to be as it should.
const SOON: Duration = Duration::from_secs(40);

/// Without announcements for so long, no burst is under way: its last rounds are 900 ms apart.
const QUIET: Duration = Duration::from_millis(1000);

/// What the cluster is like.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Nodes with a daemon.
    pub nodes: Vec<&'static str>,
    /// Of them, those that are not on the segment.
    pub off_segment: Vec<&'static str>,
    /// Service addresses have a bridge of their own, apart from that of the nodes.
    pub second_network: bool,
    /// How many more Services there are, each with an IPv4 and an IPv6 address.
    pub more_services: u8,
    /// How service proxies program the kernel.
    pub proxy_mode: ProxyMode,
    /// How many connections a [`super::Watch`] has.
    pub connections: usize,
    /// `spec.keepConnections`
    pub keep_connections: Option<&'static str>,
    /// Whether to measure release builds of Mooring's programs, where there are such.
    pub release: bool,
}

impl Layout {
    /// So many nodes on one bridge, `n1`, `n2` and so on: up to five.
    pub fn of(nodes: usize) -> Self {
        let names = ["n1", "n2", "n3", "n4", "n5"];
        Self {
            nodes: names.into_iter().take(nodes).collect(),
            off_segment: Vec::new(),
            second_network: false,
            more_services: 0,
            proxy_mode: ProxyMode::Nftables,
            connections: 4,
            keep_connections: None,
            release: false,
        }
    }
}

/// The cluster, with everything at work.
pub struct FailoverCluster {
    /// ARP, ICMPv6 and heartbeats on the segment, from the start.
    pub capture: Capture,
    /// Whether the rig keeps time.
    pub watchdog: Watchdog,
    /// The daemons that run, by their nodes.
    pub daemons: BTreeMap<String, Process>,
    /// How each is started.
    pub specs: BTreeMap<String, Spec>,
    /// The service proxies, by their nodes.
    pub proxies: BTreeMap<String, Process>,
    /// Where connections are made.
    pub tcp: Host,
    /// Where new neighbours ask.
    pub asker: Host,
    /// The segment's own bridge, where it has one.
    pub segment: Option<Segment>,
    echoes: Vec<Echo>,
    _kubelets: BTreeMap<String, Kubelet>,
    /// `mooring-central`.
    pub central: Process,
    changed: Vec<(String, Value)>,
    layout: Layout,
    /// Everything else.
    pub netlab: NetlabCluster,
}

impl FailoverCluster {
    /// The Service's port, for UDP and TCP.
    pub const PORT: u16 = 7;

    /// The number of the addresses that are watched.
    pub const FIRST: u8 = 100;

    /// Builds it all, and waits until the first Service's addresses are answered for.
    ///
    /// # Errors
    /// If a part does not start, or not in time.
    pub async fn build(layout: Layout) -> Result<Self> {
        let mut hosts = layout.nodes.clone();
        hosts.push(BACKEND);
        let netlab = NetlabCluster::start(&hosts).await?;
        let (tcp, asker) = (netlab.lab.client("tcp")?, netlab.lab.client("asker")?);
        let segment = if layout.second_network {
            let members = netlab.nodes.iter().filter(|node| node.name() != BACKEND);
            Some(Segment::new(members.chain([&netlab.client, &tcp, &asker]))?)
        } else {
            None
        };
        let capture = match &segment {
            Some(segment) => segment.capture_control()?,
            None => netlab.lab.capture_control()?,
        };
        let kubelets = netlab.register().await?;
        let central = netlab.start_central(&["--node-daemon-grace=5s"]).await?;
        let mut cluster = Self {
            capture,
            watchdog: Watchdog::start(),
            daemons: BTreeMap::new(),
            specs: BTreeMap::new(),
            proxies: BTreeMap::new(),
            tcp,
            asker,
            segment,
            echoes: Vec::new(),
            _kubelets: kubelets,
            central,
            changed: Vec::new(),
            layout,
            netlab,
        };
        if let Err(error) = cluster.populate().await {
            let logs = cluster.daemons.iter();
            let logs = logs.map(|(name, daemon)| format!("--- {name}:\n{}", daemon.log_tail()));
            let logs: Vec<String> = logs.collect();
            return Err(error.context(logs.join("\n")));
        }
        Ok(cluster)
    }

    async fn populate(&mut self) -> Result<()> {
        let names = self.layout.nodes.clone();
        for name in &names {
            let on = if self.layout.off_segment.contains(name) {
                "no"
            } else {
                "yes"
            };
            self.label_node(name, json!({ "segment": on })).await?;
            let spec = self.daemon_spec(name).await?;
            self.specs.insert((*name).to_owned(), spec);
            self.start_daemon(name)?;
        }
        create_namespace(&self.netlab.admin, APP).await?;
        try_join_all(names.iter().map(|name| self.has_address(name))).await?;
        let proxies = names.iter().map(async |name| {
            let node = self.netlab.node(name);
            let proxy = node.kube_proxy_in(self.layout.proxy_mode, &self.netlab);
            let proxy = proxy.await?;
            anyhow::Ok(((*name).to_owned(), proxy))
        });
        let proxies: Vec<_> = try_join_all(proxies).await?;
        self.proxies.extend(proxies);
        self.start_backend().await?;
        self.network().create(&self.netlab).await?;
        self.service("web", Self::FIRST, false).await?;
        let this = &*self;
        let more = (0..self.layout.more_services).map(async |number| {
            let (name, number) = (format!("more-{number}"), Self::FIRST + 1 + number);
            this.service(&name, number, false).await
        });
        let more: Vec<Result<()>> = stream::iter(more).buffer_unordered(10).collect().await;
        more.into_iter().collect::<Result<()>>()?;
        self.settled().await
    }

    async fn daemon_spec(&self, name: &str) -> Result<Spec> {
        let mut spec = daemon_spec(&self.netlab, self.netlab.node(name)).await?;
        if self.layout.release {
            spec.program = Program::Node.release_or_own()?.1;
        }
        Ok(spec)
    }

    async fn has_address(&self, name: &str) -> Result<()> {
        let nodes = Api::<Node>::all(self.netlab.admin.clone());
        try_eventually(SOON, async || {
            let status = nodes.get(name).await?.status.unwrap_or_default();
            let addresses = status.addresses.unwrap_or_default();
            ensure!(!addresses.is_empty(), "{name} has no address");
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)
    }

    async fn start_backend(&mut self) -> Result<()> {
        self.backend("web", BACKEND, 5).await
    }

    /// Starts a backend on a node, and makes its Pod, `<app>-<node>`, whose number on its node is free.
    ///
    /// # Errors
    /// If the Pod's addresses are taken, or the API server does not take it.
    pub async fn backend(&mut self, app: &str, node: &str, number: u8) -> Result<()> {
        let host = self.netlab.node(node);
        let (v4, v6) = host.add_pod(number)?;
        for address in [IpAddr::from(v4), v6.into()] {
            self.echoes
                .push(host.echo(SocketAddr::new(address, Self::PORT))?);
        }
        PodBuilder::new(APP, &format!("{app}-{node}"))
            .node(node)
            .label("app", app)
            .running(&[&v4.to_string(), &v6.to_string()])
            .create(&self.netlab.admin)
            .await?;
        Ok(())
    }

    fn network(&self) -> Network {
        let third = self.subnet();
        let last = 100 + u16::from(self.layout.more_services).max(20);
        let ranges = [
            format!("10.{third}.0.100-10.{third}.0.{last}"),
            format!("fd{third}::100/120"),
        ];
        let ranges = ranges.each_ref().map(String::as_str);
        let network = if self.layout.second_network {
            Network::of_the_segment(NETWORK, &ranges)
        } else {
            Network::new(NETWORK, &ranges)
        };
        let network = network.of_nodes_with("segment", "yes");
        match self.layout.keep_connections {
            Some(time) => network.keep_connections(time),
            None => network,
        }
    }

    /// 77, or 78 on the second network.
    fn subnet(&self) -> u8 {
        if self.layout.second_network { 78 } else { 77 }
    }

    /// Makes a Service for the Pods of its name, or `web`'s, with the addresses of this number: `10.77.0.<number>` and
    /// `fd77::<number>`, in which 100 is 0x100. With `externalTrafficPolicy: Local`, or not.
    ///
    /// # Errors
    /// If it has not its addresses in time.
    pub async fn service(&self, name: &str, number: u8, local: bool) -> Result<()> {
        let [v4, v6] = self.numbered(number);
        let mut service = ServiceBuilder::load_balancer(APP, name)
            .port_of("UDP", Self::PORT, Self::PORT)
            .port_of("TCP", Self::PORT, Self::PORT)
            .selector("app", if local { name } else { "web" })
            .families(&["IPv4", "IPv6"])
            .annotation(annotations::ADDRESSES_REQUEST, &format!("{v4},{v6}"));
        if local {
            service = service.local();
        }
        service.create(&self.netlab.admin).await?;
        let services = Api::<Service>::namespaced(self.netlab.admin.clone(), APP);
        try_eventually(SOON, async || {
            let status = services.get(name).await?.status.unwrap_or_default();
            let ingress = status.load_balancer.and_then(|status| status.ingress);
            ensure!(
                ingress.as_ref().is_some_and(|ingress| ingress.len() == 2),
                "the Service {name} has {ingress:?}"
            );
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)
    }

    /// The addresses of a Service by number.
    pub fn numbered(&self, number: u8) -> [IpAddr; 2] {
        let third = self.subnet();
        let prefix = if self.layout.second_network {
            0xfd78
        } else {
            0xfd77
        };
        let low = 0x100 + u16::from(number) - 100;
        [
            Ipv4Addr::new(10, third, 0, number).into(),
            Ipv6Addr::new(prefix, 0, 0, 0, 0, 0, 0, low).into(),
        ]
    }

    /// The addresses that are watched: of IPv4, of IPv6.
    pub fn addresses(&self) -> [IpAddr; 2] {
        self.numbered(Self::FIRST)
    }

    /// The interface of all hosts on the segment.
    pub fn interface(&self) -> &'static str {
        if self.segment.is_some() {
            Segment::INTERFACE
        } else {
            "eth0"
        }
    }

    /// How many connections a [`super::Watch`] has.
    pub(super) fn connections(&self) -> usize {
        self.layout.connections
    }

    /// The nodes with a daemon that are on the segment.
    pub fn members(&self) -> impl Iterator<Item = &'static str> {
        let off = &self.layout.off_segment;
        let nodes = self.layout.nodes.iter().copied();
        nodes.filter(move |name| !off.contains(name))
    }

    // --- who is who -----------------------------------------------------------------------------------

    /// The name of the host with a hardware address, on either network.
    pub fn name_of(&self, mac: Mac) -> String {
        let number = mac.0[5];
        let node = self
            .netlab
            .nodes
            .iter()
            .find(|node| node.mac().0[5] == number);
        match node {
            Some(node) if mac.0[..4] == node.mac().0[..4] => node.name().to_owned(),
            _ => mac.to_string(),
        }
    }

    /// The hardware address of a node on the segment.
    pub fn mac_of(&self, name: &str) -> Mac {
        let node = self.netlab.node(name);
        self.segment
            .as_ref()
            .map_or_else(|| node.mac(), |segment| segment.mac(node))
    }

    /// The switch's end of a node's cable on the segment.
    pub fn port(&self, name: &str) -> Port {
        let node = self.netlab.node(name);
        self.segment
            .as_ref()
            .map_or_else(|| node.port(), |segment| segment.port(node))
    }

    /// Waits until somebody answers a question for the first Service's IPv4 address; gives the node.
    ///
    /// # Errors
    /// If nobody does in time.
    pub async fn speaker(&self) -> Result<String> {
        self.speaker_of(Self::FIRST).await
    }

    /// [`Self::speaker`] of the Service with these addresses.
    ///
    /// # Errors
    /// If nobody speaks in time.
    pub async fn speaker_of(&self, number: u8) -> Result<String> {
        let [v4, _] = self.numbered(number);
        let prober = self.asker.prober_on(self.interface(), v4)?;
        let mac = try_eventually(SOON, async || {
            prober.only_speaker(Duration::from_millis(100))
        })
        .await
        .map_err(|_| anyhow::anyhow!("nobody speaks for {v4}"))?;
        Ok(self.name_of(mac))
    }

    /// A member that does not speak now.
    ///
    /// # Errors
    /// If nobody speaks.
    pub async fn other(&self) -> Result<&'static str> {
        let speaker = self.speaker().await?;
        self.members()
            .find(|name| *name != speaker)
            .context("the speaker is alone")
    }
}

/// What starts the daemon on a node, with what its Pod has mounted. All nodes of a lab share one `/run`.
///
/// # Errors
/// If there is no token for it, or a file cannot be written.
pub async fn daemon_spec(cluster: &NetlabCluster, node: &Host) -> Result<Spec> {
    let state = cluster.lab.folder().join(format!("state-{}", node.name()));
    std::fs::create_dir_all(&state)?;
    let mut spec = cluster.daemon_spec(node, &[]).await?;
    spec.args
        .retain(|argument| !argument.starts_with("--state-dir="));
    spec.args.push(format!("--state-dir={}", state.display()));
    Ok(spec)
}
