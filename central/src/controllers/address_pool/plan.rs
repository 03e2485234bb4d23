//! Which networks may be allocated from, and what each one's status should say. Pure.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mooring_common::engine::{Plan, Step};
use mooring_common::l2_network::{L2NetworkStatus, Segment};
use mooring_common::names::reasons;

use super::NetworkView;
use super::allocate::Pool;
use super::observe::Observed;

/// The condition's type.
pub(super) const READY: &str = "Ready";

/// What central has to say of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition `Ready`: whether it is allocated from.
    pub ready: bool,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// How many addresses Services hold.
    pub used: i64,
    /// The generation that this is about.
    pub generation: Option<i64>,
}

impl Verdict {
    /// Reads what was written last; `None` if there is no such condition.
    #[must_use]
    pub fn read(status: &L2NetworkStatus) -> Option<Self> {
        let condition = status.conditions.iter().find(|c| c.type_ == READY)?;
        Some(Self {
            ready: condition.status == "True",
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            used: status.used_addresses.unwrap_or_default(),
            generation: condition.observed_generation,
        })
    }
}

/// Since when the condition is what it is.
pub(super) fn transition_time(status: &L2NetworkStatus) -> Option<Time> {
    let condition = status.conditions.iter().find(|c| c.type_ == READY)?;
    Some(condition.last_transition_time.clone())
}

/// Write one network's status.
#[derive(Clone, Debug)]
pub(super) struct WriteStatus {
    pub(super) network: Arc<NetworkView>,
    pub(super) verdict: Verdict,
}

impl fmt::Display for WriteStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            reason,
            message,
            used,
            ..
        } = &self.verdict;
        write!(
            f,
            "L2Network {}: {reason}: {message} ({used} addresses in use)",
            self.network.name
        )
    }
}

impl Step for WriteStatus {}

/// What a pass comes to.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) pools: Vec<Pool>,
    pub(super) plan: Plan<WriteStatus>,
}

/// `observed`: the oldest first.
pub(super) fn plan(observed: &[Observed]) -> Decisions {
    let mut decisions = Decisions::default();
    let mut accepted: Vec<&Segment> = Vec::new();
    for Observed { network, used } in observed {
        let (ready, reason, message) = match &network.segment {
            Err(faults) => (false, reasons::NETWORK_INVALID, faults.faults.join("; ")),
            Ok(segment) => match accepted.iter().find_map(|other| conflict(segment, other)) {
                Some(message) => (false, reasons::RANGE_CONFLICT, message),
                None => {
                    accepted.push(segment);
                    decisions.pools.push(Pool::of(segment));
                    (
                        true,
                        reasons::READY,
                        "addresses are allocated from its ranges".to_owned(),
                    )
                }
            },
        };
        let verdict = Verdict {
            ready,
            reason: reason.to_owned(),
            message,
            used: *used,
            generation: network.generation,
        };
        if network.status.as_ref() != Some(&verdict) {
            decisions.plan.push(WriteStatus {
                network: network.clone(),
                verdict,
            });
        }
    }
    decisions
}

fn conflict(segment: &Segment, older: &Segment) -> Option<String> {
    let (mine, theirs) = segment.ranges.iter().find_map(|mine| {
        older
            .ranges
            .iter()
            .find(|theirs| mine.overlaps(theirs))
            .map(|theirs| (mine, theirs))
    })?;
    Some(format!(
        "its range {mine} overlaps {theirs} of the older L2Network {}: nothing is allocated from \
         this one until one of the two is corrected; what Services hold already stays",
        older.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::k8s::Slim;
    use mooring_common::l2_network::L2Network;

    fn observed(name: &str, created: i64, ranges: &[&str]) -> Observed {
        let object: L2Network = serde_json::from_value(serde_json::json!({
            "apiVersion": "mooring.dev/v1alpha1",
            "kind": "L2Network",
            "metadata": {"name": name, "generation": 1},
            "spec": {"subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ranges},
        }))
        .unwrap();
        let network = NetworkView {
            created,
            ..NetworkView::slim(object)
        };
        Observed {
            network: Arc::new(network),
            used: 0,
        }
    }

    #[test]
    fn of_two_that_overlap_the_older_is_right() {
        let old = observed("old", 1, &["192.0.2.0/28"]);
        let new = observed("new", 2, &["192.0.2.64/28", "192.0.2.8-192.0.2.20"]);
        let apart = observed("apart", 3, &["192.0.2.128/28"]);
        let decisions = plan(&[old, new, apart]);
        let pools: Vec<_> = decisions
            .pools
            .iter()
            .map(|pool| pool.name.as_str())
            .collect();
        assert_eq!(pools, ["old", "apart"]);
        let verdict = &decisions.plan.steps()[1].verdict;
        assert_eq!(
            (verdict.ready, verdict.reason.as_str()),
            (false, "RangeConflict")
        );
        assert!(
            verdict.message.contains("older L2Network old"),
            "{}",
            verdict.message
        );
    }

    #[test]
    fn what_is_said_already_is_not_written_again() {
        let mut one = observed("one", 1, &["192.0.2.0/28"]);
        let verdict = plan(std::slice::from_ref(&one)).plan.steps()[0]
            .verdict
            .clone();
        Arc::make_mut(&mut one.network).status = Some(verdict);
        assert!(plan(std::slice::from_ref(&one)).plan.is_empty());
        one.used = 1;
        assert_eq!(plan(&[one]).plan.steps().len(), 1);
    }
}
