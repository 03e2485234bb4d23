//! Writes on a Node, and says so.

use std::time::Duration;

use jiff::Timestamp;
use mooring_common::engine::{Outcome, Plan};
use mooring_common::k8s::EventKind;
use mooring_common::names::reasons;
use mooring_common::node_init::{CarriedOut, NodeStep, WriteFailure};
use mooring_common::node_view::NodeView;

use super::Controller;
use super::observe::{self, Observed};
use super::plan::{self, Decision};
use crate::election::NotLeading;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Write(#[from] WriteFailure),
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

/// How soon a Node is looked at again that changed too much to go on.
const OVERTAKEN: Duration = Duration::from_secs(1);

impl Controller {
    pub(super) async fn apply(&self, observed: Observed, plan: Plan<NodeStep>) -> Outcome<Failure> {
        self.write(observed, plan, false).await
    }

    /// Where the Node changes meanwhile, what its daemon has written waits, unless a correction is due.
    async fn write(
        &self,
        observed: Observed,
        plan: Plan<NodeStep>,
        correction_is_due: bool,
    ) -> Outcome<Failure> {
        let may_write = || self.context.leadership.check().is_ok();
        let plan_anew = async |node: NodeView| {
            let init_states = self.writer.init_states();
            let observed = observe::observe_node(&self.context, init_states, node).await;
            match plan::plan(&observed, &self.flags) {
                Decision::Act(plan) => Some(plan),
                Decision::Correct(plan) if correction_is_due => {
                    Some(plan::with_note(&observed.node, &plan))
                }
                _ => None,
            }
        };
        let node = observed.node.clone();
        let carried_out = self
            .writer
            .carry_out(node, plan, &may_write, plan_anew)
            .await;
        match carried_out {
            Ok(CarriedOut::Written { node, initialized }) => {
                if initialized {
                    self.count(&node);
                }
                Outcome::RetryAfter(self.jittered_period(&node.uid))
            }
            Ok(CarriedOut::Gone) => Outcome::Done,
            Ok(CarriedOut::Overtaken) => Outcome::RetryAfter(OVERTAKEN),
            Ok(CarriedOut::Forbidden) => Outcome::Backoff(NotLeading::Lease.into()),
            Err(error) => Outcome::Backoff(error.into()),
        }
    }

    /// What the Node's own daemon wrote is corrected only if it has not done so itself within a
    /// period of its own, and by a listing that is younger than the contradiction: during an outage of
    /// the cloud, it is the daemon that knows what has changed.
    pub(super) async fn correct_in_time(&self, observed: Observed) -> Outcome<Failure> {
        let node = &observed.node;
        let since = self
            .writer
            .init_states()
            .contradicts_since(&node.name, &node.uid);
        let patience = self.flags.daemon_grace + self.flags.address_period;
        let left = patience.saturating_sub(since.elapsed());
        if !left.is_zero() {
            return Outcome::RetryAfter(left);
        }
        let again = observe::observe_again(&self.context, observed, since);
        match self.context.leadership.until_ending(again).await {
            Ok(observed) => {
                let decision = plan::plan(&observed, &self.flags);
                self.follow(observed, decision).await
            }
            Err(ending) => Outcome::Backoff(ending.into()),
        }
    }

    /// Corrects what the Node's own daemon wrote, and one Event says so.
    pub(super) async fn correct(
        &self,
        observed: Observed,
        plan: Plan<NodeStep>,
    ) -> Outcome<Failure> {
        let node = &observed.node;
        // Labels that a policy refuses neither program writes: their absence contradicts nothing.
        let plan = match self.writer.permitted(node, &plan).await {
            Ok(plan) if plan.is_empty() => {
                return Outcome::RetryAfter(self.jittered_period(&node.uid));
            }
            Ok(plan) => plan,
            Err(error) => return Outcome::Backoff(error.into()),
        };
        let note = format!(
            "What this Node says of its machine contradicts the cloud, and is corrected: {}",
            plan.steps()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; ")
        );
        let (about, reason) = (node.reference(), reasons::FACTS_CORRECTED);
        let noted = plan::with_note(node, &plan);
        let ended = self.write(observed, noted, true).await;
        if matches!(ended, Outcome::RetryAfter(_)) {
            self.events
                .report(&about, EventKind::Warning, reason, note)
                .await;
        }
        ended
    }

    fn count(&self, node: &NodeView) {
        self.metrics.initialized.inc();
        if let Some(created) = node.created {
            let delay = Timestamp::now().duration_since(created).as_secs_f64();
            self.metrics.taint_removal_delay.observe(delay.max(0.0));
        }
    }

    /// The period, up to a tenth shorter: so that Nodes that came together do not stay together.
    fn jittered_period(&self, uid: &str) -> Duration {
        let spread = uid
            .bytes()
            .fold(0u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
        self.flags
            .address_period
            .mul_f64(1.0 - f64::from(spread % 100) / 1000.0)
    }
}
