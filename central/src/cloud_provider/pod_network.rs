//! What central asks of a cloud for the Pods of Nodes: ranges of addresses, and routes to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;

use crate::cloud_api::CloudError;
use crate::election::NotLeading;

/// What a cloud has for the Pods of Nodes, as far as its flags ask for it.
#[derive(Clone, Default)]
pub struct PodNetwork {
    /// Routes to Pods.
    pub routes: Option<Arc<dyn Routes>>,
    /// How pod CIDRs are allocated.
    pub node_ipam: Option<NodeIpam>,
}

/// The Pods with addresses in a range are behind this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// The machine.
    pub machine: ProviderId,
    /// The range.
    pub destination: IpNet,
}

impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} to {}", self.destination, self.machine)
    }
}

/// All routes at one time: of each machine that can have any, the ranges that lead to it.
pub type RouteTable = BTreeMap<ProviderId, Vec<IpNet>>;

/// What a listing says.
#[derive(Clone, Debug)]
pub struct RouteListing {
    /// When it was begun: what was written since does not show.
    pub begun: Instant,
    /// The routes.
    pub table: RouteTable,
}

/// Why there can be no route, as things are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The machine has nothing that a range could be put on.
    NoInterface,
    /// The cloud makes no routes of this family, and the range does not lie on the machine already.
    Family,
}

/// Why a route was not written.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The cloud did not do it.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// This process must not.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

/// Asked directly before a request that changes something.
pub type MayWrite<'a> = &'a (dyn Fn() -> Result<(), NotLeading> + Send + Sync);

/// The routes of a cloud to the Pods of its machines.
#[async_trait]
pub trait Routes: Send + Sync {
    /// The provider's name, which is the scheme of its machines' IDs.
    fn provider(&self) -> &'static str;

    /// All routes, from a listing that was begun at `since` or later. `None`: from one as old as the cloud's
    /// configuration permits.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete.
    async fn list(&self, since: Option<Instant>) -> Result<RouteListing, CloudError>;

    /// Whether ranges of the family of this one can be written.
    fn can_write(&self, destination: &IpNet) -> bool;

    /// What to tell of a route that there cannot be, with what to do about it.
    fn explain(&self, route: &Route, why: Unroutable) -> String;

    /// Makes a route; one that is there already is left as it is. Nothing else is written on the machine
    /// meanwhile.
    ///
    /// # Errors
    /// [`RouteError`]
    async fn create(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError>;

    /// Deletes a route; one that is gone already is left at that. Nothing else is written on the machine
    /// meanwhile.
    ///
    /// # Errors
    /// [`RouteError`]
    async fn delete(&self, route: &Route, may_write: MayWrite<'_>) -> Result<(), RouteError>;
}

/// How pod CIDRs are allocated.
#[derive(Clone)]
pub struct NodeIpam {
    /// The length of IPv4 pod CIDRs.
    pub ipv4_mask: u8,
    /// The flag that sets it, for messages.
    pub ipv4_mask_flag: &'static str,
    /// Where IPv6 pod CIDRs come from, and what the cloud keeps for itself.
    pub ranges: Arc<dyn NodeRanges>,
}

/// What a cloud says of ranges for Pods.
#[async_trait]
pub trait NodeRanges: Send + Sync {
    /// The provider's name, which is the scheme of its machines' IDs.
    fn provider(&self) -> &'static str;

    /// Whether Nodes get an IPv6 pod CIDR besides.
    fn allocates_ipv6(&self) -> bool;

    /// The IPv6 pod CIDR of a machine, of its own range.
    ///
    /// # Errors
    /// [`NoRange`]
    async fn ipv6_pod_cidr(&self, machine: &ProviderId) -> Result<Ipv6Net, NoRange>;

    /// Whether the cloud needs the last addresses of this range for itself.
    ///
    /// # Errors
    /// [`CloudError`] if it cannot be asked.
    async fn reserves_end_of(&self, cluster_cidr: Ipv4Net) -> Result<bool, CloudError>;
}

/// Why a machine has no range.
#[derive(Debug, thiserror::Error)]
pub enum NoRange {
    /// The cloud could not be asked.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// It has none; the text says what to do.
    #[error("{0}")]
    Refused(String),
}
