//! Blocks whose Services are no more.

use async_trait::async_trait;
use tokio::time::Instant;

use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::mark;
use super::state::Blocks;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{MadeFor, Orphan, ReconcileError, WriteGuard};
use crate::clouds::phoenixnap::NAME;
use crate::engine::ip_allocation::orphaned;
use crate::engine::pooled::Orphans;
use crate::views::service_view::ServiceView;

#[async_trait]
impl Orphans for Blocks {
    /// Those whose Service does not live, or wants no address any more; and shared ones of which no
    /// Service has an address, unless some Service still waits for one.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete.
    async fn orphans(&mut self, living: &[ServiceView]) -> Result<Vec<Orphan>, CloudError> {
        let listed = self.list(Instant::now()).await;
        listed.map_err(|error| match error {
            ReconcileError::Cloud(error) => error,
            other => CloudError::new(NAME, ErrorKind::Transport, other.to_string()),
        })?;
        let observed = self.observed(&[]);
        let orphan = |owned: &Owned| {
            let made_for = orphaned(&observed.addresses_of(owned), &self.given, living)?;
            Some(Orphan {
                id: owned.block.id.clone(),
                name: owned.block.cidr.to_string(),
                made_for,
            })
        };
        Ok(self.blocks.iter().filter_map(orphan).collect())
    }

    /// Marks one if it still bears the tags that it was found by: it is given back like any other then.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is marked.
    async fn remove_orphan(
        &mut self,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        let cluster = self.cluster.id().await?;
        let block = self.cloud.block(&orphan.id).await?;
        let is_same = |owned: &Owned| match (&owned.owner, &orphan.made_for) {
            (Owner::Service(key), MadeFor::Named(named)) => key == named,
            (owner, made_for) => matches!(owner, Owner::Pool(_)) && *made_for == MadeFor::Several,
        };
        let found = Owned::of(block, &cluster).filter(|owned| owned.block.id == orphan.id);
        let Some(owned) = found.filter(is_same) else {
            return Err(ReconcileError::Refused(format!(
                "the IP block {} ({}) does not bear the tags any more that it was found by, and stays",
                orphan.id, orphan.name
            )));
        };
        let step = mark(&owned.block);
        if self.take(&step, guard).await? != Taken::Done {
            return Err(ReconcileError::Refused(format!(
                "{step}: not now; it will be done later"
            )));
        }
        self.has_garbage.notify_one();
        Ok(())
    }
}
