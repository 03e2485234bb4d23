//! The cluster: control plane, scheduler, three machines, and a client.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, ListParams};
use mooring_common::names::taints::UNINITIALIZED;
use mooring_test_cluster::cluster::{has_taint, provider_id};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_netlab::netlab::{Host, Netlab};
use mooring_test_netlab::netlab_cluster::Site;
use mooring_test_support::process::{Process, Spec};

use super::super::console::Console;
use super::super::scenario::NODES;
use super::guide::Page;
use super::images::Images;
use super::machine::{CloudProvider, Machine, node_programs};
use super::shell::Shell;

/// The control plane's address: the first of the page, in the lab's network.
pub(super) const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 100);

/// The controllers that real nodes need besides.
const CONTROLLERS: [&str; 6] = [
    "daemonset-controller",
    "deployment-controller",
    "node-lifecycle-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "taint-eviction-controller",
];

/// Everything but Mooring.
pub(super) struct Installation {
    pub(super) shell: Shell,
    pub(super) client: Arc<Host>,
    pub(super) admin: kube::Client,
    pub(super) machines: Vec<Machine>,
    _scheduler: Process,
    control_plane: ControlPlane,
    _lab: Netlab,
}

impl Installation {
    /// Starts the control plane, and switches the machines on. No kubelet runs.
    pub(super) async fn start(console: &Console, page: &Page) -> Result<Self> {
        let images = Images::take_out(page).await?;
        console.event("Mooring's images taken out of the store of make image");
        let Site { lab, nodes, client } = Site::build(&NODES)?;
        let options = Options::default()
            .bind(Netlab::GATEWAY_V4)
            .server_name(CONTROL_PLANE.to_string())
            .with_controller_manager()
            // Pods find the API server by the Service `kubernetes`.
            .api_server_flag("--endpoint-reconciler-type=lease")
            // The nodes' names are in no name service.
            .api_server_flag("--kubelet-preferred-address-types=InternalIP");
        let options = CONTROLLERS.into_iter().fold(options, Options::controller);
        let control_plane = ControlPlane::start(options).await?;
        let scheduler = start_scheduler(&control_plane)?;
        console.heed(&scheduler);
        let mut machines = nodes
            .into_iter()
            .map(|host| Machine::new(host, &control_plane, images.folder()))
            .collect::<Result<Vec<_>>>()?;
        try_join_all(machines.iter_mut().map(async |machine| {
            machine.boot().await?;
            images.import(page, machine).await
        }))
        .await?;
        Ok(Self {
            shell: Shell::open(&control_plane)?,
            client: Arc::new(client),
            admin: control_plane.admin(),
            machines,
            _scheduler: scheduler,
            control_plane,
            _lab: lab,
        })
    }

    /// Starts all kubelets.
    pub(super) async fn start_kubelets(&mut self, provider: CloudProvider) -> Result<()> {
        try_join_all(
            self.machines
                .iter_mut()
                .map(|machine| machine.start_kubelet(provider)),
        )
        .await
        .map(drop)
    }

    /// An API server answers on each machine.
    pub(super) async fn open_api_ports(&mut self) -> Result<()> {
        let url = self.control_plane.url();
        let api_server: SocketAddr = url.trim_start_matches("https://").parse()?;
        let machines = self.machines.iter_mut();
        let opened = machines.map(|machine| machine.open_api_port(api_server));
        try_join_all(opened).await.map(drop)
    }

    /// Starts kube-proxy on all machines.
    pub(super) fn start_kube_proxies(&mut self) -> Result<()> {
        self.machines
            .iter_mut()
            .try_for_each(Machine::start_kube_proxy)
    }

    /// The number of the machine whose Node has this name.
    pub(super) fn number_of(&self, name: &str) -> Result<usize> {
        let found = self
            .machines
            .iter()
            .position(|machine| machine.name() == name);
        found.with_context(|| format!("there is no machine {name}"))
    }

    /// The Node that the client's frames to an address go to.
    pub(super) fn speaker(&self, address: IpAddr) -> Result<String> {
        let mac = self.client.mac_of(address)?;
        let speaker = self
            .machines
            .iter()
            .find(|machine| Some(machine.host.mac()) == mac);
        let speaker = speaker.with_context(|| format!("no Node has the MAC address {mac:?}"))?;
        Ok(speaker.name().to_owned())
    }

    /// All Nodes.
    pub(super) async fn nodes(&self) -> Result<Vec<Node>> {
        let nodes = Api::<Node>::all(self.admin.clone());
        Ok(nodes.list(&ListParams::default()).await?.items)
    }

    /// Whether all Nodes are registered, and Mooring has initialised each or none of them.
    pub(super) async fn are_initialised(&self, expected: bool) -> Result<()> {
        let nodes = self.nodes().await?;
        ensure!(nodes.len() == self.machines.len(), "{} Nodes", nodes.len());
        for node in &nodes {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            is_initialised(node, expected).with_context(|| name.to_owned())?;
        }
        Ok(())
    }

    /// The address of a Service's load balancer.
    pub(super) async fn address_of(&self, service: &str) -> Result<IpAddr> {
        let services = Api::<Service>::default_namespaced(self.admin.clone());
        let status = services.get(service).await?.status.unwrap_or_default();
        let ingress = status.load_balancer.and_then(|status| status.ingress);
        let first = ingress.unwrap_or_default().into_iter().next();
        let ip = first.and_then(|ingress| ingress.ip);
        Ok(ip
            .with_context(|| format!("{service} has no address"))?
            .parse()?)
    }
}

/// Whether Mooring has initialised a Node, or its kubelet has just registered it.
pub(super) fn is_initialised(node: &Node, expected: bool) -> Result<()> {
    let (tainted, id) = (has_taint(node, UNINITIALIZED), provider_id(node));
    ensure!(tainted != expected, "the taint uninitialized: {tainted}");
    ensure!(id.is_some() == expected, "its provider ID is {id:?}");
    Ok(())
}

fn start_scheduler(control_plane: &ControlPlane) -> Result<Process> {
    let kubeconfig = control_plane.kubeconfig_for_user("system:kube-scheduler", None)?;
    let name = "kube-scheduler";
    let log = control_plane.folder().join("kube-scheduler.log");
    let spec = Spec::new(name, node_programs()?.join(name), log).args([
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ]);
    Process::start(&spec)
}
