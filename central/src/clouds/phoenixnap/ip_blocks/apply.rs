//! Steps, carried out: each is one request, and what is known follows what the cloud has answered.

use std::time::Duration;

use mooring_common::names::phoenixnap_tags as names;

use super::super::model::{Block, BlockStatus};
use super::Shared;
use super::ownership::{self, Owned};
use super::state::{POLL, State};
use super::step::Step;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{Progress, ReconcileError, WriteGuard};

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The cloud has taken it.
    Done,
    /// Not now; nothing was changed.
    Later(Duration, String),
    /// Something else is to be looked at before.
    LookAgain,
}

impl From<(Duration, String)> for Progress {
    fn from((after, what): (Duration, String)) -> Self {
        Self::Wait { after, what }
    }
}

/// What was asked for may have been done: the next listing tells.
fn unheard(state: &mut State, error: CloudError) -> ReconcileError {
    if error.may_have_been_done() {
        state.expires();
    }
    error.into()
}

impl Shared {
    /// Carries a step out.
    ///
    /// # Errors
    /// [`ReconcileError`] unless the cloud has taken it, or is to be asked again in seconds.
    pub(super) async fn take(
        &self,
        state: &mut State,
        step: &Step,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        match step {
            Step::EnsureTags(names) => self.ensure_tags(state, names, guard).await,
            Step::Buy { .. } => self.buy(state, step, guard).await,
            Step::Attach { block, network, .. } => {
                if let Some(later) = Self::not_yet(state, block, network) {
                    return Ok(later);
                }
                guard.before_write()?;
                let answer = self.cloud.attach(network, block).await;
                let taken = Self::in_network(state, network, answer, guard, |state| {
                    state.attached(block, network);
                })?;
                if taken == Taken::Done && self.settings.attaches_nodes {
                    // The network has something that its servers are to announce.
                    self.untended.notify_one();
                }
                Ok(taken)
            }
            Step::Detach { block, network, .. } => {
                if let Some(later) = Self::not_yet(state, block, network) {
                    return Ok(later);
                }
                if self.read_again(state, block).await?.is_none() {
                    return Ok(Taken::LookAgain);
                }
                guard.before_write()?;
                let answer = self.cloud.detach(network, block).await;
                Self::in_network(state, network, answer, guard, |state| {
                    state.detached(block, network);
                })
            }
            Step::Mark { block, .. } => {
                // Another controller may have bought it, and never marked one.
                if !state.knows_tags(&[names::DELETE]) {
                    self.ensure_tags(state, &[names::DELETE], guard).await?;
                }
                let Some(now) = self.read_again(state, block).await? else {
                    return Ok(Taken::LookAgain);
                };
                let tags = &ownership::marked(&now.tags);
                guard.before_write()?;
                let answer = self.cloud.set_tags(block, tags).await;
                let busy = format!("the cloud is at work on the IP block {block}");
                match answer {
                    Err(error) if error.kind == ErrorKind::Busy => Ok(Taken::Later(POLL, busy)),
                    answer => {
                        answer.map_err(|error| {
                            state.doubts_tags(&error);
                            unheard(state, error)
                        })?;
                        guard.written();
                        state.marked(block, tags.clone());
                        Ok(Taken::Done)
                    }
                }
            }
            Step::Release { block, .. } => {
                if self.read_again(state, block).await?.is_none() {
                    return Ok(Taken::LookAgain);
                }
                guard.before_write()?;
                match self.cloud.release(block).await {
                    Err(error) if error.kind == ErrorKind::Busy => {
                        let busy = format!("the cloud is at work on the IP block {block}");
                        Ok(Taken::Later(POLL, busy))
                    }
                    // Somebody else has given it back: the next listing says so.
                    Err(error) if error.is_not_found() => {
                        state.released(block);
                        Ok(Taken::Done)
                    }
                    answer => {
                        answer.map_err(|error| unheard(state, error))?;
                        guard.written();
                        state.released(block);
                        Ok(Taken::Done)
                    }
                }
            }
        }
    }

    /// A block that is about to be taken from somebody, read now. `None`: it is not whose it was any more
    /// by its tags, or gone; then nothing is done, and all is looked at anew.
    async fn read_again(
        &self,
        state: &mut State,
        id: &str,
    ) -> Result<Option<Block>, ReconcileError> {
        let cluster = self.cluster.id().await?;
        let read = match self.cloud.block(id).await {
            Err(error) if error.is_not_found() => None,
            answer => Owned::of(answer?, &cluster),
        };
        let before = state.owner(id);
        let same = read.filter(|now| now.block.id == id && Some(&now.owner) == before);
        if same.is_none() {
            state.expires();
        }
        Ok(same.map(|now| now.block))
    }

    /// A network takes one change after the other, and what has failed is not tried at once.
    fn not_yet(state: &mut State, block: &str, network: &str) -> Option<Taken> {
        if let Some(left) = state.is_busy(network) {
            let what = format!("the public network {network} is at work on something else");
            return Some(Taken::Later(left, what));
        }
        if state.is_at_work(network) {
            let what = format!("the public network {network} is at work on another IP block");
            return Some(Taken::Later(POLL, what));
        }
        let is_failed = state.block(block).is_some_and(|block| {
            matches!(
                block.status,
                BlockStatus::ErrorAssigning | BlockStatus::ErrorUnassigning
            )
        });
        if !is_failed {
            return None;
        }
        if let Some(left) = state.pause(block) {
            let what = format!("the cloud has failed at the IP block {block}");
            return Some(Taken::Later(left, what));
        }
        state.tries_again(block);
        None
    }

    fn in_network(
        state: &mut State,
        network: &str,
        answer: Result<(), CloudError>,
        guard: &dyn WriteGuard,
        done: impl FnOnce(&mut State),
    ) -> Result<Taken, ReconcileError> {
        match answer {
            Ok(()) => {
                guard.written();
                done(state);
                Ok(Taken::Done)
            }
            Err(error) if error.kind == ErrorKind::Busy => {
                let pause = error.retry_after.unwrap_or(POLL);
                state.set_busy(network, pause);
                state.takes_one_change_at_a_time(network);
                let what = format!("the public network {network} is busy");
                Ok(Taken::Later(pause, what))
            }
            Err(error) => Err(unheard(state, error)),
        }
    }

    /// Tags are made one by one: the cloud refuses a block whose tags do not exist.
    async fn ensure_tags(
        &self,
        state: &mut State,
        names: &[&str],
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        let mut known = match state.tags.take() {
            Some(known) => known,
            None => self.cloud.tag_names().await?,
        };
        for name in names {
            if known.contains(*name) {
                continue;
            }
            guard.before_write()?;
            self.cloud.create_tag(name).await?;
            guard.written();
            tracing::info!(name, "made a tag for IP blocks");
            known.insert((*name).to_owned());
        }
        state.tags = Some(known);
        Ok(Taken::Done)
    }
}
