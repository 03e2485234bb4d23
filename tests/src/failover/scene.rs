//! A cluster whose nodes fail, and a backend that does not.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_common::names::{annotations, labels};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Kubelet, NETWORK, Network};
use crate::netlab::{
    Capture, Direction, Echo, Host, Mac, Port, Segment, Watchdog, claims, raw::question,
};
use crate::objects::{PodBuilder, ServiceBuilder, create_namespace};
use crate::process::{Process, Spec};
use crate::program::Program;
use crate::wait::try_eventually;

/// The Kubernetes namespace of the Services.
pub const APP: &str = "app";

/// The host of the backend. It has no daemon.
const BACKEND: &str = "b1";

/// With which all heartbeats are signed.
const HEARTBEAT_KEY: &str = "3b1f0c64a7d2e98f5b6a1c0d4e7f8a92b3c4d5e6f708192a3b4c5d6e7f809102\n";

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
            release: false,
        }
    }
}

/// The cluster, with everything at work.
pub struct Scene {
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
    central: Process,
    changed: Vec<(String, Value)>,
    layout: Layout,
    /// Everything else.
    pub cluster: Cluster,
}

impl Scene {
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
        let cluster = Cluster::start(&hosts).await?;
        let (tcp, asker) = (cluster.lab.client("tcp")?, cluster.lab.client("asker")?);
        let segment = if layout.second_network {
            let members = cluster.nodes.iter().filter(|node| node.name() != BACKEND);
            Some(Segment::new(members.chain([
                &cluster.client,
                &tcp,
                &asker,
            ]))?)
        } else {
            None
        };
        let capture = match &segment {
            Some(segment) => segment.capture_control()?,
            None => cluster.lab.capture_control()?,
        };
        let kubelets = cluster.register().await?;
        let central = cluster.start_central(&["--node-daemon-grace=5s"]).await?;
        let mut scene = Self {
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
            cluster,
        };
        if let Err(error) = scene.populate().await {
            let logs = scene.daemons.iter();
            let logs = logs.map(|(name, daemon)| format!("--- {name}:\n{}", daemon.log_tail()));
            let logs: Vec<String> = logs.collect();
            return Err(error.context(logs.join("\n")));
        }
        Ok(scene)
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
        create_namespace(&self.cluster.admin(), APP).await?;
        try_join_all(names.iter().map(|name| self.has_address(name))).await?;
        let proxies = names.iter().map(async |name| {
            let proxy = self
                .cluster
                .node(name)
                .kube_proxy(&self.cluster.control_plane)
                .await?;
            anyhow::Ok(((*name).to_owned(), proxy))
        });
        let proxies: Vec<_> = try_join_all(proxies).await?;
        self.proxies.extend(proxies);
        self.start_backend().await?;
        self.network().create(&self.cluster).await?;
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
        let mut spec = daemon_spec(&self.cluster, self.cluster.node(name)).await?;
        if self.layout.release {
            spec.program = Program::Node.release_or_own()?.1;
        }
        Ok(spec)
    }

    async fn has_address(&self, name: &str) -> Result<()> {
        let nodes = Api::<Node>::all(self.cluster.admin());
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
        let host = self.cluster.node(node);
        let (v4, v6) = host.add_pod(number)?;
        for address in [IpAddr::from(v4), v6.into()] {
            self.echoes
                .push(host.echo(SocketAddr::new(address, Self::PORT))?);
        }
        PodBuilder::new(APP, &format!("{app}-{node}"))
            .node(node)
            .label("app", app)
            .running(&[&v4.to_string(), &v6.to_string()])
            .create(&self.cluster.admin())
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
        network.of_nodes_with("segment", "yes")
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
        service.create(&self.cluster.admin()).await?;
        let services = Api::<Service>::namespaced(self.cluster.admin(), APP);
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
            .cluster
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
        let node = self.cluster.node(name);
        self.segment
            .as_ref()
            .map_or_else(|| node.mac(), |segment| segment.mac(node))
    }

    /// The switch's end of a node's cable on the segment.
    pub fn port(&self, name: &str) -> Port {
        let node = self.cluster.node(name);
        self.segment
            .as_ref()
            .map_or_else(|| node.port(), |segment| segment.port(node))
    }

    /// Waits until somebody answers a question for the first Service's IPv4 address; gives the node.
    ///
    /// # Errors
    /// If nobody does in time.
    pub async fn speaker(&self) -> Result<String> {
        let [v4, _] = self.addresses();
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

    // --- what happens ---------------------------------------------------------------------------------

    /// Starts a node's daemon as it was started before.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_daemon(&mut self, name: &str) -> Result<()> {
        let daemon = self.new_daemon(name)?;
        self.daemons.insert(name.to_owned(), daemon);
        Ok(())
    }

    /// A further daemon on a node, beside the one that runs.
    ///
    /// # Errors
    /// If it does not start.
    pub fn new_daemon(&self, name: &str) -> Result<Process> {
        let spec = self.specs.get(name).context("no such node")?;
        self.cluster.node(name).start(spec.clone())
    }

    /// The node is without power: its daemon is gone, and so is its cable. Its service proxy is left,
    /// as nobody can tell.
    ///
    /// # Errors
    /// If the cable cannot be pulled.
    pub fn crash(&mut self, name: &str) -> Result<()> {
        self.kill(name);
        let node = self.cluster.node(name);
        if let Some(segment) = &self.segment {
            segment.port(node).pull()?;
        }
        node.port().pull()
    }

    /// Ends the daemon without a warning.
    pub fn kill(&mut self, name: &str) {
        // Dropping it does.
        drop(self.daemons.remove(name));
    }

    /// Tells the daemon to end, and waits until it has.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn terminate(&mut self, name: &str) -> Result<()> {
        let daemon = self.daemons.remove(name).context("it does not run")?;
        daemon.terminate()?;
        daemon.wait_for_exit(Duration::from_secs(20)).await;
        Ok(())
    }

    /// Cuts one node off the API server, or ends that.
    ///
    /// # Errors
    /// If a rule cannot be set.
    pub fn cut_from_api(&self, name: &str, cut: bool) -> Result<()> {
        let port = self.cluster.control_plane.url();
        let port = port.rsplit(':').next().unwrap_or_default();
        let port = port.trim_end_matches('/');
        let mut script = "add table inet no_api\ndelete table inet no_api\n".to_owned();
        if cut {
            script = format!(
                "add table inet no_api\n\
                 add chain inet no_api out {{ type filter hook output priority 0; }}\n\
                 add rule inet no_api out tcp dport {port} drop\n"
            );
        }
        let node = self.cluster.node(name);
        node.run(&["nft", &script]).map(drop)
    }

    /// Ends all faults: cables, rules, daemons that are gone or frozen, central, the API server.
    ///
    /// # Errors
    /// If all is not well again in time.
    pub async fn restore(&mut self) -> Result<()> {
        for name in self.layout.nodes.clone() {
            let node = self.cluster.node(name);
            let mut ports = vec![node.port()];
            ports.extend(self.segment.as_ref().map(|segment| segment.port(node)));
            for port in ports {
                port.mend()?;
                port.plug()?;
            }
            self.cut_from_api(name, false)?;
            let runs = self.daemons.get(name).is_some_and(Process::is_running);
            if runs {
                self.daemons[name].thaw()?;
            } else {
                self.start_daemon(name)?;
            }
        }
        if !self.cluster.control_plane.is_up() {
            self.cluster.control_plane.start_api_server().await?;
        }
        self.include_all().await?;
        if !self.central.is_running() {
            self.central = self
                .cluster
                .start_central(&["--node-daemon-grace=5s"])
                .await?;
        }
        self.settled().await
    }

    /// Changes a Node until the next [`Self::restore`], by merge patches: this one, and one that ends
    /// it.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn change_node(&mut self, node: &str, patch: Value, back: Value) -> Result<()> {
        self.changed.push((node.to_owned(), back));
        self.patch_node(node, patch).await
    }

    /// Ends what [`Self::change_node`] and [`Self::exclude`] have begun.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn include_all(&mut self) -> Result<()> {
        for (node, back) in std::mem::take(&mut self.changed) {
            self.patch_node(&node, back).await?;
        }
        Ok(())
    }

    /// Excludes a node from load balancers by its label, until the next [`Self::restore`].
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn exclude(&mut self, node: &str) -> Result<()> {
        let label = |value: Value| json!({ "metadata": { "labels": { labels::EXCLUDE_FROM_LOAD_BALANCERS: value } } });
        self.change_node(node, label("true".into()), label(Value::Null))
            .await
    }

    /// Changes labels of a Node, as a person would.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn label_node(&self, node: &str, labels: Value) -> Result<()> {
        self.patch_node(node, json!({ "metadata": { "labels": labels } }))
            .await
    }

    /// Changes a Node by a merge patch.
    ///
    /// # Errors
    /// If the API server does not take it.
    pub async fn patch_node(&self, node: &str, patch: Value) -> Result<()> {
        Api::<Node>::all(self.cluster.admin())
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    // --- being well -----------------------------------------------------------------------------------

    /// Waits until all members take part, one node answers for both addresses, and no burst is under
    /// way.
    ///
    /// # Errors
    /// If it does not come to be in time.
    pub async fn settled(&self) -> Result<()> {
        self.members_take_part().await?;
        let addresses = self.addresses();
        let probers: Vec<_> = addresses
            .iter()
            .map(|address| self.asker.prober_on(self.interface(), *address))
            .collect::<Result<_>>()?;
        try_eventually(SOON, async || {
            let speakers: Vec<_> = probers
                .iter()
                .map(|prober| prober.only_speaker(QUIET / 2))
                .collect();
            let frames = self.capture.since(Instant::now() - QUIET);
            let announced: usize = addresses
                .iter()
                .map(|address| claims::announcements(&frames, *address).len())
                .sum();
            ensure!(
                speakers.iter().all(Option::is_some)
                    && speakers.first() == speakers.last()
                    && announced == 0,
                "speakers {speakers:?}, {announced} announcements in the last second"
            );
            Ok(())
        })
        .await
        .map_err(|reason| anyhow::anyhow!("the scene does not settle: {reason}"))
    }

    /// Who decides on the segment.
    ///
    /// # Errors
    /// If the API server does not say.
    pub async fn voters(&self) -> Result<Vec<String>> {
        let networks = Api::<L2Network>::all(self.cluster.admin());
        let status = networks.get(NETWORK).await?.status.unwrap_or_default();
        Ok(status.voters.unwrap_or_default().nodes)
    }

    /// Waits until each member's daemon speaks to the others, and all are voters, or three of them.
    ///
    /// # Errors
    /// If it does not come to be in time.
    pub async fn members_take_part(&self) -> Result<()> {
        let members: Vec<_> = self.members().collect();
        let start = Instant::now();
        try_eventually(SOON, async || {
            let heard = claims::heartbeats(&self.capture.since(start));
            for name in &members {
                let beats = heard.get(&self.mac_of(name)).copied().unwrap_or_default();
                ensure!(beats >= 10, "{name} has sent {beats} heartbeats");
            }
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)?;
        let networks = Api::<L2Network>::all(self.cluster.admin());
        try_eventually(SOON, async || {
            let status = networks.get(NETWORK).await?.status.unwrap_or_default();
            let voters = self.voters().await?;
            let votes = |name: &&&str| voters.iter().any(|voter| voter == **name);
            let voting = members.iter().filter(votes).count();
            ensure!(
                voting >= members.len().min(3),
                "the voters are {voters:?}, of {members:?}"
            );
            for name in &members {
                let is_ready = |node: &SegmentNode| node.name == *name && node.ready;
                ensure!(
                    status.nodes.iter().any(is_ready),
                    "{name} is not ready: {:?}",
                    status.nodes
                );
            }
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)
    }

    /// What was said on the wire about the watched addresses since then, line by line: for failures.
    pub fn story(&self, since: Instant) -> String {
        let frames = self.capture.since(since);
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for address in self.addresses() {
            // Of many equal ones in a row, the first.
            let mut last = None;
            for claim in claims::claims(&frames, address) {
                if last.replace((claim.mac, claim.unasked)) == Some((claim.mac, claim.unasked)) {
                    continue;
                }
                let after = claim.at.duration_since(since).as_millis();
                let how = if claim.unasked {
                    "announces"
                } else {
                    "answers for"
                };
                let who = self.name_of(claim.mac);
                lines.push((claim.at, format!("{after:6} ms {who} {how} {address}")));
            }
        }
        lines.sort();
        let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }

    /// Asks once where the watched IPv4 address is, as the client's kernel would.
    ///
    /// # Errors
    /// If the frame cannot be sent.
    pub fn ask(&self) -> Result<()> {
        let client = &self.cluster.client;
        client.inject(&question(client, self.addresses()[0]))
    }

    /// Loses so many of a hundred heartbeats of all members, in both directions taken together.
    ///
    /// # Errors
    /// If a rule cannot be set.
    pub fn lose_heartbeats(&self, percent: u32) -> Result<()> {
        for name in self.members() {
            self.port(name)
                .lose_heartbeats(Direction::Receives, percent)?;
        }
        Ok(())
    }
}

/// What starts the daemon on a node, with what its Pod has mounted. All nodes of a lab share one `/run`.
///
/// # Errors
/// If there is no token for it, or a file cannot be written.
pub async fn daemon_spec(cluster: &Cluster, node: &Host) -> Result<Spec> {
    let mut spec = cluster.daemon_spec(node, &[]).await?;
    let folder = cluster.lab.folder();
    let keys = folder.join("heartbeat-keys");
    for (flag, path) in [
        ("state-dir", folder.join(format!("state-{}", node.name()))),
        ("heartbeat-key-file", keys.clone()),
    ] {
        std::fs::create_dir_all(&path)?;
        let start = format!("--{flag}=");
        spec.args.retain(|argument| !argument.starts_with(&start));
        spec.args.push(format!("{start}{}", path.display()));
    }
    std::fs::write(keys.join("1"), HEARTBEAT_KEY)?;
    Ok(spec)
}
