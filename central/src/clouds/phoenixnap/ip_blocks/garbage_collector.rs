//! Blocks that are nobody's any more: out of the network that they are really in, and back.

use std::time::Duration;

use async_trait::async_trait;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::super::api::ip_blocks::Block;
use super::super::api::may_not_exist;
use super::POLL;
use super::ownership::{Owned, Owner};
use super::plan::{ReleaseStep, dispose, is_lost};
use super::state::Blocks;
use super::step::Step;
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};
use crate::engine::address_blocks::{
    Apply as _, Observe as _, Taken, list, look_at_hindered, mark_surplus,
};
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
            self.look_at_network(self.state.fresh_since).await?;
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
        let recent = self.state.recent(POLL);
        // Only that there is room is to be said once more.
        let is_marked = |owned: &Owned| owned.owner == Owner::Marked;
        let is_echo = is_echo && !self.state.blocks.iter().any(is_marked);
        let since = if is_echo {
            self.state.fresh_since
        } else {
            recent
        };
        list(self, since).await?;
        let there = self.state.blocks.clone();
        self.report_stuck(&there, context).await;
        let has_network = match there.iter().any(is_lost) {
            true => self.finds_network(recent).await,
            false => Some(true),
        };
        let mut pause = REGULARLY;
        for owned in &there {
            if has_network.is_none() && is_lost(owned) {
                pause = pause.min(AFTER_FAILURE);
                continue;
            }
            let known = self.network.as_ref().filter(|_| has_network == Some(true));
            let network = known.map(|(network, _)| network);
            if let Some(step) = dispose(owned, network) {
                pause = pause.min(self.release(&owned.block, step, context).await?);
            }
        }
        self.state.purchases.settle_unused(None).await;
        let again = [mark_surplus(self, context).await?, look_at_hindered(self)];
        pause = again.into_iter().flatten().fold(pause, Duration::min);
        self.write_l2_network(context).await?;
        pause = pause.min(self.look_after_nodes(context).await?);
        Ok((pause, std::mem::take(&mut self.state.is_freed)))
    }
}

impl Blocks {
    /// Whether the public network is there, as it is known then or later. `None`: the cloud does not say.
    async fn finds_network(&mut self, since: Instant) -> Option<bool> {
        match self.look_at_network(since).await {
            Ok(()) => Some(true),
            Err(ReconcileError::Cloud(error)) if may_not_exist(&error) => Some(false),
            Err(error) => {
                tracing::warn!(%error, "marked IP blocks wait until the public network can be looked at");
                None
            }
        }
    }

    /// Tells of blocks that the cloud does not come to an end with.
    async fn report_stuck(&mut self, all: &[Owned], context: &dyn CollectorContext) {
        for owned in all {
            if let Some(note) = self.stuck(&owned.block) {
                let reports = &mut self.state.reports;
                reports.warn(context, reasons::IP_BLOCK_STUCK, note).await;
            }
        }
    }

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
                    self.state.is_freed |= matches!(step, Step::Release { .. });
                    return Ok(POLL);
                }
                Ok(Taken::Later(after, _)) => return Ok(after),
                Ok(Taken::LookAgain) => return Ok(POLL),
                Err(ReconcileError::Stopped(stop)) => return Err(stop.into()),
                Err(error) => {
                    let after = match &error {
                        ReconcileError::Cloud(error) => error.retry_after,
                        _ => None,
                    };
                    let why =
                        format!("The {block} is not given back yet, and is paid for: {error}");
                    (why, after.unwrap_or(AFTER_FAILURE))
                }
            },
        };
        let reports = &mut self.state.reports;
        reports.warn(context, reasons::IP_BLOCK_STUCK, stuck).await;
        Ok(pause)
    }
}
