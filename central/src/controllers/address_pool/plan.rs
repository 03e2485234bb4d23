//! Which networks may be allocated from, and what each one's status should say. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mooring_common::address_range::AddressRange;
use mooring_common::engine::{Plan, Step};
use mooring_common::l2_network::{AddressCounts, L2NetworkStatus, Segment};
use mooring_common::names::{reasons, segment_conditions};

use super::NetworkView;
use super::allocate::{Pool, ReservedAddresses};
use super::observe::Observed;
use super::summary::Fact;

/// The condition's type.
pub(super) const READY: &str = segment_conditions::READY;

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
    /// How many addresses of each family there are: of IPv4, of IPv6.
    pub counts: [Option<AddressCounts>; 2],
    /// The generation that this is about.
    pub generation: Option<i64>,
    /// `status.speakers`.
    pub speakers: Option<String>,
    /// The other conditions, as type, status, reason and message.
    pub others: Vec<[String; 4]>,
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
            counts: [status.ipv4, status.ipv6],
            generation: condition.observed_generation,
            speakers: status.speakers.clone(),
            others: status
                .conditions
                .iter()
                .filter(|condition| condition.type_ != READY)
                .map(|condition| {
                    [
                        &condition.type_,
                        &condition.status,
                        &condition.reason,
                        &condition.message,
                    ]
                    .map(String::clone)
                })
                .collect(),
        })
    }
}

/// The conditions that the Nodes' word comes to.
pub(super) fn others(facts: &[Fact]) -> Vec<[String; 4]> {
    let texts = |fact: &Fact| {
        let status = fact.status.to_owned();
        [
            fact.type_.to_owned(),
            status,
            fact.reason.clone(),
            fact.message.clone(),
        ]
    };
    facts.iter().map(texts).collect()
}

/// Since when each condition is what it is, by type.
pub(super) fn transition_times(status: &L2NetworkStatus) -> BTreeMap<String, Time> {
    let times = status.conditions.iter();
    times
        .map(|condition| {
            (
                condition.type_.clone(),
                condition.last_transition_time.clone(),
            )
        })
        .collect()
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

impl WriteStatus {
    /// Whether nothing has changed but what the Nodes say.
    pub(super) fn only_repeats(&self) -> bool {
        self.network.status.as_ref().is_some_and(|known| {
            *known
                == Verdict {
                    speakers: known.speakers.clone(),
                    others: known.others.clone(),
                    ..self.verdict.clone()
                }
        })
    }
}

/// What a pass comes to.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) pools: Vec<Pool>,
    pub(super) reserved: ReservedAddresses,
    pub(super) plan: Plan<WriteStatus>,
}

/// Ranges that are allocated from, and what they belong to.
type Accepted<'a> = (String, &'a [AddressRange]);

/// `observed`: the oldest first. `declared`, the provider's own pool, is older than all, and comes
/// last: nobody here announces its addresses.
pub(super) fn plan(observed: &[Observed], declared: Option<&Pool>) -> Decisions {
    let mut decisions = Decisions::default();
    let mut accepted: Vec<Accepted<'_>> = Vec::new();
    accepted.extend(declared.map(|pool| ("the machines file".to_owned(), pool.ranges.as_slice())));
    for Observed {
        network,
        used,
        counts,
    } in observed
    {
        for (address, why) in network.segment.iter().flat_map(Segment::reserved) {
            let known = decisions.reserved.entry(address);
            known.or_insert_with(|| (network.name.clone(), why));
        }
        let (ready, reason, message) = match &network.segment {
            Err(faults) => (false, reasons::NETWORK_INVALID, faults.faults.join("; ")),
            Ok(segment) => match conflict(segment, &accepted) {
                Some(message) => (false, reasons::RANGE_CONFLICT, message),
                None if network.is_managed => {
                    let name = format!("the L2Network {}, which central has made", segment.name);
                    accepted.push((name, &segment.ranges));
                    let message = "its addresses are those of IP blocks that central buys";
                    (true, reasons::READY, message.to_owned())
                }
                None => {
                    let name = format!("the older L2Network {}", segment.name);
                    accepted.push((name, &segment.ranges));
                    decisions.pools.extend(Pool::of(segment));
                    (true, reasons::READY, allocated(segment))
                }
            },
        };
        let verdict = Verdict {
            ready,
            reason: reason.to_owned(),
            message,
            used: *used,
            counts: *counts,
            generation: network.generation,
            speakers: network.summary.speakers.clone(),
            others: others(&network.summary.facts),
        };
        if network.status.as_ref() != Some(&verdict) {
            decisions.plan.push(WriteStatus {
                network: network.clone(),
                verdict,
            });
        }
    }
    decisions.pools.sort_by(|a, b| a.order().cmp(&b.order()));
    decisions.pools.extend(declared.cloned());
    decisions
}

/// What is said of a network that is allocated from.
fn allocated(segment: &Segment) -> String {
    let kept: Vec<String> = segment
        .control_plane_in_pools()
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut message = "addresses are allocated from its ranges".to_owned();
    if !kept.is_empty() {
        message.push_str(&format!(
            ", but for {}, of the control plane (spec.controlPlane): no Service is given it; write ranges without it",
            kept.join(" and ")
        ));
    }
    message
}

fn conflict(segment: &Segment, accepted: &[Accepted<'_>]) -> Option<String> {
    let theirs = accepted
        .iter()
        .flat_map(|(owner, ranges)| ranges.iter().map(move |range| (owner, range)));
    let mut pairs = theirs.flat_map(|theirs| segment.ranges.iter().map(move |mine| (mine, theirs)));
    let (mine, (owner, theirs)) = pairs.find(|(mine, (_, theirs))| mine.overlaps(theirs))?;
    Some(format!(
        "its range {mine} overlaps {theirs} of {owner}: nothing is allocated from this one until \
         one of the two is corrected; what Services hold already stays"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::k8s::Slim;
    use mooring_common::l2_network::{ControlPlaneEndpoint, L2Network, Reserved};

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
            counts: [None; 2],
        }
    }

    #[test]
    fn older_of_overlapping_networks_wins() {
        let old = observed("old", 1, &["192.0.2.0/28"]);
        let new = observed("new", 2, &["192.0.2.64/28", "192.0.2.8-192.0.2.20"]);
        let apart = observed("apart", 3, &["192.0.2.128/28"]);
        let decisions = plan(&[old, new, apart], None);
        let pools: Vec<_> = decisions
            .pools
            .iter()
            .map(|pool| pool.network.as_str())
            .collect();
        assert_eq!(pools, ["apart", "old"]);
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
    fn control_plane_address_in_own_range_is_told_and_reserved() {
        let message = |address: &str| {
            let mut one = observed("one", 1, &["192.0.2.0/28"]);
            let network = Arc::make_mut(&mut one.network);
            let segment = network.segment.as_mut().unwrap();
            segment.control_plane = Some(ControlPlaneEndpoint {
                addresses: vec![address.parse().unwrap()],
                port: 6443,
            });
            let decisions = plan(&[one], None);
            let reserved = decisions.reserved.get(&address.parse().unwrap());
            let why = reserved.map(|(_, why)| *why);
            assert_eq!(why, Some(Reserved::ControlPlane));
            let verdict = &decisions.plan.steps()[0].verdict;
            assert!(verdict.ready, "the others are given");
            verdict.message.clone()
        };
        let told = message("192.0.2.5");
        for words in ["192.0.2.5", "spec.controlPlane", "write ranges without it"] {
            assert!(told.contains(words), "{words} in {told}");
        }
        assert!(!message("192.0.2.100").contains("192.0.2.100"));
    }

    #[test]
    fn does_not_allocate_from_generated_network() {
        let mut own = observed("phoenixnap-x", 1, &["192.0.2.0/28"]);
        Arc::make_mut(&mut own.network).is_managed = true;
        let same = observed("same", 2, &["192.0.2.8/29"]);
        let decisions = plan(&[own, same], None);
        assert!(decisions.pools.is_empty());
        let ready: Vec<bool> = decisions
            .plan
            .steps()
            .iter()
            .map(|s| s.verdict.ready)
            .collect();
        assert_eq!(ready, [true, false]);
    }

    #[test]
    fn unchanged_status_is_not_written() {
        let mut one = observed("one", 1, &["192.0.2.0/28"]);
        let verdict = plan(std::slice::from_ref(&one), None).plan.steps()[0]
            .verdict
            .clone();
        Arc::make_mut(&mut one.network).status = Some(verdict);
        assert!(plan(std::slice::from_ref(&one), None).plan.is_empty());
        one.used = 1;
        assert_eq!(plan(&[one], None).plan.steps().len(), 1);
    }

    #[test]
    fn machines_file_pool_is_last_and_exclusive() {
        let declared = Pool::new("(machines file)", vec!["192.0.2.0/28".parse().unwrap()]);
        let same = observed("same", 1, &["192.0.2.8/29"]);
        let apart = observed("apart", 2, &["192.0.2.128/28"]);
        let decisions = plan(&[same, apart], Some(&declared));
        let pools: Vec<_> = decisions
            .pools
            .iter()
            .map(|pool| pool.network.as_str())
            .collect();
        assert_eq!(pools, ["apart", "(machines file)"]);
        let message = &decisions.plan.steps()[0].verdict.message;
        assert!(message.contains("of the machines file"), "{message}");
    }
}
