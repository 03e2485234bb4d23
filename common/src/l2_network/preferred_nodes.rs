//! Which Nodes of a segment are to speak before others.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{L2NetworkSpec, Segment, pools};

/// How much one entry can count.
const WEIGHTS: std::ops::RangeInclusive<u16> = 1..=100;
/// How many entries there can be: the weights of all of them together are a number that heartbeats can state.
const MOST: usize = 5;

/// Nodes that are preferred, and by how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredNodes {
    /// How much it counts, 1 to 100. A Node that several entries select has their sum.
    #[schemars(range(min = 1, max = 100), extend("format" = "int32"))]
    pub weight: u16,
    /// Which Nodes, by their labels.
    pub node_selector: LabelSelector,
}

/// An entry of `spec.preferredNodes` that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Preference {
    weight: u16,
    nodes: Selector,
}

impl Preference {
    /// That these Nodes are preferred by so much.
    #[must_use]
    pub const fn new(weight: u16, nodes: Selector) -> Self {
        Self { weight, nodes }
    }
}

impl Segment {
    /// The most that [`Self::preference_for`] can give.
    pub const MOST_PREFERENCE: u16 = 500;

    /// How much a Node with these labels is preferred: of those that can speak, the ones with the highest
    /// number do. 0 is usual.
    #[must_use]
    pub fn preference_for(&self, labels: &BTreeMap<String, String>) -> u16 {
        let of = self.preferred.iter();
        let of = of.filter(|preference| preference.nodes.matches(labels));
        of.map(|preference| preference.weight).sum()
    }
}

/// The entries of `spec.preferredNodes`.
pub(super) fn read(spec: &L2NetworkSpec, faults: &mut Vec<String>) -> Vec<Preference> {
    let count = spec.preferred_nodes.len();
    if count > MOST {
        faults.push(format!(
            "spec.preferredNodes: {count} entries; at most {MOST} are possible, so select several kinds of \
             Nodes by one of them"
        ));
    }
    let mut read = Vec::new();
    for (
        index,
        PreferredNodes {
            weight,
            node_selector,
        },
    ) in spec.preferred_nodes.iter().enumerate()
    {
        let field = format!("spec.preferredNodes[{index}]");
        if !WEIGHTS.contains(weight) {
            faults.push(format!(
                "{field}.weight: {weight} is not between 1 and 100; write a weight that is"
            ));
        }
        let selector = format!("{field}.nodeSelector");
        let nodes = pools::read_selector(&selector, Some(node_selector), faults);
        read.push(Preference::new(*weight, nodes.unwrap_or_default()));
    }
    read
}
