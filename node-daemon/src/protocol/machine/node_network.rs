//! A node that is off the node network, on the segment of which it still takes part: Pods of other nodes cannot be reached
//! through it, so whatever it speaks for goes to a node that hears somebody there, if there is one.
//!
//! It is a preference and no right: where nobody hears anybody on the node network, as behind a firewall, nothing moves.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Machine;
use crate::protocol::message::NodeId;
use crate::protocol::time::Moment;
use crate::protocol::view::Candidates;
use crate::protocol::weight::Weight;

/// Whoever has heard nobody on the node network for so long is off it. A voter is heard there with each of its
/// heartbeats.
const OFF: Duration = Duration::from_secs(3);
/// And lets go of what it speaks for so much later: if others are off it as well, they have said so by then. They
/// notice it a heartbeat later at most, and say so at once, and again with each heartbeat.
const OTHERS_SAY_SO: Duration = Duration::from_millis(400);
/// If it hears somebody on the segment meanwhile.
const ON_SEGMENT: Duration = Duration::from_secs(1);

/// Whoever was off it is on it again once it has heard others for so long without a break.
const RETURNS: Duration = Duration::from_secs(5);
/// So long without a message is a break.
const BREAK: Duration = Duration::from_secs(2);
/// A member that has said that it is off counts as connected this much after it says so no more.
pub(super) const SAYS_SO: Duration = Duration::from_secs(1);
/// Between two moves for this reason: at first, and at most. Each doubles it, until none was for as long as the most.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(320);

/// What is known of the node network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeNetwork {
    /// When anybody was last heard on it. Who never was may not be there to be heard.
    heard: Option<Moment>,
    /// Since when others are heard on it without a break.
    #[serde(default)]
    heard_since: Option<Moment>,
    /// Since when others are heard on the segment without a break.
    #[serde(default)]
    segment_since: Option<Moment>,
    /// It is said that nobody is heard.
    pub(super) is_lost: bool,
    /// And that has lasted for long enough to know who else says so.
    is_certain: bool,
    /// The others that are connected.
    #[serde(default)]
    connected: BTreeSet<NodeId>,
    /// Before that nothing moves for this reason again, and how long it was put off.
    #[serde(default)]
    next_move: Moment,
    #[serde(default)]
    pause: Duration,
}

impl NodeNetwork {
    /// Whether others are heard on the segment, and nobody was on this network, for so long. Silence counts from when
    /// others were there to be heard.
    fn is_silent_for(&self, long: Duration, now: Moment) -> bool {
        let since = self.segment_since;
        since.is_some_and(|since| self.heard.unwrap_or_default().max(since) + long <= now)
    }

    /// Whether this node has lost the network by now.
    fn has_lost(&self, now: Moment) -> bool {
        let returned = |since: Moment| since + RETURNS <= now;
        let lately = self.heard.is_some_and(|at| at + BREAK > now);
        let is_back = lately && self.heard_since.is_some_and(returned);
        self.is_silent_for(OFF, now) || self.is_lost && !is_back
    }

    /// Keys begin to move since this node is off: the next time they do not so soon.
    fn note_move(&mut self, now: Moment) {
        let is_new = self.next_move + LONGEST_PAUSE <= now;
        self.pause = if is_new {
            FIRST_PAUSE
        } else {
            (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
        };
        self.next_move = now + self.pause;
    }
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
        let nobody = connected.is_empty();
        Self {
            preferred: machine.or_all_if_lost(connected, &all),
            all,
            is_off: machine.is_off_node_network() && !nobody,
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
    pub(super) fn note_node_network(&mut self) {
        let now = self.now;
        let network = &mut self.node_network;
        if network.heard.is_none_or(|at| at + BREAK <= now) {
            network.heard_since = Some(now);
        }
        network.heard = Some(now);
    }

    /// Looks whether this node is off the node network, and whoever is not is to have its keys.
    pub(super) fn tick_node_network(&mut self) {
        let now = self.now;
        let lately = now - ON_SEGMENT;
        let mut peers = self.peers.values();
        let is_on_segment = peers.any(|peer| peer.heard_on_segment_since(lately));
        let others: Vec<_> = self.eligible_others().collect();
        let connected = self.on_node_network(&others).into_iter();
        let mut network = NodeNetwork {
            segment_since: is_on_segment.then(|| self.node_network.segment_since.unwrap_or(now)),
            connected: connected.map(|(node, _)| node).collect(),
            ..self.node_network.clone()
        };
        network.is_lost = network.has_lost(now);
        // Who never heard anybody has nothing to compare with, and keeps what it has.
        let is_silent = network.heard.is_some() && network.is_silent_for(OFF + OTHERS_SAY_SO, now);
        let may_move = network.is_certain || network.next_move <= now;
        network.is_certain = is_silent && may_move && !network.connected.is_empty();
        let (was, is) = (self.node_network.is_certain, network.is_certain);
        if is && !was {
            network.note_move(now);
        }
        let before = (self.node_network.is_lost, &self.node_network.connected);
        let changed = was != is || before != (network.is_lost, &network.connected);
        self.node_network = network;
        if was && !is {
            // No key moves for this reason any more; what moves for another is planned again.
            self.handovers.abandon();
        }
        if changed {
            self.claims.change_candidates();
            self.handovers.replan = true;
            self.heartbeat_timer.hurry = true;
        }
    }

    /// Whether this node is off the node network, and others are on it, by what was heard until now.
    pub(super) fn is_off_node_network(&self) -> bool {
        self.node_network.is_certain && self.node_network.is_silent_for(OFF, self.now)
    }

    /// Of these others, the ones that have not said lately that they are off the node network.
    pub(super) fn on_node_network(&self, others: &[(NodeId, Weight)]) -> Vec<(NodeId, Weight)> {
        let now = self.now;
        let is_on = |(node, _): &(NodeId, Weight)| {
            let peer = self.peers.get(node);
            peer.is_none_or(|peer| peer.is_on_node_network(now))
        };
        others.iter().copied().filter(is_on).collect()
    }

    /// Those that are connected; where nobody is, nor this node, all.
    pub(super) fn or_all_if_lost(
        &self,
        connected: Vec<(NodeId, Weight)>,
        all: &[(NodeId, Weight)],
    ) -> Vec<(NodeId, Weight)> {
        if connected.is_empty() && self.node_network.is_lost {
            all.to_vec()
        } else {
            connected
        }
    }

    /// Until when a new run of a node does not count as connected: it cannot say yet that it is off, as its former run
    /// or this node is.
    pub(super) fn new_run_is_off_until(&self, node: NodeId) -> Moment {
        let now = self.now;
        let peer = self.peers.get(&node);
        let was_off = peer.is_some_and(|peer| !peer.is_on_node_network(now));
        if self.node_network.is_lost || was_off {
            now + OFF + SAYS_SO
        } else {
            Moment::default()
        }
    }
}
