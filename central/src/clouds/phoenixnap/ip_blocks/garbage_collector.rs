//! Blocks that are nobody's any more: out of the network that they are really in, and back.

use std::time::Duration;

use mooring_common::names::reasons;
use tokio::time::{Instant, sleep_until};

use super::super::model::BlockStatus;
use super::Shared;
use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::{ReleaseStep, dispose};
use super::state::{POLL, State};
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
                () = context.ending() => return self.give_up_claim().await,
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
        let mut state = self.state().await;
        self.look_after_nodes(&mut state, context).await
    }

    /// Tells Nodes what they need, and brings them into the network; when to look again.
    async fn look_after_nodes(
        &self,
        state: &mut State,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        let again = self.write_peers(state, context).await?;
        let mut pause = again.unwrap_or(REGULARLY);
        if state.network.is_some() {
            let steady = state.fresh_since;
            self.look_at_network(state, steady).await?;
            if let Some(again) = self.look_after_members(state, context).await? {
                pause = pause.min(again);
            }
        }
        Ok(pause)
    }

    /// One look at all of them; when to look again.
    pub(super) async fn round(
        &self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        context.before_write()?;
        let mut state = self.state().await;
        let steady = state.fresh_since;
        let recent = Instant::now()
            .checked_sub(POLL)
            .unwrap_or(steady)
            .max(steady);
        // Only that there is room is to be said once more.
        let is_echo = state.freed > 0 && !state.has_marked();
        let since = if is_echo { steady } else { recent };
        self.list(&mut state, since).await?;
        let blocks = state.blocks.as_ref().map_or(&[][..], |(blocks, _)| blocks);
        let marked: Vec<Owned> = blocks.to_vec();
        let did_not_arrive = |owned: &Owned| {
            owned.owner == Owner::Marked && owned.block.status == BlockStatus::ErrorAssigning
        };
        if marked.iter().any(did_not_arrive) {
            self.look_at_network(&mut state, recent).await?;
        }
        let mut pause = REGULARLY;
        for owned in &marked {
            let network = state.network.as_ref().map(|(network, _)| network);
            let Some(disposal) = dispose(owned, network) else {
                continue;
            };
            let disposed = self.dispose(&mut state, disposal, context).await;
            match disposed {
                Ok(Disposed::Gone) => state.freed = 2,
                Ok(Disposed::Goes(after)) => pause = pause.min(after),
                Err(ReconcileError::Stopped(stop)) => return Err(stop.into()),
                Err(error) => {
                    let note = format!(
                        "The IP block {} ({}) cannot be given back yet: {error}",
                        owned.block.id, owned.block.cidr
                    );
                    self.tell(&mut state, context, reasons::IP_BLOCK_STUCK, note)
                        .await;
                    pause = pause.min(AFTER_FAILURE);
                }
            }
        }
        self.settle_unused(&mut state, None).await;
        if let Some(again) = self.look_for_surplus(&mut state, context).await? {
            pause = pause.min(again);
        }
        self.write_segment(&mut state, context).await?;
        pause = pause.min(self.look_after_nodes(&mut state, context).await?);
        let is_room = state.freed > 0;
        state.freed = state.freed.saturating_sub(1);
        if state.freed > 0 {
            pause = pause.min(POLL);
        }
        drop(state);
        if is_room {
            context.freed();
        }
        Ok(pause)
    }

    async fn dispose(
        &self,
        state: &mut State,
        disposal: ReleaseStep,
        context: &dyn CollectorContext,
    ) -> Result<Disposed, ReconcileError> {
        let step = match disposal {
            ReleaseStep::Wait => return Ok(Disposed::Goes(POLL)),
            ReleaseStep::Stuck(why) => {
                self.tell(state, context, reasons::IP_BLOCK_STUCK, why)
                    .await;
                return Ok(Disposed::Goes(REGULARLY));
            }
            ReleaseStep::Take(step) => step,
        };
        match self.take(state, &step, context).await? {
            Taken::Done => {
                tracing::info!("{step}");
                let is_released = matches!(step, super::step::Step::Release { .. });
                Ok(match is_released {
                    true => Disposed::Gone,
                    false => Disposed::Goes(POLL),
                })
            }
            Taken::Later(after, _) => Ok(Disposed::Goes(after)),
            Taken::LookAgain => Ok(Disposed::Goes(POLL)),
        }
    }
}

/// How far a block has come.
enum Disposed {
    Gone,
    Goes(Duration),
}
