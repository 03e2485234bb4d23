//! Blocks that are nobody's any more: out of the network that they are really in, and back.

use std::time::Duration;

use async_trait::async_trait;
use mooring_common::names::reasons;

use super::super::api::ip_blocks::{Block, BlockStatus};
use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::{ReleaseStep, dispose};
use super::state::{Blocks, POLL};
use super::step::Step;
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};
use crate::engine::pooled::Upkeep;

/// After how long is looked for them although nothing has called for it.
const REGULARLY: Duration = Duration::from_secs(300);
/// After how long is tried again what has failed.
pub(super) const AFTER_FAILURE: Duration = Duration::from_secs(15);

#[async_trait]
impl Upkeep for Blocks {
    /// Tells Nodes what they need, and brings them into the network.
    async fn look_after_nodes(
        &mut self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        let again = self.write_peers(context).await?;
        let mut pause = again.unwrap_or(REGULARLY);
        if self.network.is_some() {
            self.look_at_network(self.fresh_since).await?;
            if let Some(again) = self.look_after_members(context).await? {
                pause = pause.min(again);
            }
        }
        Ok(pause)
    }

    async fn look_after_all(
        &mut self,
        context: &dyn CollectorContext,
        is_echo: bool,
    ) -> Result<(Duration, bool), ReconcileError> {
        let recent = self.recent();
        // Only that there is room is to be said once more.
        let is_marked = |owned: &Owned| owned.owner == Owner::Marked;
        let is_echo = is_echo && !self.blocks.iter().any(is_marked);
        let since = if is_echo { self.fresh_since } else { recent };
        self.list(since).await?;
        let there = self.blocks.clone();
        let did_not_arrive =
            |owned: &Owned| is_marked(owned) && owned.block.status == BlockStatus::ErrorAssigning;
        if there.iter().any(did_not_arrive) {
            self.look_at_network(recent).await?;
        }
        let mut pause = REGULARLY;
        for owned in &there {
            let network = self.network.as_ref().map(|(network, _)| network);
            if let Some(step) = dispose(owned, network) {
                pause = pause.min(self.release(&owned.block, step, context).await?);
            }
        }
        self.purchases.settle_unused(None).await;
        if let Some(again) = self.look_for_surplus(context).await? {
            pause = pause.min(again);
        }
        self.write_l2_network(context).await?;
        pause = pause.min(self.look_after_nodes(context).await?);
        Ok((pause, std::mem::take(&mut self.is_freed)))
    }
}

impl Blocks {
    /// Takes a marked block one step further; when to look again.
    async fn release(
        &mut self,
        block: &Block,
        step: ReleaseStep,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        let (stuck, pause) = match step {
            ReleaseStep::Wait => return Ok(POLL),
            ReleaseStep::Stuck(why) => (why, REGULARLY),
            ReleaseStep::Take(step) => match self.take(&step, context).await {
                Ok(Taken::Done) => {
                    tracing::info!("{step}");
                    self.is_freed |= matches!(step, Step::Release { .. });
                    return Ok(POLL);
                }
                Ok(Taken::Later(after, _)) => return Ok(after),
                Ok(Taken::LookAgain) => return Ok(POLL),
                Err(ReconcileError::Stopped(stop)) => return Err(stop.into()),
                Err(error) => {
                    let why = format!("The {block} cannot be given back yet: {error}");
                    (why, AFTER_FAILURE)
                }
            },
        };
        let reports = &mut self.reports;
        reports.warn(context, reasons::IP_BLOCK_STUCK, stuck).await;
        Ok(pause)
    }
}
