//! Whether the credentials are those of the cluster's own project.
//!
//! With those of another project every answer is complete, and nothing of the cluster is there: all would be
//! made anew, and the originals be left to themselves.

use super::Shared;
use super::listing::Listing;
use super::ownership::Claim;
use super::provider::{Listed as _, ListedOf, Provider};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::clouds::load_balancers::LoadBalancerRequest;

impl<P: Provider> Shared<P> {
    /// Doubts the credentials as a whole if the cluster records load balancers of other Services, or
    /// servers of Nodes, and none of them is there. Asked before what is not listed counts as not there.
    ///
    /// # Errors
    /// [`CloudError`] if the credentials are in doubt, or the servers cannot be listed.
    pub(super) async fn check_credentials(
        &self,
        request: &LoadBalancerRequest,
        listing: &Listing<ListedOf<P>>,
    ) -> Result<(), CloudError> {
        let claim = |other| Claim::of(other, P::WORDS);
        let is_recorded = |listed: &ListedOf<P>| {
            let cluster = request.cluster.as_deref();
            let is_marked = cluster.is_some() && listed.cluster() == cluster;
            let mut others = request.others.iter();
            is_marked || others.any(|other| claim(other).id.as_deref() == Some(listed.id()))
        };
        if listing.all.iter().any(is_recorded) {
            return Ok(());
        }
        let nodes = request
            .nodes
            .iter()
            .filter(|node| self.members.claims(node));
        let nodes: Vec<_> = nodes.cloned().collect();
        let mut others = request.others.iter();
        if nodes.is_empty() && !others.any(|other| claim(other).is_published()) {
            return Ok(());
        }
        let found = self.members.find(&nodes).await;
        if !found.members.found.is_empty() {
            return Ok(());
        }
        let provider = P::WORDS.provider;
        if let Some(after) = found.again {
            let what = "the servers of the Nodes cannot be listed";
            let mut error = CloudError::new(provider, ErrorKind::Transport, what);
            error.retry_after = Some(after);
            return Err(error);
        }
        let what = format!(
            "neither a server of the Nodes nor a load balancer of the cluster is there: the credentials \
             may be those of another project; nothing is made or deleted; correct {}",
            P::WORDS.credentials
        );
        Err(CloudError::new(provider, ErrorKind::Malformed, what))
    }
}
