//! Writes on the own Node.

use std::time::Duration;

use mooring_common::engine::{Outcome, Plan};
use mooring_common::node_init::{CarriedOut, NodeStep, WriteFailure};
use mooring_common::node_view::NodeView;

use super::Reporter;
use super::observe::{self, Observed};
use super::plan::{self, Decision};

/// How soon to look again at a Node that changed while it was written.
const OVERTAKEN: Duration = Duration::from_secs(1);

impl Reporter {
    pub(super) async fn apply(
        &self,
        observed: Observed,
        plan: Plan<NodeStep>,
    ) -> Outcome<WriteFailure> {
        let plan_anew = async |node: NodeView| {
            let observed = observe::observe_node(node, &*self.source).await;
            match plan::plan(&observed) {
                Decision::Act(plan) => Some(plan),
                _ => None,
            }
        };
        let node = observed.node.clone();
        let ended = self.writer.carry_out(node, plan, &|| true, plan_anew).await;
        next_pass(ended, self.period)
    }
}

/// When to look again, after writing has ended like this.
fn next_pass(ended: Result<CarriedOut, WriteFailure>, period: Duration) -> Outcome<WriteFailure> {
    match ended {
        Ok(CarriedOut::Written { .. } | CarriedOut::Forbidden) => Outcome::RetryAfter(period),
        Ok(CarriedOut::Overtaken) => Outcome::RetryAfter(OVERTAKEN),
        Ok(CarriedOut::Gone) => Outcome::Done,
        Err(error) => Outcome::Backoff(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicting_pass_is_retried_soon() {
        let period = Duration::from_secs(300);
        let soon = next_pass(Ok(CarriedOut::Overtaken), period);
        assert!(matches!(soon, Outcome::RetryAfter(OVERTAKEN)), "{soon:?}");
        let later = next_pass(Ok(CarriedOut::Forbidden), period);
        assert!(matches!(later, Outcome::RetryAfter(after) if after == period));
    }
}
