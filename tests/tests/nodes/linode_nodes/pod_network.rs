//! A cluster with Linodes in a VPC, for routes and pod CIDRs.

use std::ops::Deref;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::api::DeleteParams;
use mooring_cloud_sim::linode::{Instance, Linode};
use mooring_test_cluster::cluster::Launch;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_support::wait::eventually;

use crate::linode_nodes::cluster::CloudCluster;

/// How long anything may take here on a busy machine.
pub(super) const AT_LAST: Duration = Duration::from_secs(30);
/// Where pod CIDRs lie: the second half of the subnet.
pub(super) const CLUSTER_CIDR: &str = "10.128.0.0/16";
/// Both generations of interfaces.
pub(super) const GENERATIONS: [&str; 2] = ["legacy_config", "linode"];

/// The cluster.
pub(super) struct VpcCluster {
    cluster: CloudCluster,
    pub(super) subnet: u64,
}

impl Deref for VpcCluster {
    type Target = CloudCluster;

    fn deref(&self) -> &CloudCluster {
        &self.cluster
    }
}

/// A machine of it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) number: u64,
}

impl VpcCluster {
    /// A VPC with the subnet that is the default.
    pub(super) async fn start() -> Self {
        let cluster = CloudCluster::start().await;
        cluster.permit_pod_network().await;
        let linode = cluster.cloud.linode().expect("this is the suite of Linode");
        let vpc = linode.add_vpc("net");
        let subnet = linode.add_subnet(vpc, "default", "10.0.0.0/8");
        Self { cluster, subnet }
    }

    pub(super) async fn finish(self) {
        self.cluster.finish().await;
    }

    pub(super) fn linode(&self) -> &Linode {
        self.cloud.linode().expect("this is the suite of Linode")
    }

    /// Central for this VPC.
    pub(super) fn in_vpc(&self) -> Launch<'_> {
        let central = self.for_cloud().flag("--vpc-names=net");
        central.flag(&format!("--cluster-cidr={CLUSTER_CIDR}"))
    }

    /// The same with routes, which it compares often.
    pub(super) fn with_routes(&self) -> Launch<'_> {
        let central = self.in_vpc().flag("--enable-route-controller");
        let central = central.flag("--route-reconciliation-period=200ms");
        central.env("LINODE_ROUTES_CACHE_TTL_SECONDS", "1")
    }

    /// A Linode in the VPC.
    pub(super) fn machine(&self, name: &str, generation: &str, address: &str) -> Member {
        let instance = Instance::labelled(name).with("interface_generation", generation);
        let number = self.linode().add(instance.ipv4("192.0.2.1"));
        self.linode().attach(number, self.subnet, address);
        Member {
            name: name.to_owned(),
            number,
        }
    }

    /// Its Node, initialised and Ready, with these pod CIDRs.
    pub(super) async fn join(&self, member: &Member, pod_cidrs: &[&str]) {
        let node = self.known(&member.name, &member.id()).ready();
        let node = if pod_cidrs.is_empty() {
            node
        } else {
            node.pod_cidrs(pod_cidrs)
        };
        node.create(&self.admin).await.expect("a Node");
    }

    /// A Linode in the VPC with its Node.
    pub(super) async fn with_node(
        &self,
        name: &str,
        generation: &str,
        address: &str,
        pod_cidrs: &[&str],
    ) -> Member {
        let member = self.machine(name, generation, address);
        self.join(&member, pod_cidrs).await;
        member
    }

    pub(super) async fn delete(&self, name: &str) {
        let deleted = self.nodes().delete(name, &DeleteParams::default()).await;
        deleted.expect("the Node can be deleted");
        self.is_gone(name).await;
    }

    /// Waits until the condition NetworkUnavailable says this, for this reason.
    pub(super) async fn says(&self, name: &str, status: &str, reason: &str) {
        let what = format!("{name} says NetworkUnavailable={status}, {reason}");
        eventually(&what, AT_LAST, async || {
            let node = self.node(name).await.ok_or("there is no such Node")?;
            let condition = network_unavailable(&node).ok_or("nothing is said")?;
            let said = (condition.status.as_str(), condition.reason.as_deref());
            if said == (status, Some(reason)) {
                Ok(())
            } else {
                Err("not yet")
            }
        })
        .await;
    }

    pub(super) async fn is_routed(&self, name: &str) {
        self.says(name, "False", "RouteCreated").await;
    }

    /// Waits until the ranges on a machine are these.
    pub(super) async fn has_ranges(&self, member: &Member, ranges: &[&str]) {
        let what = format!("{} has {ranges:?}", member.name);
        eventually(&what, AT_LAST, async || {
            let found = self.linode().ranges(member.number);
            if found == ranges { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// Waits for a pass over all routes that has begun after now: another Node has got its route.
    pub(super) async fn pass(&self, number: u8) {
        let name = mooring_test_cluster::objects::unique("pass");
        let (address, cidr) = (format!("10.1.0.{number}"), format!("10.128.{number}.0/24"));
        let member = self.with_node(&name, "linode", &address, &[&cidr]).await;
        self.is_routed(&name).await;
        self.has_ranges(&member, &[&cidr]).await;
    }
}

impl Member {
    pub(super) fn id(&self) -> String {
        format!("linode://{}", self.number)
    }
}

/// The condition, if there is one.
pub(super) fn network_unavailable(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|one| one.type_ == "NetworkUnavailable")
}

/// The pod CIDRs of a Node.
pub(super) fn pod_cidrs(node: &Node) -> Vec<String> {
    let cidrs = node.spec.as_ref().and_then(|spec| spec.pod_cidrs.clone());
    cidrs.unwrap_or_default()
}

/// A Node that is another provider's.
pub(super) fn foreign(name: &str) -> NodeBuilder {
    NodeBuilder::new(name)
        .provider_id("aws:///zone/i-1")
        .ready()
}
