//! Writes on the own Node.

use mooring_common::engine::{Outcome, Plan};
use mooring_common::node_init::{CarriedOut, NodeStep, WriteFailure};
use mooring_common::node_view::NodeView;

use super::Reporter;
use super::observe::{self, Observed};
use super::plan::{self, Decision};

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
        match self.writer.carry_out(node, plan, &|| true, plan_anew).await {
            Ok(CarriedOut::Written { .. } | CarriedOut::Overtaken | CarriedOut::Forbidden) => {
                Outcome::RetryAfter(self.period)
            }
            Ok(CarriedOut::Gone) => Outcome::Done,
            Err(error) => Outcome::Backoff(error),
        }
    }
}
