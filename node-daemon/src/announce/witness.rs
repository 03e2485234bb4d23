//! Which segments this Node is a witness of, although it is not on them.
//!
//! Two daemons cannot find out by themselves which of them is cut off. So Nodes that are not on a segment
//! of two offer to vote there, over the node network: those of the control plane at once, others if
//! nobody has after a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mooring_common::names::labels;

use crate::cluster::snapshot::{L2NetworkView, Snapshot};
use crate::protocol::NodeId;

/// How many witnesses a segment has at most: one votes, and the others may take its place.
const MOST: usize = 3;
/// With how many Nodes of its own a segment needs witnesses.
const IN_NEED: usize = 2;
/// How long a Node that is not of the control plane waits, at least, for others to offer.
const CONTROL_PLANE_FIRST: Duration = Duration::from_secs(10);
/// Over how long those Nodes are spread, by their names, so that not all of them offer at once.
const SPREAD: u64 = 60_000;

/// Decides which segments this Node offers to vote on.
#[derive(Debug)]
pub struct WitnessCandidates {
    node: NodeId,
    node_name: String,
    in_need_since: BTreeMap<String, Instant>,
}

impl WitnessCandidates {
    /// Nothing is offered yet.
    #[must_use]
    pub fn new(node_name: &str) -> Self {
        Self {
            node: NodeId::of(node_name),
            node_name: node_name.to_owned(),
            in_need_since: BTreeMap::new(),
        }
    }

    /// The segments to be a witness of, and when to look again.
    pub fn look(
        &mut self,
        snapshot: &Snapshot,
        now: Instant,
    ) -> (BTreeSet<String>, Option<Instant>) {
        let Some(node) = &snapshot.node else {
            return (BTreeSet::new(), None);
        };
        let labels = node.labels.clone().unwrap_or_default();
        let of_control_plane = labels.contains_key(labels::CONTROL_PLANE);
        let mut offered = BTreeSet::new();
        let mut again: Option<Instant> = None;
        let mut in_need = BTreeMap::new();
        for (key, network) in snapshot.networks.iter() {
            let name = &key.name;
            let elsewhere = network
                .segment
                .as_ref()
                .is_ok_and(|segment| !segment.includes(&labels) && !snapshot.drains_on(segment));
            if !elsewhere || !self.needs_one_more(network) {
                continue;
            }
            let since = self.in_need_since.get(name).copied().unwrap_or(now);
            in_need.insert(name.clone(), since);
            let is_one = network.entry.as_ref().is_some_and(|entry| entry.witness);
            let due = since + self.wait(of_control_plane);
            if is_one || due <= now {
                offered.insert(name.clone());
            } else {
                again = Some(again.map_or(due, |again| again.min(due)));
            }
        }
        self.in_need_since = in_need;
        (offered, again)
    }

    /// Whether there is room for this Node among the witnesses. Of too many, those with the first
    /// names stay.
    fn needs_one_more(&self, network: &L2NetworkView) -> bool {
        let others = network.others.values();
        let members = others.filter(|other| !other.witness).count();
        let witnesses = network.others.iter().filter(|(_, other)| other.witness);
        let room = match &network.entry {
            Some(entry) if entry.witness => {
                let before = witnesses.filter(|(name, _)| **name < self.node_name);
                before.count() < MOST
            }
            _ => witnesses.count() < MOST,
        };
        members == IN_NEED && room
    }

    fn wait(&self, of_control_plane: bool) -> Duration {
        if of_control_plane {
            Duration::ZERO
        } else {
            CONTROL_PLANE_FIRST + Duration::from_millis(self.node.0 % SPREAD)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mooring_common::k8s::{ObjectKey, Slim};
    use mooring_common::node_view::NodeView;
    use serde_json::{Value, json};

    use super::*;

    /// The segment of the Nodes with `rack=1`, seen from a Node that is not among them.
    fn snapshot(control_plane: bool, nodes: &[Value]) -> Snapshot {
        let network = json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network", "metadata": {"name": "lan"},
            "spec": {
                "subnets": [{"cidr": "192.0.2.0/24"}], "ranges": ["192.0.2.16/28"],
                "nodeSelector": {"matchLabels": {"rack": "1"}},
            },
            "status": {"nodes": nodes},
        });
        let view = L2NetworkView::read(serde_json::from_value(network).unwrap(), "me");
        let mut node = json!({"metadata": {"name": "me", "labels": {}}});
        if control_plane {
            node["metadata"]["labels"][labels::CONTROL_PLANE] = json!("");
        }
        Snapshot {
            networks: Arc::new([(ObjectKey::cluster_wide("lan"), Arc::new(view))].into()),
            node: Some(Arc::new(NodeView::slim(
                serde_json::from_value(node).unwrap(),
            ))),
            ..Snapshot::default()
        }
    }

    fn member(name: &str) -> Value {
        json!({"name": name, "ready": true, "reason": "Ready"})
    }

    fn witness(name: &str) -> Value {
        json!({"name": name, "ready": true, "reason": "Witness", "witness": true})
    }

    fn witness_candidates(snapshot: &Snapshot, after: Duration) -> bool {
        let start = Instant::now();
        let mut witness_candidates = WitnessCandidates::new("me");
        witness_candidates.look(snapshot, start);
        !witness_candidates
            .look(snapshot, start + after)
            .0
            .is_empty()
    }

    #[test]
    fn control_plane_offers_witness_for_two_at_once() {
        let pair = [member("a"), member("b")];
        assert!(witness_candidates(&snapshot(true, &pair), Duration::ZERO));
        assert!(!witness_candidates(
            &snapshot(true, &pair[..1]),
            Duration::ZERO
        ));
        let three = [member("a"), member("b"), member("c")];
        assert!(!witness_candidates(&snapshot(true, &three), Duration::ZERO));
    }

    #[test]
    fn worker_waits_before_offering_witness() {
        let pair = [member("a"), member("b")];
        assert!(!witness_candidates(
            &snapshot(false, &pair),
            CONTROL_PLANE_FIRST - Duration::from_secs(1)
        ));
        assert!(witness_candidates(
            &snapshot(false, &pair),
            CONTROL_PLANE_FIRST + Duration::from_secs(60)
        ));
    }

    #[test]
    fn surplus_witnesses_with_last_names_leave() {
        let with = |names: &[&str]| {
            let mut nodes = vec![member("a"), member("b")];
            nodes.extend(names.iter().map(|name| witness(name)));
            snapshot(true, &nodes)
        };
        assert!(
            !witness_candidates(&with(&["x", "y", "z"]), Duration::ZERO),
            "there are enough"
        );
        assert!(witness_candidates(
            &with(&["me", "x", "y", "z"]),
            Duration::ZERO
        ));
        assert!(!witness_candidates(
            &with(&["c", "d", "e", "me"]),
            Duration::ZERO
        ));
    }
}
