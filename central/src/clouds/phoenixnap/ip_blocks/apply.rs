//! Steps, carried out: each is one request, and what is known follows what the cloud has answered.

use std::time::Duration;

use mooring_common::names::phoenixnap_tags as names;

use super::super::api::ip_blocks::{Block, BlockStatus};
use super::ownership::{self, Owned};
use super::state::{Blocks, POLL};
use super::step::Step;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};

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

impl Blocks {
    /// Carries a step out.
    ///
    /// # Errors
    /// [`ReconcileError`] unless the cloud has taken it, or is to be asked again in seconds.
    pub(super) async fn take(
        &mut self,
        step: &Step,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        let (block, network) = match step {
            Step::EnsureTags(names) => return self.ensure_tags(names, guard).await,
            Step::Buy {
                location,
                prefix,
                owner,
            } => {
                let purpose = step.to_string();
                return self.buy(location, *prefix, owner, &purpose, guard).await;
            }
            Step::Attach { block, network, .. } | Step::Detach { block, network, .. } => {
                (block, Some(network.as_str()))
            }
            Step::Mark { block, .. } | Step::Release { block, .. } => (block, None),
        };
        if let Some(later) = network.and_then(|network| self.not_yet(block, network)) {
            return Ok(later);
        }
        if matches!(step, Step::Mark { .. }) {
            // Another controller may have bought it, and never marked one.
            self.ensure_tags(&[names::DELETE], guard).await?;
        }
        let mut tags = Vec::new();
        if !matches!(step, Step::Attach { .. }) {
            let Some(now) = self.read_again(block).await? else {
                return Ok(Taken::LookAgain);
            };
            tags = ownership::marked(&now.tags);
        }
        guard.before_write()?;
        let cloud = &self.cloud;
        let answer = match step {
            Step::Attach { network, .. } => cloud.attach(network, block).await,
            Step::Detach { network, .. } => cloud.detach(network, block).await,
            Step::Mark { .. } => cloud.set_tags(block, &tags).await,
            // Somebody else may have given it back: the next listing says so.
            _ => match cloud.release(block).await {
                Err(error) if error.is_not_found() => Ok(()),
                answer => answer,
            },
        };
        if let (Step::Mark { .. }, Err(error)) = (step, &answer) {
            self.doubts_tags(error);
        }
        if let Some(later) = self.answered(answer, network, block, guard)? {
            return Ok(later);
        }
        match step {
            Step::Attach { network, .. } => {
                self.attached(block, network);
                if self.settings.flags.attaches_nodes {
                    // The network has something that its servers are to announce.
                    self.has_garbage.notify_one();
                }
            }
            Step::Detach { network, .. } => self.detached(block, network),
            Step::Mark { .. } => self.marked(block, tags),
            _ => self.released(block),
        }
        Ok(Taken::Done)
    }

    /// What an answer means for a change of a block, or of the network that it is in or to be in. `None`: it
    /// is done.
    fn answered(
        &mut self,
        answer: Result<(), CloudError>,
        network: Option<&str>,
        block: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Option<Taken>, ReconcileError> {
        match (answer, network) {
            (Ok(()), _) => {
                guard.written();
                Ok(None)
            }
            (Err(error), Some(network)) if error.kind == ErrorKind::Busy => {
                self.takes_one_change_at_a_time(network);
                let pause = self.set_busy(network, &error);
                let what = format!("the public network {network} is busy");
                Ok(Some(Taken::Later(pause, what)))
            }
            (Err(error), None) if error.kind == ErrorKind::Busy => {
                let what = format!("the cloud is at work on the IP block {block}");
                Ok(Some(Taken::Later(POLL, what)))
            }
            (Err(error), _) => {
                if error.may_have_been_done() {
                    // The next listing tells.
                    self.expires();
                }
                Err(error.into())
            }
        }
    }

    /// A block that is about to be taken from somebody, read now. `None`: it is not whose it was any more
    /// by its tags, or gone; then nothing is done, and all is looked at anew.
    async fn read_again(&mut self, id: &str) -> Result<Option<Block>, ReconcileError> {
        let cluster = self.cluster.id().await?;
        let read = match self.cloud.block(id).await {
            Err(error) if error.is_not_found() => None,
            answer => Owned::of(answer?, &cluster),
        };
        let before = self.block(id).map(|owned| &owned.owner);
        let same = read.filter(|now| now.block.id == id && Some(&now.owner) == before);
        if same.is_none() {
            self.expires();
        }
        Ok(same.map(|now| now.block))
    }

    /// A network takes one change after the other, and what has failed is not tried at once.
    fn not_yet(&mut self, block: &str, network: &str) -> Option<Taken> {
        if let Some(left) = self.busy.left(network) {
            let what = format!("the public network {network} is at work on something else");
            return Some(Taken::Later(left, what));
        }
        if self.is_at_work(network) {
            let what = format!("the public network {network} is at work on another IP block");
            return Some(Taken::Later(POLL, what));
        }
        let status = self.block(block).map(|owned| owned.block.status);
        if !status.is_some_and(BlockStatus::is_error) {
            return None;
        }
        let left = self.tries_failed(block)?;
        let what = format!("the cloud has failed at the IP block {block}");
        Some(Taken::Later(left, what))
    }

    /// Tags are made one by one: the cloud refuses a block whose tags do not exist.
    async fn ensure_tags(
        &mut self,
        names: &[&str],
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        if self.knows_tags(names) {
            return Ok(Taken::Done);
        }
        let mut known = match self.tags.take() {
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
        self.tags = Some(known);
        Ok(Taken::Done)
    }
}
