//! Blocks whose Services are no more.

use std::net::Ipv4Addr;

use tokio::time::Instant;

use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::mark;
use super::{Shared, observe};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{MadeFor, Orphan, ReconcileError, WriteGuard};
use crate::clouds::phoenixnap::NAME;
use crate::views::service_view::ServiceView;

impl Shared {
    /// Those whose Service does not live, or wants no address any more; and shared ones of which no
    /// Service has an address, unless some Service still waits for one.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete.
    pub(super) async fn orphans(&self, living: &[ServiceView]) -> Result<Vec<Orphan>, CloudError> {
        let mut state = self.state().await;
        let listed = self.list(&mut state, Instant::now()).await;
        listed.map_err(|error| match error {
            ReconcileError::Cloud(error) => error,
            other => CloudError::new(NAME, ErrorKind::Transport, other.to_string()),
        })?;
        let Some((blocks, _)) = &state.blocks else {
            return Ok(Vec::new());
        };
        let waits = living.iter().any(|service| {
            let wants = service.is_load_balancer && !service.deleting && service.has_finalizer();
            wants && service.ingress.is_empty()
        });
        let orphan = |owned: &Owned| {
            let made_for = match &owned.owner {
                Owner::Service(key) => {
                    let mut all = living.iter();
                    let lives = all.any(|s| s.key == *key && may_hold(s));
                    (!lives).then(|| MadeFor::Named(key.clone()))?
                }
                Owner::Pool(_) => {
                    let mut all = living.iter();
                    let is_used = all.any(|service| {
                        let ip_request = observe::ip_request(service, &state);
                        let has = [ip_request.given, ip_request.recorded, ip_request.published];
                        let is_in = |address: &Ipv4Addr| owned.block.cidr.contains(address);
                        may_hold(service) && has.iter().flatten().any(is_in)
                    });
                    (!is_used && !waits).then_some(MadeFor::Several)?
                }
                Owner::Marked | Owner::Unclear => return None,
            };
            Some(Orphan {
                id: owned.block.id.clone(),
                name: owned.block.cidr.to_string(),
                made_for,
            })
        };
        Ok(blocks.iter().filter_map(orphan).collect())
    }

    /// Marks one if it still bears the tags that it was found by: it is given back like any other then.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is marked.
    pub(super) async fn remove_orphan(
        &self,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        let cluster = self.cluster.id().await?;
        let mut state = self.state().await;
        let block = self.cloud.block(&orphan.id).await?;
        let found = Owned::of(block, &cluster).filter(|owned| owned.block.id == orphan.id);
        let is_same = found
            .as_ref()
            .is_some_and(|owned| match (&owned.owner, &orphan.made_for) {
                (Owner::Service(key), MadeFor::Named(named)) => key == named,
                (Owner::Pool(_), MadeFor::Several) => true,
                _ => false,
            });
        let Some(owned) = found.filter(|_| is_same) else {
            return Err(ReconcileError::Refused(format!(
                "the IP block {} ({}) does not bear the tags any more that it was found by, and stays",
                orphan.id, orphan.name
            )));
        };
        let step = mark(&owned.block);
        if self.take(&mut state, &step, guard).await? != Taken::Done {
            return Err(ReconcileError::Refused(format!(
                "{step}: not now; it will be done later"
            )));
        }
        self.untended.notify_one();
        Ok(())
    }
}

/// Whether a Service may have something of ours.
fn may_hold(service: &ServiceView) -> bool {
    service.is_load_balancer || service.has_finalizer()
}
