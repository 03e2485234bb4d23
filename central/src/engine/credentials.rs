//! Whether the credentials are those of the cluster's own project.
//!
//! With those of another project every answer is complete, and nothing of the cluster is there: all would be
//! made anew, and the originals be left to themselves.

use std::sync::Arc;
use std::time::Duration;

use mooring_common::node_view::NodeView;

use super::Shared;
use super::find::claim;
use super::listing::Listing;
use super::members::MemberResolver;
use super::provider::{AccountWords, Listed as _, ListedOf, Provider};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::Instances as _;
use crate::cloud_provider::load_balancers::LoadBalancerRequest;

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
        let claim = |other| claim(other, &*self.provider);
        let is_recorded = |listed: &ListedOf<P>| {
            let cluster = request.cluster.as_deref();
            let is_marked = cluster.is_some() && listed.cluster() == cluster;
            let mut others = request.others.iter();
            is_marked || others.any(|other| claim(other).is_of_id(listed.id()))
        };
        if listing.all.iter().any(is_recorded) {
            return Ok(());
        }
        let mut others = request.others.iter();
        let is_published = others.any(|other| claim(other).is_published());
        let words = &P::WORDS.account;
        self.members
            .check_credentials(&request.nodes, is_published, words)
            .await
    }

    /// Whether nothing tells yet that the credentials are those of the cluster's own project, since not all
    /// servers can be listed before `again`.
    ///
    /// # Errors
    /// [`CloudError`] if the credentials are in doubt although the servers are listed.
    pub(super) async fn are_in_doubt(
        &self,
        request: &LoadBalancerRequest,
        listing: &Listing<ListedOf<P>>,
        again: Option<Duration>,
    ) -> Result<bool, CloudError> {
        let checked = self.check_credentials(request, listing).await;
        match again {
            Some(_) => Ok(checked.is_err()),
            None => checked.map(|()| false),
        }
    }
}

impl MemberResolver {
    /// Doubts the credentials as a whole where nothing else of the cluster is there: if the machines of
    /// none of these Nodes are. `is_recorded`: the cluster records something else that should be there.
    ///
    /// # Errors
    /// [`CloudError`] if the credentials are in doubt, or the machines cannot be listed.
    pub async fn check_credentials(
        &self,
        nodes: &[Arc<NodeView>],
        is_recorded: bool,
        words: &AccountWords,
    ) -> Result<(), CloudError> {
        let of_cloud = nodes.iter().filter(|node| self.claims(node));
        let nodes: Vec<_> = of_cloud.cloned().collect();
        if nodes.is_empty() && !is_recorded {
            return Ok(());
        }
        let found = self.find(&nodes).await;
        if !found.members.found.is_empty() {
            return Ok(());
        }
        let provider = self.inventory.provider();
        if let Some(after) = found.again {
            let what = "the servers of the Nodes cannot be listed";
            let mut error = CloudError::new(provider, ErrorKind::Transport, what);
            error.retry_after = Some(after);
            return Err(error);
        }
        let AccountWords {
            resource,
            account,
            credentials,
        } = words;
        let what = format!(
            "neither a server of the Nodes nor {resource} of the cluster is there: the credentials may be \
             those of another {account}; nothing is made or deleted; correct {credentials}"
        );
        Err(CloudError::new(provider, ErrorKind::Malformed, what))
    }
}
