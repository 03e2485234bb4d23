//! Simulated clouds whose load balancers are swept and measured: what both need of them.

pub(crate) mod brightbox;
pub(crate) mod cloudscale;
pub(crate) mod linode;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;

use mooring_cloud_sim::{Call, Calls, Faults};
use mooring_test_cluster::objects::NodeBuilder;

/// What a load balancer serves: `tcp/80` to `10.0.0.1:30080`.
pub(crate) type Served = BTreeMap<String, BTreeSet<String>>;

/// A simulated cloud that has a load balancer for each Service.
pub(crate) trait SimulatedCloud: Send + Sync + Sized + 'static {
    /// Its name for `--cloud-provider`.
    const PROVIDER: &'static str;
    /// The variable that says how many seconds central waits for it.
    const TIMEOUT: &'static str;

    /// One without anything in it.
    async fn open() -> Result<Self>;

    /// The variables that lead central to it.
    fn environment(&self) -> Vec<(&'static str, String)>;

    /// Adds the machine of the n-th Node, counted from 1. Its ID is the same in each such cloud.
    fn add_machine(&self, n: usize);

    /// The provider ID of the n-th Node.
    fn provider_id(n: usize) -> String;

    /// At which address load balancers reach the n-th Node.
    fn address(n: usize) -> String;

    /// The n-th Node, as its kubelet and central have left it.
    fn node(name: &str, n: usize) -> NodeBuilder {
        let node = NodeBuilder::new(name).provider_id(&Self::provider_id(n));
        node.address("InternalIP", &Self::address(n)).ready()
    }

    /// What it was asked so far.
    fn calls(&self) -> Calls;

    /// What goes wrong.
    fn faults(&self) -> &Faults;

    /// Each answer comes so late.
    fn set_latency(&self, latency: Duration);

    /// What the load balancer of each of these Services leads to now.
    fn served(&self, services: &[Service]) -> Vec<Served>;
}

/// What the load balancer of a Service is to serve, before these Nodes.
pub(crate) fn to_serve<C: SimulatedCloud>(service: &Service, nodes: &[usize]) -> Served {
    let spec = service.spec.clone().unwrap_or_default();
    let ports = spec.ports.into_iter().flatten();
    let wanted = ports.map(|port| {
        let protocol = port.protocol.unwrap_or_default().to_lowercase();
        let node_port = port.node_port.unwrap_or_default();
        let members = nodes
            .iter()
            .map(|n| format!("{}:{node_port}", C::address(*n)));
        (format!("{protocol}/{}", port.port), members.collect())
    });
    wanted.collect()
}

/// The UID of a Service.
pub(crate) fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}

/// Method and path of a request, without the names of objects.
pub(crate) fn kind(call: &Call) -> String {
    let is_name = |text: &str| text.len() > 3 && text.contains(|c: char| c.is_ascii_digit());
    let segments = call.path.split('/');
    let segments = segments.map(|segment| if is_name(segment) { "*" } else { segment });
    let path: Vec<&str> = segments.collect();
    format!("{} {}", call.method, path.join("/"))
}
