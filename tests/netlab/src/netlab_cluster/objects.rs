//! The L2Network of the lab's bridge.

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, PostParams};
use mooring_common::l2_network::{AddressMode, L2Network, L2NetworkSpec, Subnet};

use super::NetlabCluster;
use crate::netlab::{Netlab, Segment};
use mooring_test_support::wait::try_eventually;

/// The name of [`Network::of_the_bridge`].
pub const NETWORK: &str = "lab";

/// Describes an L2Network and makes it.
#[derive(Clone, Debug)]
pub struct Network(L2Network);

impl Network {
    /// The bridge, with ten IPv4 and sixteen IPv6 addresses from .100 and ::100 on, and the
    /// bridge itself as router.
    pub fn of_the_bridge() -> Self {
        let ranges = ["10.77.0.100-10.77.0.109", "fd77::100/124"];
        Self::new(NETWORK, &ranges)
    }

    /// A network of the bridge with other ranges.
    pub fn new(name: &str, ranges: &[&str]) -> Self {
        let subnets = [
            subnet("10.77.0.0/24", Netlab::GATEWAY_V4),
            subnet("fd77::/64", Netlab::GATEWAY_V6),
        ];
        Self::with(name, subnets, ranges)
    }

    /// A network of the lab's second bridge, [`Segment`].
    pub fn of_the_segment(name: &str, ranges: &[&str]) -> Self {
        let subnets = [
            subnet("10.78.0.0/24", Segment::GATEWAY_V4),
            subnet("fd78::/64", Segment::GATEWAY_V6),
        ];
        Self::with(name, subnets, ranges)
    }

    /// The lab's bridge, with room for a thousand addresses.
    pub fn wide(name: &str) -> Self {
        let subnets = [
            subnet("10.77.0.0/16", Netlab::GATEWAY_V4),
            subnet("fd77::/64", Netlab::GATEWAY_V6),
        ];
        Self::with(name, subnets, &["10.77.4.0/22", "fd77::1:0/118"])
    }

    /// Any other.
    pub fn described(name: &str, spec: L2NetworkSpec) -> Self {
        Self(L2Network::new(name, spec))
    }

    fn with(name: &str, subnets: [Subnet; 2], ranges: &[&str]) -> Self {
        let spec = L2NetworkSpec {
            subnets: subnets.into(),
            ranges: ranges.iter().map(|range| (*range).to_owned()).collect(),
            ..L2NetworkSpec::default()
        };
        Self::described(name, spec)
    }

    /// On a VLAN.
    #[must_use]
    pub fn vlan(mut self, id: u16) -> Self {
        self.0.spec.vlan = Some(id);
        self
    }

    /// Connections stay with the node that they began at for so long.
    #[must_use]
    pub fn keep_connections(mut self, time: &str) -> Self {
        self.0.spec.keep_connections = Some(time.to_owned());
        self
    }

    /// On this interface of the nodes.
    #[must_use]
    pub fn parent(mut self, interface: &str) -> Self {
        self.0.spec.parent = Some(interface.to_owned());
        self
    }

    /// With its addresses on the interface of the node that speaks for them.
    #[must_use]
    pub fn with_kernel_addresses(mut self) -> Self {
        self.0.spec.address_mode = Some(AddressMode::Kernel);
        self
    }

    /// Nodes speak there too that are excluded from load balancers by their label.
    #[must_use]
    pub fn with_excluded_nodes(mut self) -> Self {
        self.0.spec.include_excluded_nodes = true;
        self
    }

    /// Of the Nodes with this label only.
    #[must_use]
    pub fn of_nodes_with(mut self, key: &str, value: &str) -> Self {
        self.0.spec.node_selector = Some(with_label(key, value));
        self
    }

    /// For Services of the namespaces with this label only.
    #[must_use]
    pub fn for_namespaces_with(mut self, key: &str, value: &str) -> Self {
        self.0.spec.allowed_namespaces = Some(with_label(key, value));
        self
    }

    /// With so many addresses for the Services of one namespace at most.
    #[must_use]
    pub fn at_most_per_namespace(mut self, addresses: u32) -> Self {
        self.0.spec.max_addresses_per_namespace = Some(addresses);
        self
    }

    /// Makes it, whatever becomes of it.
    pub async fn make(&self, cluster: &NetlabCluster) -> Result<()> {
        let networks = Api::<L2Network>::all(cluster.admin.clone());
        networks.create(&PostParams::default(), &self.0).await?;
        Ok(())
    }

    /// Makes it, and waits until central says that it is Ready.
    pub async fn create(self, cluster: &NetlabCluster) -> Result<()> {
        self.make(cluster).await?;
        let networks = Api::<L2Network>::all(cluster.admin.clone());
        let name = self.0.metadata.name.unwrap_or_default();
        let limit = std::time::Duration::from_secs(20);
        try_eventually(limit, async || {
            let status = networks.get(&name).await?.status.unwrap_or_default();
            let is_ready = status
                .conditions
                .iter()
                .any(|condition| condition.type_ == "Ready" && condition.status == "True");
            anyhow::ensure!(is_ready, "its conditions are {:?}", status.conditions);
            Ok(())
        })
        .await
        .map_err(|reason| anyhow::anyhow!("the L2Network {name} is not Ready: {reason}"))
    }
}

fn with_label(key: &str, value: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(key.to_owned(), value.to_owned())].into()),
        ..LabelSelector::default()
    }
}

fn subnet(cidr: &str, gateway: impl ToString) -> Subnet {
    Subnet {
        cidr: cidr.to_owned(),
        gateway: Some(gateway.to_string()),
    }
}
