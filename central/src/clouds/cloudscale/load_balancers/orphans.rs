//! Load balancers of Services that are no more.

use std::collections::HashSet;

use mooring_common::names::cloudscale_tags as tags;
use tokio::time::Instant;

use super::super::api::balancers::{self, Balancer};
use super::Shared;
use crate::cloud_api::CloudError;
use crate::clouds::load_balancers::{Gate, MadeFor, Orphan, Setback};
use crate::service_view::ServiceView;

impl Shared {
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
        let listing = self.listings.balancers(Instant::now()).await?;
        let of_cluster = listing
            .all
            .iter()
            .filter(|balancer| balancer.tag(tags::CLUSTER) == Some(cluster));
        let orphans = of_cluster.filter_map(|balancer| {
            let uid = balancer.tag(tags::SERVICE_UID)?;
            (!living.contains(uid)).then(|| Orphan {
                id: balancer.uuid.clone(),
                name: balancer.name().to_owned(),
                made_for: MadeFor::Uid(uid.to_owned()),
            })
        });
        Ok(orphans.collect())
    }

    /// Deletes one if it still bears the mark that it was found by.
    ///
    /// # Errors
    /// [`Setback`] unless it is gone or on its way.
    pub(super) async fn remove_orphan(
        &self,
        cluster: &str,
        orphan: &Orphan,
        gate: &dyn Gate,
    ) -> Result<(), Setback> {
        let Orphan { id, name, made_for } = orphan;
        let asked = self.cloud.client.fetch(&balancers::one(id)).await;
        let balancer: Balancer = match asked {
            Err(error) if error.is_not_found() => return Ok(()),
            asked => asked?,
        };
        let is_ours = balancer.tag(tags::CLUSTER) == Some(cluster);
        let is_same = match made_for {
            MadeFor::Uid(uid) => balancer.tag(tags::SERVICE_UID) == Some(uid),
            MadeFor::Named(_) | MadeFor::Several => false,
        };
        if balancer.uuid != *id || !is_same || !is_ours {
            return Err(Setback::Refused(format!(
                "the load balancer {name} ({id}) does not bear the mark any more that it was found by, \
                 and stays"
            )));
        }
        if self.delete(id, gate).await? {
            return Ok(());
        }
        Err(Setback::Refused(format!(
            "cloudscale.ch is at work on the load balancer {name} ({id}); it will be deleted later"
        )))
    }
}
