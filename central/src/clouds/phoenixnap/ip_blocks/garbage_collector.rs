//! Blocks that are nobody's any more: out of the network that they are really in, and back.

use std::time::Duration;

use mooring_common::names::reasons;
use tokio::time::{Instant, sleep_until};

use super::super::api::ip_blocks::BlockStatus;
use super::Shared;
use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::{ReleaseStep, dispose};
use super::state::{Blocks, POLL};
use super::step::Step;
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};

/// After how long is looked for them although nothing has called for it.
const REGULARLY: Duration = Duration::from_secs(300);
/// After how long is tried again what has failed.
pub(super) const AFTER_FAILURE: Duration = Duration::from_secs(15);

impl Shared {
    /// Gives back what is marked, until this process is told to end.
    pub(super) async fn collect_garbage(&self, context: &dyn CollectorContext) {
        let mut due = Instant::now();
        let mut is_of_nodes = false;
        loop {
            let round = match is_of_nodes {
                true => self.round_of_nodes(context).await,
                false => self.round(context).await,
            };
            let pause = round.unwrap_or_else(|error| {
                if !matches!(error, ReconcileError::Stopped(_)) {
                    tracing::warn!(%error, "cannot look after IP blocks, will retry");
                }
                AFTER_FAILURE
            });
            let next = Instant::now() + pause;
            // What was due for all of them stays due.
            due = if is_of_nodes { due.min(next) } else { next };
            is_of_nodes = tokio::select! {
                biased;
                () = context.ending() => return self.blocks().await.purchases.give_up().await,
                () = sleep_until(due) => false,
                () = self.untended.notified() => false,
                () = self.nodes_changed.notified() => true,
            };
        }
    }

    /// A look at Nodes alone, for which blocks need not be listed; when to look at all.
    pub(super) async fn round_of_nodes(
        &self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        context.before_write()?;
        self.blocks().await.look_after_nodes(context).await
    }

    /// One look at all of them; when to look again.
    pub(super) async fn round(
        &self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        context.before_write()?;
        let mut blocks = self.blocks().await;
        let pause = blocks.look_after_all(context).await?;
        let is_room = blocks.freed > 0;
        blocks.freed = blocks.freed.saturating_sub(1);
        let is_told_again = blocks.freed > 0;
        drop(blocks);
        if is_room {
            context.freed();
        }
        Ok(match is_told_again {
            true => pause.min(POLL),
            false => pause,
        })
    }
}

impl Blocks {
    /// Tells Nodes what they need, and brings them into the network; when to look again.
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
    ) -> Result<Duration, ReconcileError> {
        let recent = self.recent();
        // Only that there is room is to be said once more.
        let has_marked = self.blocks.iter().any(|owned| owned.owner == Owner::Marked);
        let is_echo = self.freed > 0 && !has_marked;
        let since = if is_echo { self.fresh_since } else { recent };
        self.list(since).await?;
        let marked: Vec<Owned> = self.blocks.clone();
        let did_not_arrive = |owned: &Owned| {
            owned.owner == Owner::Marked && owned.block.status == BlockStatus::ErrorAssigning
        };
        if marked.iter().any(did_not_arrive) {
            self.look_at_network(recent).await?;
        }
        let mut pause = REGULARLY;
        for owned in &marked {
            let network = self.network.as_ref().map(|(network, _)| network);
            let Some(step) = dispose(owned, network) else {
                continue;
            };
            pause = pause.min(self.release(owned, step, context).await?);
        }
        self.purchases.settle_unused(None).await;
        if let Some(again) = self.look_for_surplus(context).await? {
            pause = pause.min(again);
        }
        self.write_l2_network(context).await?;
        Ok(pause.min(self.look_after_nodes(context).await?))
    }

    /// Takes a marked block one step further; when to look again.
    async fn release(
        &mut self,
        owned: &Owned,
        step: ReleaseStep,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        let (stuck, pause) = match step {
            ReleaseStep::Wait => return Ok(POLL),
            ReleaseStep::Stuck(why) => (why, REGULARLY),
            ReleaseStep::Take(step) => match self.take(&step, context).await {
                Ok(Taken::Done) => {
                    tracing::info!("{step}");
                    let is_released = matches!(step, Step::Release { .. });
                    self.freed = if is_released { 2 } else { self.freed };
                    return Ok(if is_released { REGULARLY } else { POLL });
                }
                Ok(Taken::Later(after, _)) => return Ok(after),
                Ok(Taken::LookAgain) => return Ok(POLL),
                Err(ReconcileError::Stopped(stop)) => return Err(stop.into()),
                Err(error) => {
                    let Owned { block, .. } = owned;
                    let why = format!(
                        "The IP block {} ({}) cannot be given back yet: {error}",
                        block.id, block.cidr
                    );
                    (why, AFTER_FAILURE)
                }
            },
        };
        self.reports
            .warn(context, reasons::IP_BLOCK_STUCK, stuck)
            .await;
        Ok(pause)
    }
}
