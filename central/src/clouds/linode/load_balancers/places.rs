//! The subnets of VPCs in which a NodeBalancer is, and those in which it is wanted: nothing of that can be changed.

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
        self.cloud.vpcs.number(subnet).await
    }

    async fn backend_of(&self, balancer: &str) -> Result<Option<u64>, CloudError> {
        let ask = async {
            let all: Vec<Place> = self.cloud.all(&PLACES, &[balancer]).await?;
            let is_backend = |place: &&Place| place.purpose.as_deref() != Some("frontend");
            Ok(all.iter().find(is_backend).map(|place| place.subnet_id))
        };
        self.backends.get(balancer, ask).await
    }
}
