//! Since when one and the same majority has been well, whatever went wrong elsewhere meanwhile.

use super::Simulation;
use super::assurance::{Picture, subsets};
use crate::clock::{Instant, NEVER};
use crate::engine::Engine;
use crate::network::{MOST_NODES, Nodes, each, has};

/// Since when each thing has been so; [`NEVER`]: it is not.
#[derive(Clone, Debug)]
pub(super) struct Steady {
    /// Two serve the newest voters, and hear each other well.
    near: [[Instant; MOST_NODES]; MOST_NODES],
    /// A node can speak, and can know that it is heard.
    fit: [Instant; MOST_NODES],
    /// All know of a key as it is.
    settled: Vec<Instant>,
    voters: Nodes,
}

impl Steady {
    pub(super) fn new(keys: usize) -> Self {
        Self {
            near: [[NEVER; MOST_NODES]; MOST_NODES],
            fit: [NEVER; MOST_NODES],
            settled: vec![NEVER; keys],
            voters: 0,
        }
    }
}

const fn note(since: &mut Instant, is_so: bool, now: Instant) {
    if !is_so {
        *since = NEVER;
    } else if *since == NEVER {
        *since = now;
    }
}

impl<E: Engine> Simulation<E> {
    /// Takes down what is so now.
    pub(super) fn note_steady(&mut self, picture: &Picture) {
        let now = self.now;
        if self.steady.voters != picture.voters {
            self.steady.near = [[NEVER; MOST_NODES]; MOST_NODES];
            self.steady.voters = picture.voters;
        }
        for one in 0..self.own() {
            for other in 0..self.own() {
                let near = has(picture.near[one], other)
                    && has(picture.serving, one)
                    && has(picture.serving, other);
                note(&mut self.steady.near[one][other], near, now);
            }
            let fit = self.is_fit(one)
                && !self.network.is_far(one)
                && self.can_know_that_it_is_heard(picture, one);
            note(&mut self.steady.fit[one], fit, now);
        }
        for key in 0..self.keys.len() {
            let settled = self.is_settled(picture, key);
            note(&mut self.steady.settled[key], settled, now);
        }
    }

    /// Since when the same majority and one that may hold a key have heard each other all the time.
    pub(super) fn steady_since(&self, picture: &Picture, key: usize) -> Option<Instant> {
        let service = &self.api.keys[Self::service_of(key)];
        let settled = self.steady.settled[key].max(service.since);
        let majority = picture.voters.count_ones() / 2 + 1;
        if settled == NEVER || picture.voters == 0 {
            return None;
        }
        let may_hold = |node: &usize| service.candidates.is_none_or(|nodes| has(nodes, *node));
        let since = each(picture.serving).filter(may_hold).filter_map(|node| {
            let fit = self.steady.fit[node].max(settled);
            let around = picture.near[node] & picture.voters & picture.serving;
            let sets = subsets(around).filter(|set| set.count_ones() == majority);
            let since = sets.map(|set| self.heard_since(set | (1 << node))).min()?;
            Some(fit.max(since)).filter(|since| *since != NEVER)
        });
        since.min()
    }

    fn heard_since(&self, nodes: Nodes) -> Instant {
        let pairs = each(nodes).flat_map(|one| each(nodes).map(move |other| (one, other)));
        let since = pairs.map(|(one, other)| self.steady.near[one][other]);
        since.max().unwrap_or(NEVER)
    }
}
