//! What watches show of the API's objects, and the steps that change them.

use std::sync::Arc;

use mooring_node::protocol::{NodeId, VoterSet};

use super::{Simulation, What};
use crate::clock::{Instant, SECOND};
use crate::engine::Engine;
use crate::invariants::Violation;
use crate::node::Input;
use crate::objects::Objects;
use crate::steps::Step;

/// How long daemons may take to agree with the API server on who votes, once it has changed for the
/// last time and nothing is wrong.
const AGREEING: Instant = 5 * SECOND;

impl<E: Engine> Simulation<E> {
    pub(super) fn show_view(&mut self, node: usize) {
        let version = self.api_of(node).version;
        let told = self.api.is_reached_by(node) && self.nodes[node].stale == 0;
        if !told || self.nodes[node].version == version || !self.nodes[node].runs() {
            return;
        }
        let objects = Arc::new(self.objects(node));
        self.nodes[node].version = version;
        self.nodes[node].network = objects.uid.or(self.nodes[node].network);
        self.nodes[node].memory = Some(Arc::clone(&objects));
        self.recheck = true;
        self.tell(node, Input::View(objects));
    }

    /// What the API server of a node's cluster shows.
    fn objects(&self, node: usize) -> Objects {
        let api = self.api_of(node);
        let cluster = if node < self.own() {
            0..self.own()
        } else {
            self.own()..self.nodes.len()
        };
        let present = self.nodes[cluster].iter().filter(|node| node.present);
        Objects {
            uid: api.uid,
            services: api.keys.clone(),
            voters: api.voters(),
            approvals: api.approvals.clone(),
            known: present
                .map(|node| (node.id, node.contact.clone()))
                .collect(),
            nodes: self.ids.clone(),
        }
    }

    /// The steps that only whole daemons notice.
    pub(super) fn step_of_objects(&mut self, step: &Step) {
        match *step {
            Step::Readdress { service, spots } => {
                let state = &mut self.api.keys[service];
                state.spots = spots;
                state.since = self.now;
                self.api.version += 1;
                self.api.remember(self.now);
                self.objects_changed();
            }
            Step::Unlabel { node, on } => {
                count(&mut self.nodes[node].unlabelled, on);
                self.nodes[node].on_segment_since = self.now;
                self.push(self.now, What::Local { node });
            }
            Step::Unregister { node, on } => {
                count(&mut self.nodes[node].unregistered, on);
                self.nodes[node].on_segment_since = self.now;
                self.push(self.now, What::Local { node });
            }
            Step::Network { uid } => {
                self.api.set_network(uid, self.now);
                for node in &mut self.nodes {
                    node.on_segment_since = self.now;
                }
                self.objects_changed();
            }
            Step::Restore { back } => {
                self.api.restore(self.now.saturating_sub(back), self.now);
                self.objects_changed();
            }
            _ => {}
        }
    }

    /// At the end all daemons serve the voters that the API server names.
    pub(super) fn judge_voters(&mut self) {
        let named = self.api.voters();
        let calm = self.now - AGREEING >= self.api.voters_since.max(self.healed_at);
        if !calm || self.api.uid.is_none() {
            return;
        }
        let own = self.nodes.get(..self.own()).unwrap_or_default();
        let lives = |voter: &&NodeId| {
            let mut nodes = own.iter();
            nodes.any(|node| node.id == **voter && node.present && node.runs())
        };
        let most = |set: &VoterSet| set.voters.iter().filter(lives).count() * 2 > set.voters.len();
        // Where the API server has gone back, most of those that it names have to agree, or all that are
        // served. If neither can, a majority goes on with what it knows.
        let nobody_can_agree = |serves: &VoterSet| {
            named.generation < serves.generation
                && most(serves)
                && !most(&named)
                && !serves.voters.iter().all(|voter| lives(&voter))
        };
        for (number, node) in own.iter().enumerate() {
            if nobody_can_agree(&node.serves) {
                continue;
            }
            let since = node.runs_since().saturating_add(AGREEING);
            if since <= self.now && node.present && node.generation > 0 && node.serves != named {
                self.watch.violated(Violation::OtherVoters {
                    node: number,
                    serves: node.generation,
                    named: named.generation,
                });
            }
        }
    }
}

const fn count(causes: &mut u8, on: bool) {
    *causes = if on {
        *causes + 1
    } else {
        causes.saturating_sub(1)
    };
}
