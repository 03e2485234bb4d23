//! Writes on a Node, and says so.

use mooring_common::engine::{Outcome, Plan};
use mooring_common::k8s::EventKind;
use mooring_common::names::reasons;
use mooring_common::node_init::{NodeStep, WriteFailure};

use super::Controller;
use super::observe::Observed;
use super::plan::{self, Decision};
use crate::election::NotLeading;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Write(#[from] WriteFailure),
    #[error("cannot read the Node")]
    Read(#[source] kube::Error),
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error("the Node changes faster than it can be written; will try again")]
    TooManyConflicts,
}

/// How often a Node that somebody else has changed is read and planned anew within one pass.
const ATTEMPTS: u32 = 20;

impl Controller {
    pub(super) async fn refuse(
        &self,
        observed: &Observed,
        reason: &str,
        note: String,
    ) -> Outcome<Failure> {
        let node = &observed.node;
        if self.memories.is_news(&node.name, &node.uid, &note) {
            tracing::warn!(reason, note, "left as it is");
            let about = node.reference();
            self.events
                .report(&about, EventKind::Warning, reason, note)
                .await;
        }
        Outcome::RetryAfter(self.flags.address_period)
    }

    pub(super) async fn apply(
        &self,
        mut observed: Observed,
        mut plan: Plan<NodeStep>,
    ) -> Outcome<Failure> {
        for _ in 0..ATTEMPTS {
            match self.take(&mut observed, &plan).await {
                Ok(()) => {
                    self.memories.well(&observed.node.name, &observed.node.uid);
                    return Outcome::RetryAfter(self.jittered_period(&observed.node.uid));
                }
                Err(Failure::Write(WriteFailure::Gone)) => return Outcome::Done,
                Err(Failure::Write(WriteFailure::Conflict)) => {}
                Err(other) => return Outcome::Backoff(other),
            }
            match self.writer.read(&observed.node.name).await {
                Ok(None) => return Outcome::Done,
                Ok(Some(node)) => observed.node = node,
                Err(error) => return Outcome::Backoff(Failure::Read(error)),
            }
            match plan::plan(&observed, &self.flags) {
                Decision::Act(next) => plan = next,
                _ => return Outcome::RetryAfter(self.flags.monitor_period),
            }
        }
        Outcome::Backoff(Failure::TooManyConflicts)
    }

    async fn take(&self, observed: &mut Observed, plan: &Plan<NodeStep>) -> Result<(), Failure> {
        for step in plan.steps() {
            self.context.leadership.check()?;
            if let NodeStep::SetAddresses(addresses) = step {
                self.tell_if_contested(observed, addresses).await;
            }
            observed.node = self.writer.apply(&observed.node, step).await?;
            tracing::info!("{step}");
            if matches!(step, NodeStep::Initialize { .. }) {
                self.initialized(observed).await;
            }
        }
        Ok(())
    }

    async fn initialized(&self, observed: &Observed) {
        let node = &observed.node;
        self.metrics.initialized.inc();
        if let Some(created) = node.created {
            let delay = jiff::Timestamp::now().duration_since(created).as_secs_f64();
            self.metrics.taint_removal_delay.observe(delay.max(0.0));
        }
        let note = "Node synced successfully";
        self.events
            .report(&node.reference(), EventKind::Normal, reasons::SYNCED, note)
            .await;
    }

    async fn tell_if_contested(
        &self,
        observed: &Observed,
        addresses: &[mooring_common::node_addresses::NodeAddress],
    ) {
        let node = &observed.node;
        if self.memories.overwrites(&node.name, &node.uid, addresses) {
            let note = "Somebody else keeps changing the addresses of this Node. Is its kubelet \
                        running without --cloud-provider=external, or is another controller at work?";
            let about = node.reference();
            let reason = reasons::ADDRESSES_CONTESTED;
            self.events
                .report(&about, EventKind::Warning, reason, note)
                .await;
        }
    }

    /// The period, up to a tenth shorter: so that Nodes that came together do not stay together.
    fn jittered_period(&self, uid: &str) -> std::time::Duration {
        let spread = uid
            .bytes()
            .fold(0u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        self.flags
            .address_period
            .mul_f64(1.0 - f64::from(spread % 100) / 1000.0)
    }
}
