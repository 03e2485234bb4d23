//! Steps, carried out: each is one request, and what is known follows what the cloud has answered.

use async_trait::async_trait;
use mooring_common::names::phoenixnap_tags as names;

use super::super::api::ip_blocks::{Block, BlockStatus};
use super::POLL;
use super::ownership::{self, Owned};
use super::plan::mark;
use super::state::Blocks;
use super::step::Step;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};
use crate::engine::address_blocks::{Apply, Observe as _, Taken, buy};

#[async_trait]
impl Apply for Blocks {
    async fn take(&mut self, step: &Step, guard: &dyn WriteGuard) -> Result<Taken, ReconcileError> {
        let (block, network) = match step {
            Step::EnsureTags(names) => return self.ensure_tags(names, guard).await,
            Step::Buy {
                location,
                prefix,
                owner,
            } => {
                let (order, purpose) = ((location.clone(), *prefix), step.to_string());
                return buy(self, &order, owner, &purpose, guard).await;
            }
            Step::Attach { block, network, .. } | Step::Detach { block, network, .. } => {
                (block, Some(network.as_str()))
            }
            Step::Mark { block, .. } | Step::Release { block, .. } => (block, None),
        };
        let is_mark = matches!(step, Step::Mark { .. });
        if !is_mark && let Some(later) = self.not_yet(block, network) {
            return Ok(later);
        }
        if is_mark {
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
        if let Err(error) = answer {
            return self.failed(error, step, network, block).await;
        }
        guard.written();
        self.refused_blocks.forget(block);
        match step {
            Step::Attach { network, .. } => {
                self.attached(block, network);
                if self.settings.flags.attaches_nodes {
                    // The network has something that its servers are to announce.
                    self.state.has_garbage.notify_one();
                }
            }
            Step::Detach { network, .. } => self.detached(block, network),
            Step::Mark { .. } => self.marked(block, tags),
            _ => self.released(block),
        }
        Ok(Taken::Done)
    }

    fn mark(owned: &Owned) -> Step {
        mark(&owned.block)
    }

    fn is_purchase(step: &Step) -> bool {
        matches!(step, Step::Buy { .. })
    }

    /// The node daemons' L2Network, if they are those who announce.
    async fn announce(&mut self, guard: &dyn WriteGuard) -> Result<(), ReconcileError> {
        self.write_l2_network(guard).await
    }
}

impl Blocks {
    /// What follows when a step was not taken, for its block or for the network that it is in or to be in.
    async fn failed(
        &mut self,
        mut error: CloudError,
        step: &Step,
        network: Option<&str>,
        block: &str,
    ) -> Result<Taken, ReconcileError> {
        if error.kind != ErrorKind::Busy {
            if error.may_have_been_done() {
                // The next listing tells.
                self.state.expires();
            }
            return Err(error.into());
        }
        if matches!(step, Step::Mark { .. }) {
            let what = format!("the cloud is at work on the IP block {block}");
            return Ok(Taken::Later(POLL, what));
        }
        if let Some(network) = network
            && self.is_busy(network).await
        {
            self.takes_one_change_at_a_time(network);
            let pause = self.set_busy(network, &error);
            let what = format!("the public network {network} is busy");
            return Ok(Taken::Later(pause, what));
        }
        // The cloud refuses this of the block, and may take other changes.
        let is_lasting = self.refused_blocks.add(block);
        let after = self.refused_blocks.left(block).unwrap_or(POLL);
        error.message = format!("{step}: {}", error.message);
        if !is_lasting {
            return Ok(Taken::Later(after, error.message));
        }
        error.retry_after = Some(after);
        Err(error.into())
    }

    /// Whether a network has just refused a change because it is at work on another. The same answer (409)
    /// is given for the sake of the block or the server alone: one of its addresses is in use, for example.
    pub(super) async fn is_busy(&self, network: &str) -> bool {
        if self.has_moving(network) {
            return true;
        }
        let shown = self.cloud.network(network).await;
        !shown.is_ok_and(|network| network.is_ready)
    }

    /// A block that is about to be taken from somebody, read now. `None`: it is not whose it was any more
    /// by its tags, or gone; then nothing is done, and all is looked at anew.
    async fn read_again(&mut self, id: &str) -> Result<Option<Block>, ReconcileError> {
        let cluster = self.state.cluster.id().await?;
        let read = match self.read(id, &cluster).await {
            Err(error) if error.is_not_found() => None,
            answer => answer?,
        };
        let before = self.state.block(id).map(|owned| &owned.owner);
        let same = read.filter(|now| now.block.id == id && Some(&now.owner) == before);
        if same.is_none() {
            self.state.expires();
        }
        Ok(same.map(|now| now.block))
    }

    /// A network takes one change after the other, and what has failed or was refused is not tried at once.
    fn not_yet(&mut self, block: &str, network: Option<&str>) -> Option<Taken> {
        if let Some((network, left)) = network.and_then(|it| Some((it, self.busy.left(it)?))) {
            let what = format!("the public network {network} is at work on something else");
            return Some(Taken::Later(left, what));
        }
        if let Some(network) = network.filter(|network| self.is_at_work(network)) {
            let what = format!("the public network {network} is at work on another IP block");
            return Some(Taken::Later(POLL, what));
        }
        if let Some(left) = self.refused_blocks.left(block) {
            let what = format!("the cloud has refused a change of the IP block {block}");
            return Some(Taken::Later(left, what));
        }
        let status = self.state.block(block).map(|owned| owned.block.status);
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
