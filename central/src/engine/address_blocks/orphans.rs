//! Blocks whose Services are no more, and blocks that are one too many.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::listing::{list, seed};
use super::{AddressBlocks, Held as _, Serve, Taken};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    CollectorContext, MadeFor, Orphan, ReconcileError, WriteGuard,
};
use crate::engine::ip_allocation::{
    AddressBlock, BlockHolder, IpRequest, WATCHED, orphaned, surplus,
};
use crate::engine::pooled::Orphans;
use crate::views::service_view::ServiceView;

#[async_trait]
impl<P: Serve> Orphans for P {
    /// Those whose Service does not live, or wants no address any more; and shared ones of which no
    /// Service has an address, unless some Service still waits for one.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete.
    async fn orphans(&mut self, living: &[ServiceView]) -> Result<Vec<Orphan>, CloudError> {
        let name = <P as AddressBlocks>::NAME;
        let listed = list(self, Instant::now()).await;
        listed.map_err(|error| match error {
            ReconcileError::Cloud(error) => error,
            other => CloudError::new(name, ErrorKind::Transport, other.to_string()),
        })?;
        let orphan = |block: AddressBlock<'_>| {
            let made_for = orphaned(&block, &self.state().given, living)?;
            Some(Orphan {
                id: block.id.to_owned(),
                name: block.cidr.to_string(),
                made_for,
            })
        };
        Ok(self.addresses().into_iter().filter_map(orphan).collect())
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
        let cluster = self.state().cluster.id().await?;
        let found = self.read(&orphan.id, &cluster).await?;
        let is_same = |block: &P::Block| match (block.holder(), &orphan.made_for) {
            (BlockHolder::Service(key), MadeFor::Named(named)) => key == named,
            (holder, made_for) => holder == BlockHolder::Shared && *made_for == MadeFor::Several,
        };
        let Some(block) = found.filter(|block| block.id() == orphan.id && is_same(block)) else {
            return Err(ReconcileError::Refused(format!(
                "the IP block {} ({}) does not bear the tags any more that it was found by, and stays",
                orphan.id, orphan.name
            )));
        };
        let step = P::mark(&block);
        if self.take(&step, guard).await? != Taken::Done {
            return Err(ReconcileError::Refused(format!(
                "{step}: not now; it will be done later"
            )));
        }
        self.state().has_garbage.notify_one();
        Ok(())
    }
}

/// Marks what has been one too many for a while. When to look again.
///
/// # Errors
/// [`ReconcileError`] if the API server or the cloud does not answer.
pub async fn mark_surplus<P: Serve>(
    blocks: &mut P,
    context: &dyn CollectorContext,
) -> Result<Option<Duration>, ReconcileError> {
    seed(blocks).await?;
    let now = Timestamp::now();
    let mut suspects = std::mem::take(&mut blocks.state_mut().suspects);
    let ripe = suspects.watch(&blocks.addresses(), &blocks.state().given, now);
    blocks.state_mut().suspects = suspects;
    // One that cannot be read may be what a Service has.
    let Some(ripe) = ripe.filter(|_| blocks.state().unread.is_empty()) else {
        return Ok(None);
    };
    if ripe.is_empty() {
        return Ok(Some(WATCHED));
    }
    let state = blocks.state();
    let services = state.cluster.services().await?;
    let wanting = services
        .iter()
        .filter(|s| s.is_load_balancer && !s.deleting);
    let ip_requests: Vec<IpRequest> = wanting
        .map(|service| state.given.request(service))
        .collect();
    for id in ripe {
        let allocation = blocks.allocate(&ip_requests);
        let addresses = blocks.addresses();
        let its = addresses.iter().find(|block| block.id == id);
        let why = its.and_then(|block| surplus(block, &allocation, now));
        let Some((block, why)) = blocks.state().block(&id).zip(why) else {
            continue;
        };
        let (step, cidr) = (P::mark(block), block.cidr());
        if blocks.take(&step, context).await? == Taken::Done {
            let note = format!(
                "The IP block {id} ({cidr}) is one too many, for {why}; it is given back. Two \
                 replicas may have bought at once, or the cloud has made a purchase late"
            );
            let reports = &mut blocks.state_mut().reports;
            reports.warn(context, reasons::IP_BLOCK_SURPLUS, note).await;
        }
    }
    Ok(Some(P::POLL))
}
