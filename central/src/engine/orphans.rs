//! Load balancers of Services that are no more.

use std::collections::HashSet;

use tokio::time::Instant;

use super::Shared;
use super::provider::{Dependent, Listed as _, Provider};
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{MadeFor, Orphan, ReconcileError, WriteGuard};
use crate::views::service_view::ServiceView;

impl<P: Provider> Shared<P> {
    /// Those that bear this cluster's mark and that of a Service that does not live, by a listing
    /// that is begun now.
    ///
    /// # Errors
    /// [`CloudError`] unless it is complete.
    pub(super) async fn orphans(
        &self,
        cluster: &str,
        living: &[ServiceView],
    ) -> Result<Vec<Orphan>, CloudError> {
        let living: HashSet<&str> = living.iter().map(|service| service.uid.as_str()).collect();
        let listing = self.listings.get(Instant::now()).await?;
        let of_cluster = listing
            .all
            .iter()
            .filter(|balancer| balancer.cluster() == Some(cluster));
        let orphans = of_cluster.filter_map(|balancer| {
            let uid = balancer.owner()?;
            (!living.contains(uid)).then(|| Orphan {
                id: balancer.id().to_owned(),
                name: balancer.name().to_owned(),
                made_for: MadeFor::Uid(uid.to_owned()),
            })
        });
        let mut orphans: Vec<Orphan> = orphans.collect();
        let dependents = self.provider.dependents(Instant::now()).await?.into_iter();
        orphans.extend(dependents.filter_map(|dependent| {
            let is_ours =
                dependent.cluster.as_deref() == Some(cluster) && dependent.users.is_empty();
            (is_ours && !living.contains(dependent.owner.as_str())).then_some(Orphan {
                id: dependent.id,
                name: dependent.name,
                made_for: MadeFor::Dependent(dependent.owner),
            })
        }));
        Ok(orphans)
    }

    /// Deletes one if it still bears the mark that it was found by.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is gone or on its way.
    pub(super) async fn remove_orphan(
        &self,
        cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        let Orphan { id, name, made_for } = orphan;
        if let MadeFor::Dependent(uid) = made_for {
            guard.before_write()?;
            let dependent = Dependent {
                id: id.clone(),
                name: name.clone(),
                owner: uid.clone(),
                cluster: Some(cluster.to_owned()),
                users: Vec::new(),
            };
            self.provider.delete_dependent(&dependent).await?;
            guard.written();
            return Ok(());
        }
        let Some(balancer) = self.provider.get(id).await? else {
            return Ok(());
        };
        let is_ours = balancer.cluster() == Some(cluster);
        let is_same = match made_for {
            MadeFor::Uid(uid) => balancer.owner() == Some(uid),
            MadeFor::Dependent(_) | MadeFor::Named(_) | MadeFor::Several => false,
        };
        if balancer.id() != id || !is_same || !is_ours {
            return Err(ReconcileError::Refused(format!(
                "the load balancer {name} ({id}) does not bear the mark any more that it was found by, \
                 and stays"
            )));
        }
        if balancer.is_changing() {
            // It was asked for before.
            return Ok(());
        }
        if self.delete(id, &P::deletion(&balancer), guard).await? {
            return Ok(());
        }
        Err(ReconcileError::Refused(format!(
            "{} is at work on the load balancer {name} ({id}); it will be deleted later",
            P::WORDS.cloud
        )))
    }
}
