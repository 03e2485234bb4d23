//! What makes sure, at this instant, that somebody speaks.

use mooring_node::protocol::Path;

use super::Simulation;
use crate::clock::{NEVER, SECOND};
use crate::engine::Engine;
use crate::invariants::Violation;
use crate::network::{Nodes, each, has};
use crate::schedule::{PREFERRED_AFTER, SETTLING};

/// What is known of all nodes at one instant.
pub(super) struct Picture {
    /// Those that run well, and have for long enough to be members.
    pub(super) settled: Nodes,
    /// Of these, whom each hears well and is heard well by.
    pub(super) near: Vec<Nodes>,
    /// The voters of the newest generation that anybody serves.
    pub(super) voters: Nodes,
    /// Of the settled, those that serve it.
    pub(super) serving: Nodes,
    /// Whether all that run know the API's objects as they are.
    pub(super) all_know: bool,
}

impl<E: Engine> Simulation<E> {
    /// Finds out who can be heard by clients.
    pub(super) fn find_out_who_is_heard(&mut self) {
        let nodes = 0..self.own();
        let audible = nodes
            .filter(|node| self.is_audible(*node))
            .fold(0, |nodes: Nodes, node| nodes | (1 << node));
        self.watch.set_audible(audible, self.now);
    }

    /// Whether clients hear what a node's daemon says: most clients, or those who share a part of
    /// the segment with this node and another.
    fn is_audible(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        if !state.runs() || !state.is_on_segment() || !self.network.is_heard(node) {
            return false;
        }
        !self.network.is_far(node)
            || (0..self.own()).any(|other| {
                other != node
                    && self.nodes[other].is_on_segment()
                    && self.nodes[other].unpowered == 0
                    && self.network.is_whole(node, other)
            })
    }

    /// Finds out what assures that keys are spoken for.
    pub(super) fn find_out_what_is_assured(&mut self) {
        let picture = self.picture();
        self.note_steady(&picture);
        for key in 0..self.keys.len() {
            let now = |assured: bool| assured.then_some(self.now);
            let assured = [
                now(self.majority_is_connected(&picture, key)),
                now(self.one_of_two_can(&picture, key)),
                now(self.survivors_can(&picture, key)),
                now(self.all_can(&picture, key)),
                self.steady_since(&picture, key),
            ];
            self.watch.assure(key, assured, self.now);
        }
    }

    fn picture(&self) -> Picture {
        let count = self.own();
        let mut settled = 0;
        let mut all_know = true;
        for (node, state) in self.nodes.iter().enumerate().take(count) {
            let since = state.runs_since();
            let ending = state.process.as_ref().is_some_and(|process| process.ending);
            let takes_part = state.unlabelled + state.unregistered == 0
                && (!E::IS_WHOLE || state.on_segment_since + SECOND <= self.now);
            let is_well = !ending && state.present && takes_part;
            if since != NEVER && since + SECOND <= self.now && is_well {
                settled |= 1 << node;
            }
            all_know &= !state.runs() || state.version == self.api.version;
        }
        let near = (0..count).map(|one| {
            let good = |other: &usize| {
                let path = if self.nodes[one].is_on_segment() && self.nodes[*other].is_on_segment()
                {
                    Path::Segment
                } else {
                    Path::NodeNetwork
                };
                has(settled, one)
                    && has(settled, *other)
                    && (*other == one || self.network.is_good(one, *other, path))
            };
            let others = (0..count).filter(good);
            others.fold(0, |nodes: Nodes, node| nodes | (1 << node))
        });
        let near = near.collect();
        let running = self.nodes.iter().take(count).filter(|node| node.runs());
        let newest = running.max_by_key(|node| node.generation);
        let newest = newest.map(|node| &node.serves);
        let voters = newest.map_or(0, |set| {
            let named = (0..count).filter(|node| set.voters.contains(&self.ids[*node]));
            named.fold(0, |nodes: Nodes, node| nodes | (1 << node))
        });
        let newest = newest.map_or(0, |set| set.generation);
        let serving = each(settled)
            .filter(|node| self.nodes[*node].generation == newest && newest > 0)
            .fold(0, |nodes: Nodes, node| nodes | (1 << node));
        Picture {
            settled,
            near,
            voters,
            serving,
            all_know,
        }
    }

    fn is_candidate(&self, node: usize, key: usize) -> bool {
        let candidates = self.api.keys[Self::service_of(key)].candidates;
        candidates.is_none_or(|nodes| has(nodes, node))
    }

    /// Whether a node may hold a key, and can do so.
    fn is_eligible(&self, node: usize, key: usize) -> bool {
        self.is_candidate(node, key) && self.is_fit(node)
    }

    /// The same, or its link is left alone for a while, and there is nobody else.
    fn is_eligible_or_alone(&self, node: usize, key: usize) -> bool {
        let others = || (0..self.own()).filter(|other| *other != node);
        self.is_eligible(node, key)
            || (self.is_candidate(node, key)
                && self.is_fit_but_for_flaps(node)
                && others().all(|other| {
                    let state = &self.nodes[other];
                    let runs = state.is_on_segment() && state.process.is_some();
                    !runs || !self.is_candidate(other, key)
                }))
    }

    /// Whether a node can hold anything.
    pub(super) fn is_fit(&self, node: usize) -> bool {
        self.is_fit_but_for_flaps(node) && self.nodes[node].damped_until <= self.now
    }

    fn is_fit_but_for_flaps(&self, node: usize) -> bool {
        let state = &self.nodes[node];
        state.is_on_segment()
            && state.draining == 0
            && !state.sees_draining
            && state.unfit == 0
            && self.network.link_is_up(node)
            && self.network.is_heard(node)
            && self.network.hears(node)
    }

    /// Whether a majority of the voters, and one who may hold the key, all hear each other.
    fn majority_is_connected(&self, picture: &Picture, key: usize) -> bool {
        let majority = picture.voters.count_ones() / 2 + 1;
        if !self.is_settled(picture, key) || picture.voters == 0 {
            return false;
        }
        each(picture.serving).any(|candidate| {
            if !self.is_eligible_or_alone(candidate, key)
                || self.network.is_far(candidate)
                || !self.can_know_that_it_is_heard(picture, candidate)
            {
                return false;
            }
            let around = picture.near[candidate] & picture.voters & picture.serving;
            subsets(around)
                .any(|some| some.count_ones() == majority && self.hear_each_other(picture, some))
        })
    }

    /// Whether anybody can tell a node that it is heard on the segment: the gateway, or another
    /// voter that it hears, too. Of two that are alone there, one cannot know which of them is deaf.
    pub(super) fn can_know_that_it_is_heard(&self, picture: &Picture, node: usize) -> bool {
        let mut others = (0..self.own())
            .filter(|other| *other != node && has(picture.voters, *other))
            .filter(|other| self.nodes[*other].is_on_segment() && self.nodes[*other].runs())
            .peekable();
        (self.shape.gateway && self.network.gateway_answers(node) && !self.is_filtered())
            || others.peek().is_none()
            || others.any(|other| self.network.is_good(node, other, Path::Segment))
    }

    /// Whether nobody hears anybody on the segment, and the gateway does not answer all: then the
    /// node network alone counts, and a holder that is cut off does not know it.
    fn is_filtered(&self) -> bool {
        let here = |node: &usize| self.nodes[*node].is_on_segment() && self.nodes[*node].runs();
        let nodes: Vec<usize> = (0..self.own()).filter(here).collect();
        let silent = nodes.iter().all(|one| {
            let mut others = nodes.iter().filter(|other| *other != one);
            others.all(|other| !self.network.reaches(*one, *other, Path::Segment))
        });
        let mut answered = nodes.iter().map(|node| self.network.gateway_answers(*node));
        nodes.len() > 1 && silent && !answered.all(|answered| answered)
    }

    fn hear_each_other(&self, picture: &Picture, nodes: Nodes) -> bool {
        each(nodes).all(|node| picture.near[node] & nodes == nodes)
    }

    /// Whether a key is there, and all know of it and of who may hold it.
    pub(super) fn is_settled(&self, picture: &Picture, key: usize) -> bool {
        let service = &self.api.keys[Self::service_of(key)];
        let is_there = service.absent == 0 && service.spots & (1 << key) != 0;
        is_there && self.api.uid.is_some() && picture.all_know
    }

    /// Whether of two voters the primary can hold the key and reaches the API server, and the
    /// other's daemon is gone. The other has to take the primary's place first, and may only if it
    /// has heard it under this generation: for it, see [`Self::survivors_can`].
    fn one_of_two_can(&self, picture: &Picture, key: usize) -> bool {
        picture.voters.count_ones() == 2
            && self.is_settled(picture, key)
            && each(picture.voters & picture.serving).any(|node| {
                let other = picture.voters & !(1 << node);
                let gone = each(other).all(|other| self.nodes[other].process.is_none());
                gone && self.api.voters().primary == Some(self.ids[node])
                    && self.is_eligible(node, key)
                    && !self.network.is_far(node)
                    && self.network.gateway_answers(node)
                    && self.api.is_reached_by(node)
                    && self.api.answers_reach(node)
            })
    }

    /// Whether all that live hear each other and reach the API server and the gateway, and all
    /// others have no power.
    fn survivors_can(&self, picture: &Picture, key: usize) -> bool {
        let alive = picture.settled;
        let others_are_dead = self
            .nodes
            .iter()
            .take(self.own())
            .enumerate()
            .all(|(node, state)| has(alive, node) || state.process.is_none());
        others_are_dead
            && self.shape.parameters.survive_via_api
            && self.is_settled(picture, key)
            && picture.voters & picture.serving != 0
            && self.hear_each_other(picture, alive)
            && each(alive).all(|node| {
                self.api.is_reached_by(node)
                    && self.api.answers_reach(node)
                    && !self.network.is_far(node)
                    && (!self.nodes[node].is_on_segment() || self.network.gateway_answers(node))
            })
            && each(alive).any(|node| self.is_eligible(node, key))
    }

    /// At the end, if nothing has been wrong for long: those have the keys that are preferred most.
    pub(super) fn judge_preferences(&mut self) {
        if self.now < self.healed_at + PREFERRED_AFTER {
            return;
        }
        let counts = |node: &usize| {
            let state = &self.nodes[*node];
            state.present && state.process.is_some() && state.unlabelled + state.unregistered == 0
        };
        let nodes: Vec<usize> = (0..self.own()).filter(counts).collect();
        for key in 0..self.keys.len() {
            let preference = |node: usize| self.nodes[node].weight.preference();
            let may_hold = nodes.iter().filter(|node| self.is_eligible(**node, key));
            let most = may_hold.map(|node| preference(*node)).max();
            let mut speakers = each(self.watch.speakers(key, self.now));
            let node = speakers.find(|node| nodes.contains(node) && Some(preference(*node)) < most);
            if let Some(node) = node {
                self.watch.violated(Violation::NotPreferred { key, node });
            }
        }
    }

    /// Whether nothing is wrong any more, and has not been for a while: whatever the machines say of
    /// voters, if the API server has named some, a majority of them lives.
    fn all_can(&self, picture: &Picture, key: usize) -> bool {
        let named = self.api.voters().voters;
        let alive = each(picture.settled).filter(|node| named.contains(&self.ids[*node]));
        self.now >= self.healed_at + SETTLING
            && self.is_settled(picture, key)
            && (named.is_empty() || alive.count() > named.len() / 2)
            && each(picture.settled).any(|node| self.is_eligible_or_alone(node, key))
    }
}

/// All subsets of a set.
pub(super) fn subsets(nodes: Nodes) -> impl Iterator<Item = Nodes> {
    let mut next = Some(nodes);
    std::iter::from_fn(move || {
        let this = next?;
        next = (this != 0).then(|| (this - 1) & nodes);
        Some(this)
    })
}
