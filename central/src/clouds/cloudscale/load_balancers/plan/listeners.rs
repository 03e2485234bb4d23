//! The listeners: what comes, what moves, what changes, what goes.

use std::collections::HashSet;

use mooring_common::engine::Impact;

use super::pools::{Pair, Pools};
use crate::clouds::cloudscale::load_balancers::change::{OF_LISTENERS, changes};
use crate::clouds::cloudscale::load_balancers::model::ListenerSpec;
use crate::clouds::cloudscale::load_balancers::observed::{Listener, Observed};
use crate::clouds::cloudscale::load_balancers::step::Step;

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
    for pair in &pools.pairs {
        let own = pair.actual.iter().flat_map(|pool| &pool.listeners);
        let mut own = own.filter(|listener| is_in_place(listener, pair));
        if let Some(listener) = own.next() {
            done.insert(&listener.uuid);
            changes
                .changing
                .extend(patches(listener, &pair.wanted.listener));
            continue;
        }
        let in_pools = observed.pools.iter().flat_map(|pool| &pool.listeners);
        let in_pools: Vec<_> = in_pools.filter(|l| is_in_place(l, pair)).collect();
        if in_pools
            .iter()
            .any(|l| pools.staying.contains(l.uuid.as_str()))
        {
            continue;
        }
        let loose = observed.loose_listeners.iter();
        let loose: Vec<_> = loose.filter(|l| is_in_place(l, pair)).collect();
        let create = Step::CreateListener {
            pool: pair.pool.clone(),
            listener: pair.wanted.listener.clone(),
        };
        if in_pools.is_empty() && loose.is_empty() {
            changes.coming.push(create);
            continue;
        }
        // Nobody is served by a loose one.
        changes
            .moving
            .extend(loose.iter().map(|l| delete(l, Impact::None)));
        changes
            .moving
            .extend(in_pools.iter().map(|l| delete(l, Impact::Considerable)));
        changes.moving.push(create);
        done.extend(in_pools.iter().map(|l| l.uuid.as_str()));
    }
    let all = observed.pools.iter().flat_map(|pool| &pool.listeners);
    let unwanted = all.filter(|listener| !done.contains(listener.uuid.as_str()));
    changes
        .going
        .extend(unwanted.map(|l| delete(l, Impact::None)));
    changes
}

fn is_in_place(listener: &Listener, pair: &Pair<'_>) -> bool {
    listener.spec.place() == pair.wanted.listener.place()
}

fn delete(listener: &Listener, impact: Impact) -> Step {
    Step::DeleteListener {
        uuid: listener.uuid.clone(),
        listener: listener.spec.clone(),
        impact,
    }
}

fn patches(listener: &Listener, wanted: &ListenerSpec) -> impl Iterator<Item = Step> {
    let all = changes(&listener.spec, wanted, OF_LISTENERS);
    all.into_iter().map(|change| Step::PatchListener {
        uuid: listener.uuid.clone(),
        change,
    })
}
