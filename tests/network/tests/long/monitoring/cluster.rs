//! The cluster that is scraped: three nodes that can speak, and central.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_common::l2_network::L2Network;
use mooring_test_cluster::objects::{PodBuilder, ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab::raw::question;
use mooring_test_netlab::netlab_cluster::{Kubelet, NETWORK, NetlabCluster, Network};
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::PAGED;

/// The nodes.
pub(super) const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The namespace of the Services.
pub(super) const APP: &str = "app";
/// Where the daemons serve metrics by HTTPS.
const SECURE: &str = "--metrics-secure-bind-address=[::]:10270";
/// How long central may take to end in order.
const TO_END: Duration = Duration::from_secs(15);

pub(super) struct Monitored {
    daemons: BTreeMap<String, Process>,
    /// How each daemon is started: again, without asking the API server for a token.
    specs: BTreeMap<String, Spec>,
    _kubelets: BTreeMap<String, Kubelet>,
    pub(super) central: Process,
    /// How central is started, and is started again.
    pub(super) central_spec: Spec,
    pub(super) netlab: NetlabCluster,
}

impl Monitored {
    /// Everything at work, and a Pod of `web` on each node.
    pub(super) async fn start(change_central: impl FnOnce(Spec) -> Spec) -> Self {
        let netlab = NetlabCluster::start(&NODES).await.unwrap();
        let kubelets = netlab.register().await.unwrap();
        let central_spec = change_central(netlab.central_spec(&[]).await.unwrap());
        let central = Process::start(&central_spec).unwrap();
        let mut cluster = Self {
            daemons: BTreeMap::new(),
            specs: BTreeMap::new(),
            _kubelets: kubelets,
            central,
            central_spec,
            netlab,
        };
        for node in &cluster.netlab.nodes {
            let spec = cluster.netlab.daemon_spec(node, &[SECURE]).await.unwrap();
            cluster.specs.insert(node.name().to_owned(), spec);
        }
        for node in NODES {
            cluster.start_daemon(node);
        }
        create_namespace(&cluster.netlab.admin, APP).await.unwrap();
        for (number, node) in (1..).zip(NODES) {
            PodBuilder::new(APP, &format!("web-{node}"))
                .node(node)
                .label("app", "web")
                .running(&[&format!("10.244.9.{number}"), &format!("fd44:9::{number}")])
                .create(&cluster.netlab.admin)
                .await
                .unwrap();
        }
        cluster.make(Network::of_the_bridge(), NETWORK).await;
        cluster
    }

    /// Makes an L2Network of this name, and waits until all nodes vote there: it has quorum, and keeps it without one.
    pub(super) async fn make(&self, network: Network, name: &str) {
        network.create(&self.netlab).await.unwrap();
        let networks = self.networks();
        eventually(&format!("all nodes vote on {name}"), PAGED, async || {
            let status = networks.get(name).await?.status;
            let voters = status.and_then(|status| status.voters);
            let names = voters.map(|voters| voters.nodes).unwrap_or_default();
            anyhow::ensure!(names == NODES, "{names:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Asks for a Service for the Pods of `web`, and no more than that.
    pub(super) async fn ask(
        &self,
        name: &str,
        change: impl FnOnce(ServiceBuilder) -> ServiceBuilder,
    ) {
        let service = ServiceBuilder::load_balancer(APP, name).port(80, 8080);
        let service = change(service.selector("app", "web"));
        service.create(&self.netlab.admin).await.unwrap();
    }

    /// Gives an L2Network other ranges.
    pub(super) async fn set_ranges(&self, network: &str, ranges: &[&str]) {
        let ranges: Value = ranges.into();
        let patch = Patch::Merge(json!({ "spec": { "ranges": ranges } }));
        let params = PatchParams::default();
        self.networks()
            .patch(network, &params, &patch)
            .await
            .unwrap();
    }

    /// Waits until a client finds the address at one of the nodes.
    pub(super) async fn announced(&self, address: IpAddr) {
        eventually(&format!("{address} is announced"), PAGED, async || {
            self.who_has(address);
            // Nobody listens there; the client's kernel asks where that is.
            let url = format!("http://{}/", SocketAddr::new(address, 80));
            let _ = self.netlab.client.get(&url).await;
            let node = self.netlab.seen_at(address)?;
            anyhow::ensure!(node.is_some(), "it is nowhere");
            anyhow::Ok(())
        })
        .await;
    }

    /// A client asks where the address is, once.
    pub(super) fn who_has(&self, address: IpAddr) {
        let client = &self.netlab.client;
        client.inject(&question(client, address)).unwrap();
    }

    pub(super) fn services(&self) -> Api<Service> {
        Api::namespaced(self.netlab.admin.clone(), APP)
    }

    pub(super) fn networks(&self) -> Api<L2Network> {
        Api::all(self.netlab.admin.clone())
    }

    pub(super) fn start_daemon(&mut self, node: &str) {
        let spec = self.specs.get(node).expect("it is one of the nodes");
        let daemon = self.netlab.node(node).start(spec.clone()).unwrap();
        self.daemons.insert(node.to_owned(), daemon);
    }

    /// Ends a daemon at once.
    pub(super) fn kill_daemon(&mut self, node: &str) {
        self.daemons.remove(node).expect("it runs").kill();
    }

    /// Ends central in order: it releases its Lease.
    pub(super) async fn end_central(&self) {
        self.central.terminate().unwrap();
        self.central.wait_for_code(TO_END).await;
    }

    pub(super) fn start_central(&mut self) {
        self.central = Process::start(&self.central_spec).unwrap();
    }
}
