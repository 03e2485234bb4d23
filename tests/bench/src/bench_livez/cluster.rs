//! One Node with a daemon and a kube-proxy, and a Service that both are asked about.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::bench::proc;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace};
use mooring_test_netlab::netlab::Host;
use mooring_test_netlab::netlab_cluster::{Kubelet, NetlabCluster};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// The namespace of the Services.
pub(super) const APP: &str = "app";
/// The Node.
pub(super) const NODE: &str = "n1";
/// The daemon's port.
const LIVEZ_PORT: u16 = 10266;
/// How long the cluster may take to be as it should.
const SOON: Duration = Duration::from_secs(60);
/// How many Services are made at once.
const AT_ONCE: usize = 10;

/// Whoever is asked.
pub(super) struct Target {
    pub(super) url: String,
    pub(super) pid: u32,
}

/// What is resident, in KiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Of kube-proxy.
    pub kube_proxy: u64,
    /// Of the daemon.
    pub mooring: u64,
    /// `release` or `debug`: the daemon's build.
    pub profile: &'static str,
}

pub(super) struct LivezCluster {
    pub(super) kube_proxy: Target,
    pub(super) daemon: Target,
    profile: &'static str,
    _processes: [Process; 2],
    _kubelets: BTreeMap<String, Kubelet>,
    pub(super) netlab: NetlabCluster,
}

impl LivezCluster {
    pub(super) async fn build() -> Result<Self> {
        let cluster = NetlabCluster::start(&[NODE]).await?;
        let kubelets = cluster.register().await?;
        let node = cluster.node(NODE);
        let mut spec = cluster.daemon_spec(node, &[]).await?;
        let (profile, program) = Program::Node.release_or_own()?;
        spec.program = program;
        let daemon = node.start(spec)?;
        let admin = cluster.admin.clone();
        create_namespace(&admin, APP).await?;
        let port = service(&admin, "web").await?;
        let nodes = Api::<Node>::all(admin);
        try_eventually(SOON, async || {
            let status = nodes.get(NODE).await?.status.unwrap_or_default();
            ensure!(status.addresses.is_some(), "{NODE} has no address");
            Ok(())
        })
        .await
        .map_err(anyhow::Error::msg)?;
        let kube_proxy = node.kube_proxy(&cluster).await?;
        let at = node.ipv4();
        let cluster = Self {
            kube_proxy: Target {
                url: format!("http://{at}:{port}/"),
                pid: kube_proxy.pid(),
            },
            daemon: Target {
                url: format!("http://{at}:{LIVEZ_PORT}/services/{APP}/web"),
                pid: daemon.pid(),
            },
            profile,
            _processes: [kube_proxy, daemon],
            _kubelets: kubelets,
            netlab: cluster,
        };
        cluster.both_are_healthy("web").await?;
        Ok(cluster)
    }

    pub(super) fn node(&self) -> &Host {
        self.netlab.node(NODE)
    }

    /// Waits until the daemon says so of this Service, and kube-proxy of the first one.
    async fn both_are_healthy(&self, name: &str) -> Result<()> {
        let ours = self.daemon.url.replace("/web", &format!("/{name}"));
        for url in [&self.kube_proxy.url, &ours] {
            try_eventually(SOON, async || {
                let answer = self.node().get(url).await?;
                ensure!(answer.status == 200, "{url}: {answer:?}");
                Ok(())
            })
            .await
            .map_err(anyhow::Error::msg)?;
        }
        Ok(())
    }

    /// Makes Services until there are so many.
    pub(super) async fn add_services(&self, total: usize) -> Result<()> {
        let admin = self.netlab.admin.clone();
        let names: Vec<String> = (1..total).map(|number| format!("more-{number}")).collect();
        let make = names.iter().map(|name| service(&admin, name));
        let made = stream::iter(make).buffer_unordered(AT_ONCE);
        made.try_for_each(async |_| Ok(())).await?;
        match names.last() {
            Some(last) => self.both_are_healthy(last).await,
            None => Ok(()),
        }
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        Ok(Memory {
            kube_proxy: proc::memory_kib(self.kube_proxy.pid, "VmRSS")?,
            mooring: proc::memory_kib(self.daemon.pid, "VmRSS")?,
            profile: self.profile,
        })
    }
}

/// The one endpoint of a Service.
pub(super) fn endpoint(ready: bool) -> Value {
    json!({ "addresses": ["10.244.11.9"], "nodeName": NODE, "conditions": { "ready": ready } })
}

/// A Service with one ready endpoint on the Node, and its `healthCheckNodePort`.
async fn service(admin: &kube::Client, name: &str) -> Result<i32> {
    ServiceBuilder::load_balancer(APP, name)
        .port(80, 8080)
        .local()
        .without_node_ports()
        .create(admin)
        .await?;
    let slice = json!({
        "metadata": {
            "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "p80", "port": 8080 }],
        "endpoints": [endpoint(true)],
    });
    let slices = Api::<EndpointSlice>::namespaced(admin.clone(), APP);
    let slice = serde_json::from_value(slice)?;
    slices.create(&PostParams::default(), &slice).await?;
    let services = Api::<Service>::namespaced(admin.clone(), APP);
    let spec = services.get(name).await?.spec.unwrap_or_default();
    spec.health_check_node_port
        .context("it has no port to ask at")
}
