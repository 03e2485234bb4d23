//! Three Nodes at cloudscale.ch, and Services whose endpoints the test moves.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::api::Api;
use mooring_cloud_sim::Calls;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale, Kind};
use mooring_common::names::cloudscale_annotations as keys;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{
    NodeBuilder, ServiceBuilder, apply_manifests, create_namespace, unique,
};
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_support::wait::eventually;

use crate::rolling::nodes::Workload;

/// What "eventually" means here.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// How many Nodes there are.
pub(crate) const NODES: usize = 3;

/// The option that all this is about.
pub(crate) const OPTION: &str = "--endpoint-aware-members";

/// One test's cluster, and its cloud.
pub(crate) struct RollingCluster {
    cluster: Cluster,
    cloud: CloudSim,
    namespace: String,
    /// The Nodes' addresses begin with it: on this machine, and nobody else's.
    net: [u8; 3],
}

impl Deref for RollingCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl RollingCluster {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::exclusive().await;
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
        let addition = deploy.join("endpoint-aware-members.yaml");
        apply_manifests(&cluster, &addition).await.unwrap();
        let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
        let cluster = Self {
            namespace: unique("rolling"),
            cloud: CloudSim::start(Cloud::Cloudscale).await,
            net: [127, a.max(1), b],
            cluster,
        };
        create_namespace(&cluster.admin, &cluster.namespace)
            .await
            .unwrap();
        cluster.sim().behave(Behaviour {
            provisioning: Duration::ZERO,
            ..Behaviour::default()
        });
        for n in 1..=NODES {
            let name = format!("n{n}");
            let server = Server::named(&name).private(&cluster.address(n).to_string());
            let id = cluster.cloud.add(server);
            let node = NodeBuilder::new(&name).provider_id(&id).ready();
            node.create(&cluster.admin).await.unwrap();
        }
        cluster
    }

    /// Asserts that central was not refused anything by the API server.
    pub(crate) async fn finish(self) {
        self.cluster.finish().await;
    }

    pub(crate) fn sim(&self) -> &Cloudscale {
        self.cloud.cloudscale().expect("the cloud is cloudscale.ch")
    }

    /// The address of the n-th Node, counted from 1.
    pub(crate) fn address(&self, n: usize) -> IpAddr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, u8::try_from(n).expect("there are few")).into()
    }

    pub(crate) async fn central(&self, flags: &[&str]) -> Central {
        let alone = CentralFlags::alone().cloud(&self.cloud);
        let mut all = alone.without_endpoints().with("--controllers=service");
        for flag in flags {
            all = all.with(*flag);
        }
        self.cluster.start_central(all).await
    }

    /// A Service with `externalTrafficPolicy: Local`, and where its Pods can be.
    pub(crate) async fn service(&self, name: &str) -> (Service, Workload) {
        let service = ServiceBuilder::load_balancer(&self.namespace, name);
        let service = service.port(80, 8080).local();
        let service = service.create(&self.cluster.admin).await.unwrap();
        let workload = Workload::told_of(&self.cluster.admin, &self.namespace, name);
        (service, workload)
    }

    /// Waits until a Service has its load balancer, with all Nodes and listeners: the status comes last. Gives
    /// the UUID of that.
    pub(crate) async fn provided(&self, name: &str) -> String {
        let services = Api::<Service>::namespaced(self.cluster.admin.clone(), &self.namespace);
        eventually(&format!("{name} is provided"), SOON, async || {
            let service = services.get(name).await.ok()?;
            service.status?.load_balancer?.ingress?.first()?;
            let uuid = service.metadata.annotations?.remove(keys::UUID)?;
            (self.members(&uuid).len() == NODES).then_some(uuid)
        })
        .await
    }

    /// The members of a load balancer by their Nodes, `n1`, and whether each is enabled.
    pub(crate) fn members(&self, balancer: &str) -> BTreeMap<String, bool> {
        let mut members = self.sim().all(Kind::Member);
        members.retain(|member| member["load_balancer"]["uuid"] == balancer);
        let member = |member: &serde_json::Value| {
            let address = member["address"].as_str()?;
            let node = format!("n{}", address.rsplit('.').next()?);
            Some((node, member["enabled"] == true))
        };
        members.iter().filter_map(member).collect()
    }

    /// What the health monitor says of each member, by its Node.
    pub(crate) fn health(&self, balancer: &str) -> BTreeMap<String, String> {
        let mut members = self.sim().all(Kind::Member);
        members.retain(|member| member["load_balancer"]["uuid"] == balancer);
        let health = |member: &serde_json::Value| {
            let address = member["address"].as_str()?;
            let node = format!("n{}", address.rsplit('.').next()?);
            Some((node, member["monitor_status"].as_str()?.to_owned()))
        };
        members.iter().filter_map(health).collect()
    }

    /// Waits until these Nodes' members, and no others, are enabled.
    pub(crate) async fn is_enabled(&self, balancer: &str, nodes: &[&str]) {
        eventually(&format!("{nodes:?} are enabled"), SOON, async || {
            let members = self.members(balancer);
            let enabled: Vec<&str> = members
                .iter()
                .filter(|(_, enabled)| **enabled)
                .map(|(node, _)| node.as_str())
                .collect();
            if enabled == nodes {
                Ok(())
            } else {
                Err(members)
            }
        })
        .await;
    }

    /// What was asked to change members.
    pub(crate) fn switches(&self) -> Calls {
        let calls = self.sim().calls().writes();
        calls.to("/v1/load-balancers/pools/*/members/*")
    }
}
