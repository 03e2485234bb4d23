//! What a pass gives back, in words.

use std::collections::BTreeSet;
use std::time::Duration;

use mooring_common::engine;

use super::provider::Vocabulary;
use crate::cloud_provider::load_balancers::{PlannedStep, Progress};

/// How often what was asked for is looked for.
const LOOK_FOR_IT: Duration = Duration::from_secs(5);

/// For people.
#[must_use]
pub fn planned(step: &impl engine::Step) -> PlannedStep {
    PlannedStep {
        step: step.to_string(),
        impact: step.impact(),
    }
}

/// These, or `none`.
#[must_use]
pub fn listed(all: &BTreeSet<String>) -> String {
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.iter().cloned().collect::<Vec<_>>().join(", "),
    }
}

/// Waits for what was asked for to turn up, for so long at most.
pub(super) fn turns_up(left: Duration, words: &Vocabulary) -> Progress {
    Progress::Wait {
        after: left.min(LOOK_FOR_IT),
        what: format!(
            "a load balancer was asked for that {} does not show yet",
            words.cloud
        ),
    }
}
