//! The subnets of VPCs in which a NodeBalancer is, and those in which it is wanted: nothing of that can be changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::super::api::node_balancers::{NodeBalancer, PLACES};
use super::super::vpcs::Subnet;
use super::NodeBalancers;
use super::model::BalancerSpec;
use crate::cloud_api::{CloudError, said};

/// What is in another subnet than it is wanted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Misplaced {
    /// What it is.
    pub(super) side: Side,
    /// The subnet in which it is. `None`: in none.
    pub(super) is: Option<u64>,
    /// The subnet in which it is wanted.
    pub(super) wanted: u64,
}

/// What a NodeBalancer has in a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Its own address.
    Frontend,
    /// Its way to its nodes.
    Backend,
}

/// The subnets by which NodeBalancers reach their nodes, by ID, as they were read.
#[derive(Debug, Default)]
pub(super) struct Backends(Mutex<HashMap<String, Option<u64>>>);

impl Backends {
    /// Forgets those that are no more.
    pub(super) fn keep(&self, all: &[NodeBalancer]) {
        let all: BTreeSet<&str> = all.iter().map(|balancer| &*balancer.id).collect();
        self.with(|known| known.retain(|id, _| all.contains(&**id)));
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<String, Option<u64>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A row of what a NodeBalancer has of VPCs.
#[derive(Deserialize)]
struct Place {
    subnet_id: u64,
    /// `frontend` or `backend`.
    #[serde(default, deserialize_with = "said")]
    purpose: Option<String>,
}

impl NodeBalancers {
    /// What of a NodeBalancer is elsewhere than it is wanted. Where it is not wanted in a VPC, that is its own
    /// affair.
    pub(super) async fn misplaced(
        &self,
        wanted: &BalancerSpec,
        balancer: &NodeBalancer,
    ) -> Result<Vec<Misplaced>, CloudError> {
        let mut all = Vec::new();
        if let Some(place) = &wanted.frontend {
            all.push(Misplaced {
                side: Side::Frontend,
                is: balancer.frontend_vpc_subnet_id.filter(|id| *id > 0),
                wanted: self.number(&place.subnet).await?,
            });
        }
        if let Some(place) = &wanted.backend {
            all.push(Misplaced {
                side: Side::Backend,
                is: self.backend_of(&balancer.id).await?,
                wanted: self.number(&place.subnet).await?,
            });
        }
        all.retain(|place| place.is != Some(place.wanted));
        Ok(all)
    }

    async fn number(&self, subnet: &Subnet) -> Result<u64, CloudError> {
        self.cloud.vpcs.number(&self.cloud.client, subnet).await
    }

    async fn backend_of(&self, balancer: &str) -> Result<Option<u64>, CloudError> {
        if let Some(known) = self.backends.with(|known| known.get(balancer).copied()) {
            return Ok(known);
        }
        let all: Vec<Place> = self.cloud.all(&PLACES, &[balancer]).await?;
        let is_backend = |place: &&Place| place.purpose.as_deref() != Some("frontend");
        let backend = all.iter().find(is_backend).map(|place| place.subnet_id);
        self.backends
            .with(|known| known.insert(balancer.to_owned(), backend));
        Ok(backend)
    }
}
