//! What all tests of this suite stand on.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_common::names::{NAMESPACE, annotations, node_lease};
use mooring_test_cluster::objects::{
    EventNote, PodBuilder, ServiceBuilder, create_namespace, events_for,
};
use mooring_test_netlab::netlab::raw::question;
use mooring_test_netlab::netlab::{Capture, Frame, Host, Mac};
use mooring_test_netlab::netlab_cluster::{Kubelet, NETWORK, NetlabCluster, Network};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

/// What "eventually" means here.
pub const SOON: Duration = Duration::from_secs(15);

/// The nodes.
pub const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// The namespace of the Services.
pub const APP: &str = "app";

/// Three nodes that can speak, central, and every frame on the bridge.
pub struct AnnounceCluster {
    pub capture: Capture,
    pub daemons: BTreeMap<String, Process>,
    /// How each daemon is started: again, without asking the API server for a token.
    pub specs: BTreeMap<String, Spec>,
    _kubelets: BTreeMap<String, Kubelet>,
    central: Process,
    pub netlab: NetlabCluster,
}

/// A service address.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

impl Addresses {
    /// `10.77.0.<number>` and `fd77::<number>`, of the lab's L2Network: 100 to 109.
    pub fn number(number: u8) -> Self {
        let digits = u16::from(number - 100) | 0x100;
        Self {
            v4: Ipv4Addr::new(10, 77, 0, number),
            v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, digits),
        }
    }

    pub fn both(self) -> [IpAddr; 2] {
        [self.v4.into(), self.v6.into()]
    }
}

/// Somebody says on the wire where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub at: Instant,
    /// As the packet says.
    pub mac: Mac,
    /// Whose frame it is.
    pub source: Mac,
    pub unasked: bool,
}

impl AnnounceCluster {
    /// Everything at work, and no Service yet.
    pub async fn start(daemon_flags: &[&str]) -> Self {
        Self::start_on(Network::of_the_bridge(), daemon_flags).await
    }

    /// [`Self::start`] with another L2Network, of the same name.
    pub async fn start_on(network: Network, daemon_flags: &[&str]) -> Self {
        Self::start_with(network, &[], daemon_flags).await
    }

    /// [`Self::start_on`] as the chart does without a cloud.
    pub async fn start_without_cloud(network: Network) -> Self {
        Self::start_with(network, &["--cloud-provider=none"], &["--report=false"]).await
    }

    async fn start_with(network: Network, central_flags: &[&str], daemon_flags: &[&str]) -> Self {
        let cluster = NetlabCluster::start(&NODES).await.unwrap();
        let kubelets = cluster.register().await.unwrap();
        let central = cluster.start_central(central_flags).await.unwrap();
        let mut specs = BTreeMap::new();
        let mut daemons = BTreeMap::new();
        for node in &cluster.nodes {
            let spec = cluster.daemon_spec(node, daemon_flags).await.unwrap();
            let daemon = node.start(spec.clone()).unwrap();
            daemons.insert(node.name().to_owned(), daemon);
            specs.insert(node.name().to_owned(), spec);
        }
        create_namespace(&cluster.admin, APP).await.unwrap();
        network.create(&cluster).await.unwrap();
        let cluster = Self {
            capture: cluster.lab.capture().unwrap(),
            daemons,
            specs,
            _kubelets: kubelets,
            central,
            netlab: cluster,
        };
        for node in NODES {
            cluster.can_speak(node).await;
        }
        cluster.all_vote().await;
        cluster
    }

    /// The warnings and errors in the logs of central and of the daemons that run.
    pub fn warnings(&self) -> Vec<String> {
        let daemons = self.daemons.values().map(Process::log);
        let logs: Vec<_> = daemons.chain([self.central.log()]).collect();
        let lines = logs.iter().flat_map(|log| log.lines());
        let warnings = lines.filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
        warnings.map(str::to_owned).collect()
    }

    /// Waits until all three nodes are voters: from then on one of them may be lost.
    pub async fn all_vote(&self) {
        let networks = Api::<L2Network>::all(self.netlab.admin.clone());
        eventually("all nodes vote", SOON * 2, async || {
            let network = networks.get(NETWORK).await?;
            let voters = network.status.and_then(|status| status.voters);
            let names = voters.map(|voters| voters.nodes).unwrap_or_default();
            anyhow::ensure!(names == NODES, "{names:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Waits until the node's Lease says that it can speak.
    pub async fn can_speak(&self, node: &str) {
        let leases = Api::<Lease>::namespaced(self.netlab.admin.clone(), NAMESPACE);
        eventually(&format!("{node} can speak"), SOON, async || {
            let lease = leases.get(&node_lease(node)).await.ok()?;
            let holder = lease.spec?.holder_identity.unwrap_or_default();
            let segments = lease.metadata.annotations?;
            (segments.get(annotations::LEASE_SEGMENTS)?.contains(NETWORK) && !holder.is_empty())
                .then_some(())
        })
        .await;
    }

    /// Ends central at once.
    pub fn stop_central(&mut self) {
        self.central.kill();
    }

    /// Ends central as an update does, and starts this program in its place.
    pub async fn replace_central(&mut self, program: &Path) {
        self.central.terminate().unwrap();
        self.central.wait_for_code(SOON).await;
        let mut spec = self.netlab.central_spec(&[]).await.unwrap();
        spec.program = program.to_owned();
        self.central = Process::start(&spec).unwrap();
    }

    /// Starts central again if it has ended, as its kubelet would: without its Lease it ends.
    pub async fn central_is_back(&mut self) {
        if !self.central.is_running() {
            self.central = self.netlab.start_central(&[]).await.unwrap();
        }
    }

    /// What the L2Network says of a node.
    pub async fn entry(&self, node: &str) -> Option<SegmentNode> {
        let networks = Api::<L2Network>::all(self.netlab.admin.clone());
        let status = networks.get(NETWORK).await.ok()?.status?;
        status.nodes.into_iter().find(|entry| entry.name == node)
    }

    // --- objects ------------------------------------------------------------------------------

    /// A Pod of this name and label, ready on a node.
    pub async fn pod(&self, app: &str, node: &str) {
        let number = node.trim_start_matches('n');
        PodBuilder::new(APP, &format!("{app}-{node}"))
            .node(node)
            .label("app", app)
            .running(&[&format!("10.244.9.{number}"), &format!("fd44:9::{number}")])
            .create(&self.netlab.admin)
            .await
            .unwrap();
    }

    /// Takes the Pod away at once.
    pub async fn delete_pod(&self, app: &str, node: &str) {
        let pods = Api::<Pod>::namespaced(self.netlab.admin.clone(), APP);
        let at_once = DeleteParams::default().grace_period(0);
        let name = format!("{app}-{node}");
        pods.delete(&name, &at_once).await.unwrap();
    }

    /// A dual-stack Service for the Pods of this name, with these addresses. Returns once it has
    /// them.
    pub async fn service(&self, name: &str, addresses: Addresses, local: bool) {
        let wanted = format!("{},{}", addresses.v4, addresses.v6);
        let mut service = ServiceBuilder::load_balancer(APP, name)
            .port(80, 8080)
            .selector("app", name)
            .families(&["IPv4", "IPv6"])
            .annotation(annotations::ADDRESSES_REQUEST, &wanted);
        if local {
            service = service.local();
        }
        service.create(&self.netlab.admin).await.unwrap();
        let services = self.services();
        eventually(&format!("{name} has its addresses"), SOON, async || {
            let status = services.get(name).await.ok()?.status?.load_balancer?;
            (status.ingress?.len() == 2).then_some(())
        })
        .await;
    }

    pub fn services(&self) -> Api<Service> {
        Api::namespaced(self.netlab.admin.clone(), APP)
    }

    /// Deletes a Service and waits until it is gone.
    pub async fn delete_service(&self, name: &str) {
        let services = self.services();
        services
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
        // A central that was just started waits for the Lease of the one before, 15 s, to expire.
        eventually(&format!("{name} is gone"), SOON * 3, async || {
            matches!(services.get_opt(name).await, Ok(None))
        })
        .await;
    }

    /// Changes labels of a Node, as a person would.
    pub async fn label_node(&self, node: &str, labels: Value) {
        self.patch_node(node, json!({ "labels": labels })).await;
    }

    /// Annotates a Node.
    pub async fn annotate_node(&self, node: &str, annotations: Value) {
        self.patch_node(node, json!({ "annotations": annotations }))
            .await;
    }

    async fn patch_node(&self, node: &str, metadata: Value) {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        Api::<k8s_openapi::api::core::v1::Node>::all(self.netlab.admin.clone())
            .patch(node, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits for an Event with this reason about an object.
    pub async fn told(&self, kind: &str, name: &str, reason: &str, words: &str) -> EventNote {
        let namespace = (kind == "Service").then_some(APP);
        let admin = self.netlab.admin.clone();
        eventually(
            &format!("an Event {reason} about {name}"),
            SOON,
            async || {
                let events = events_for(&admin, kind, namespace, name).await.ok()?;
                let fits = |event: &EventNote| event.reason == reason && event.note.contains(words);
                events.into_iter().find(fits)
            },
        )
        .await
    }

    /// How many Leases there are and when each was renewed last: for markers.
    pub async fn renewals(&self) -> BTreeMap<String, String> {
        let leases = Api::<Lease>::namespaced(self.netlab.admin.clone(), NAMESPACE);
        let Ok(list) = leases.list(&ListParams::default()).await else {
            return BTreeMap::new();
        };
        list.into_iter()
            .filter_map(|lease| Some((lease.metadata.name?, lease.metadata.resource_version?)))
            .collect()
    }

    // --- the wire -----------------------------------------------------------------------------

    /// Who has said on the wire since then that the address is theirs.
    pub fn claims(&self, address: impl Into<IpAddr>, since: Instant) -> Vec<Claim> {
        let address = address.into();
        let frames = self.capture.since(since);
        frames
            .iter()
            .filter_map(|frame| claim(frame, address))
            .collect()
    }

    /// The nodes that have claimed it since then, each once.
    pub fn claimants(&self, address: impl Into<IpAddr>, since: Instant) -> Vec<String> {
        let mut names: Vec<String> = self
            .claims(address, since)
            .iter()
            .map(|claim| self.name_of(claim.mac))
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn name_of(&self, mac: Mac) -> String {
        let node = self.netlab.node_of(mac);
        node.map_or_else(|| mac.to_string(), |node| node.name().to_owned())
    }

    /// Waits until somebody announces the address unasked, since then; gives the first claim.
    pub async fn announced(&self, address: impl Into<IpAddr>, since: Instant) -> (Claim, &Host) {
        let address = address.into();
        let claim = eventually(&format!("{address} is announced"), SOON, async || {
            let claims = self.claims(address, since);
            claims.into_iter().find(|claim| claim.unasked)
        })
        .await;
        let node = self.netlab.node_of(claim.mac);
        (claim, node.expect("one of ours announces it"))
    }

    /// Waits until a given node announces the address unasked; gives the time.
    pub async fn announced_by(
        &self,
        node: &str,
        address: impl Into<IpAddr>,
        since: Instant,
    ) -> Instant {
        let address = address.into();
        let mac = self.netlab.node(node).mac();
        eventually(&format!("{node} announces {address}"), SOON, async || {
            let claims = self.claims(address, since);
            claims
                .into_iter()
                .find(|claim| claim.unasked && claim.mac == mac)
        })
        .await
        .at
    }

    /// Asks everybody on the segment once, as the client's kernel would.
    pub fn ask(&self, address: impl Into<IpAddr>) {
        let client = &self.netlab.client;
        client.inject(&question(client, address.into())).unwrap();
    }

    /// Asks every few milliseconds until a node other than this one answers; gives it and the time.
    pub async fn answered_by_another(
        &self,
        address: impl Into<IpAddr>,
        than: &str,
        since: Instant,
    ) -> (String, Instant) {
        let address = address.into();
        let old = self.netlab.node(than).mac();
        let claim = eventually(
            &format!("another answers for {address}"),
            SOON,
            async || {
                self.ask(address);
                let claims = self.claims(address, since);
                claims.into_iter().find(|claim| claim.mac != old)
            },
        )
        .await;
        (self.name_of(claim.mac), claim.at)
    }

    /// Asks until somebody answers; gives the node.
    pub async fn answered(&self, address: impl Into<IpAddr>) -> String {
        let address = address.into();
        let start = Instant::now();
        let claim = eventually(&format!("{address} is answered for"), SOON, async || {
            self.ask(address);
            let claims = self.claims(address, start);
            claims.into_iter().find(|claim| !claim.unasked)
        })
        .await;
        self.name_of(claim.mac)
    }
}

/// What a frame claims about an address, in whatever form.
pub fn claim(frame: &Frame, address: IpAddr) -> Option<Claim> {
    let source = frame.source()?;
    let (mac, unasked) = match address {
        IpAddr::V4(address) => {
            let arp = frame.arp().filter(|arp| arp.sender == address)?;
            (arp.sender_mac, arp.is_request || arp.is_gratuitous())
        }
        IpAddr::V6(address) => {
            let told = frame
                .neighbour_advertisement()
                .filter(|told| told.target == address)?;
            // Answers to duplicate address detection go to everybody as well, but do not override.
            (
                told.mac.unwrap_or(source),
                !told.solicited && told.overrides,
            )
        }
    };
    Some(Claim {
        at: frame.at,
        mac,
        source,
        unasked,
    })
}
