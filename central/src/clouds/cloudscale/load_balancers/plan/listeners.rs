//! The listeners: what comes, what moves, what changes, what goes.

use std::collections::HashSet;

use mooring_common::engine::Impact;

use super::super::model::OF_LISTENERS;
use super::super::observed::{Listener, Observed};
use super::super::step::Step;
use super::pools::{Pair, Pools};
use crate::engine::change::changes;
use crate::engine::step::{PartStep, PoolRef};

/// What changes about listeners, in the order to do it.
#[derive(Default)]
pub(super) struct Changes {
    /// Those whose place is free.
    coming: Vec<Step>,
    /// Those whose place is held by another one: away with that one, and up with the new one.
    moving: Vec<Step>,
    changing: Vec<Step>,
    going: Vec<Step>,
}

impl Changes {
    /// All of them.
    pub(super) fn steps(self) -> impl Iterator<Item = Step> {
        let up = self.coming.into_iter().chain(self.moving);
        up.chain(self.changing).chain(self.going)
    }
}

/// What is to be done about listeners.
pub(super) fn all(pools: &Pools<'_>, observed: &Observed) -> Changes {
    let mut changes = Changes::default();
    let mut done: HashSet<&str> = pools.staying.clone();
    let there = || {
        let pools = observed.pools.iter();
        pools.flat_map(|pool| {
            pool.listeners
                .iter()
                .map(move |l| (pool.part.reference(), l))
        })
    };
    for pair in &pools.pairs {
        let is_in_place = |l: &Listener| l.spec.place() == pair.wanted.listener.place();
        let mut own = pair.actual.iter().flat_map(|pool| &pool.listeners);
        if let Some(listener) = own.find(|l| is_in_place(l)) {
            done.insert(&listener.id);
            changes.changing.extend(patches(listener, pair));
            continue;
        }
        let in_pools: Vec<_> = there().filter(|(_, l)| is_in_place(l)).collect();
        if in_pools.iter().any(|(_, l)| pools.staying.contains(&*l.id)) {
            continue;
        }
        let loose = observed.loose_listeners.iter();
        let loose: Vec<_> = loose.filter(|l| is_in_place(l)).collect();
        let create = Step::Listener(PartStep::create(&pair.pool, &pair.wanted.listener));
        if in_pools.is_empty() && loose.is_empty() {
            changes.coming.push(create);
            continue;
        }
        // Nobody is served by a loose one.
        let loose = loose
            .into_iter()
            .map(|l| delete(&PoolRef::None, l, Impact::None));
        changes.moving.extend(loose);
        for (pool, listener) in &in_pools {
            let end = delete(pool, listener, Impact::Considerable);
            changes.moving.push(end);
            done.insert(&listener.id);
        }
        changes.moving.push(create);
    }
    let unwanted = there().filter(|(_, listener)| !done.contains(&*listener.id));
    changes.going = unwanted
        .map(|(pool, l)| delete(&pool, l, Impact::None))
        .collect();
    changes
}

fn delete(pool: &PoolRef, listener: &Listener, impact: Impact) -> Step {
    Step::Listener(PartStep::delete(pool, listener, impact))
}

fn patches(listener: &Listener, pair: &Pair<'_>) -> impl Iterator<Item = Step> {
    let all = changes(&listener.spec, &pair.wanted.listener, OF_LISTENERS);
    let steps = all
        .into_iter()
        .map(|change| PartStep::change(&pair.pool, listener, change));
    steps.map(Step::Listener)
}
