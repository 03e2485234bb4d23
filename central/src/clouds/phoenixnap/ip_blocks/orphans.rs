//! Blocks whose Services are no more, and blocks that are one too many.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::POLL;
use super::allocate::allocate;
use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::mark;
use super::state::Blocks;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    CollectorContext, MadeFor, Orphan, ReconcileError, WriteGuard,
};
use crate::clouds::phoenixnap::NAME;
use crate::engine::ip_allocation::{IpRequest, WATCHED, orphaned, surplus};
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

impl Blocks {
    /// Marks what has been one too many for a while. When to look again.
    ///
    /// # Errors
    /// [`ReconcileError`] if the API server or the cloud does not answer.
    pub(super) async fn look_for_surplus(
        &mut self,
        context: &dyn CollectorContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        self.seed().await?;
        let now = Timestamp::now();
        let mut suspects = std::mem::take(&mut self.suspects);
        let ripe = suspects.watch(&self.observed(&[]).addresses(), &self.given, now);
        self.suspects = suspects;
        let Some(ripe) = ripe else {
            return Ok(None);
        };
        if ripe.is_empty() {
            return Ok(Some(WATCHED));
        }
        let services = self.cluster.services().await?;
        let wanting = services
            .iter()
            .filter(|s| s.is_load_balancer && !s.deleting);
        let ip_requests: Vec<IpRequest> =
            wanting.map(|service| self.given.request(service)).collect();
        for id in ripe {
            let observed = self.observed(&ip_requests);
            let Some(owned) = observed.block(&id) else {
                continue;
            };
            let allocation = allocate(&observed);
            let Some(why) = surplus(&observed.addresses_of(owned), &allocation, now) else {
                continue;
            };
            let (step, cidr) = (mark(&owned.block), owned.block.cidr);
            if self.take(&step, context).await? == Taken::Done {
                let note = format!(
                    "The IP block {id} ({cidr}) is one too many, for {why}; it is given back. Two \
                     replicas may have bought at once, or the cloud has made a purchase late"
                );
                let reports = &mut self.reports;
                reports.warn(context, reasons::IP_BLOCK_SURPLUS, note).await;
            }
        }
        Ok(Some(POLL))
    }
}
