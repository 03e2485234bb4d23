//! Whether the token is one of the cluster's own project.
//!
//! With that of another project every answer is complete, and nothing of the cluster is there: all would be
//! made anew, and the originals be left to themselves.

use mooring_common::names::cloudscale_tags as tags;

use super::super::NAME;
use super::super::api::balancers::Balancer;
use super::Shared;
use super::listings::Listing;
use super::ownership::Claim;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::clouds::load_balancers::Demand;

impl Shared {
    /// Doubts the token as a whole if the cluster records load balancers of other Services, or servers of
    /// Nodes, and none of them is there. Asked before what is not listed counts as not there.
    ///
    /// # Errors
    /// [`CloudError`] if the token is in doubt, or the servers cannot be listed.
    pub(super) async fn check_credentials(
        &self,
        demand: &Demand,
        listing: &Listing<Balancer>,
    ) -> Result<(), CloudError> {
        let is_recorded = |listed: &Balancer| {
            let cluster = demand.cluster.as_deref();
            let is_marked = cluster.is_some() && listed.tag(tags::CLUSTER) == cluster;
            let mut others = demand.others.iter();
            is_marked || others.any(|other| Claim::of(other).uuid.as_ref() == Some(&listed.uuid))
        };
        if listing.all.iter().any(is_recorded) {
            return Ok(());
        }
        let ids = demand
            .nodes
            .iter()
            .filter(|node| self.machines.claims(node));
        let nodes: Vec<_> = ids.cloned().collect();
        let mut others = demand.others.iter();
        if nodes.is_empty() && !others.any(|other| Claim::of(other).is_published()) {
            return Ok(());
        }
        let found = self.machines.find(&nodes).await;
        if !found.machines.found.is_empty() {
            return Ok(());
        }
        if let Some(after) = found.again {
            let what = "the servers of the Nodes cannot be listed";
            let mut error = CloudError::new(NAME, ErrorKind::Transport, what);
            error.retry_after = Some(after);
            return Err(error);
        }
        let what = "neither a server of the Nodes nor a load balancer of the cluster is there: the token \
                    may be one of another project; nothing is made or deleted; correct \
                    CLOUDSCALE_ACCESS_TOKEN";
        Err(CloudError::new(NAME, ErrorKind::Malformed, what))
    }
}
