//! A node that is off the node network, on the segment of which it still takes part: Pods of other nodes cannot be reached
//! through it, so whatever it speaks for goes to a node that hears somebody there, if there is one.
//!
//! It is a preference and no right: where nobody hears anybody on the node network, as behind a firewall, nothing moves.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::message::NodeId;
use crate::protocol::time::Moment;
use crate::protocol::view::Candidates;
use crate::protocol::weight::Weight;

/// Whoever has heard nobody on the node network for so long is off it. A member hears at least one each second.
const OFF: Duration = Duration::from_secs(3);
/// And lets go of what it speaks for so much later: if others are off it as well, they have said so by then.
const OTHERS_SAY_SO: Duration = Duration::from_millis(400);
/// If it hears somebody on the segment meanwhile.
const ON_SEGMENT: Duration = Duration::from_secs(1);

/// What is known of the node network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeNetwork {
    /// When anybody was last heard on it. Who never was may not be there to be heard.
    heard: Option<Moment>,
    /// It is said that nobody is heard.
    pub(super) is_lost: bool,
    /// And that has lasted for long enough to know who else says so.
    pub(super) is_certain: bool,
}

/// Who could take keys.
pub(super) struct Targets {
    /// Those that are on the node network; where this node is off it and nobody is on it, all.
    pub(super) preferred: Vec<(NodeId, Weight)>,
    all: Vec<(NodeId, Weight)>,
    /// This node is off the node network, and others are on it.
    pub(super) is_off: bool,
}

impl Targets {
    pub(super) fn of(machine: &Machine, all: Vec<(NodeId, Weight)>) -> Self {
        let connected = machine.on_node_network(&all);
        let is_off = machine.node_network.is_certain;
        let nobody = connected.is_empty();
        Self {
            preferred: if is_off && nobody {
                all.clone()
            } else {
                connected
            },
            all,
            is_off: is_off && !nobody,
        }
    }

    /// Those of the candidates that are preferred; any of them for what must leave, if there are no others.
    pub(super) fn among(&self, candidates: &Candidates, must_leave: bool) -> Vec<(NodeId, Weight)> {
        let of = |nodes: &[(NodeId, Weight)]| -> Vec<(NodeId, Weight)> {
            let nodes = nodes.iter().copied();
            nodes
                .filter(|(node, _)| candidates.include(*node))
                .collect()
        };
        let preferred = of(&self.preferred);
        if preferred.is_empty() && must_leave {
            of(&self.all)
        } else {
            preferred
        }
    }
}

impl Machine {
    /// Somebody is heard on the node network.
    pub(super) const fn note_node_network(&mut self) {
        self.node_network.heard = Some(self.now);
    }

    /// Looks whether this node is off the node network, and whoever is not is to have its keys.
    pub(super) fn tick_node_network(&mut self) {
        let now = self.now;
        let heard = self.node_network.heard;
        let lately = now - ON_SEGMENT;
        let mut peers = self.peers.values();
        let is_on_segment = peers.any(|peer| peer.heard_on_segment_since(lately));
        let silent_for = |long| heard.is_some_and(|at| at + long <= now) && is_on_segment;
        let network = NodeNetwork {
            heard,
            is_lost: silent_for(OFF),
            is_certain: silent_for(OFF + OTHERS_SAY_SO),
        };
        if network != self.node_network {
            self.node_network = network;
            self.claims.change_candidates();
            self.handovers.replan = true;
            self.heartbeat_timer.hurry = true;
        }
    }

    /// Of these others, the ones that do not say that they are off the node network.
    pub(super) fn on_node_network(&self, others: &[(NodeId, Weight)]) -> Vec<(NodeId, Weight)> {
        let is_on = |(node, _): &(NodeId, Weight)| {
            let peer = self.peers.get(node);
            peer.is_none_or(|peer| !peer.last.flags.node_network_down)
        };
        others.iter().copied().filter(is_on).collect()
    }
}
