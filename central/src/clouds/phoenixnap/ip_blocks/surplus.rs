//! Blocks that are one too many.

use std::time::Duration;

use jiff::Timestamp;
use mooring_common::names::reasons;

use super::allocate::allocate;
use super::apply::Taken;
use super::plan::mark;
use super::state::{Blocks, POLL};
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};
use crate::engine::ip_allocation::{IpRequest, WATCHED, surplus};

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
