//! The listeners: what comes, what moves, what changes, what goes.

use std::collections::HashSet;

use mooring_common::engine::Impact;

use super::pools::{Pair, Pools};
use crate::clouds::cloudscale::load_balancers::model::ListenerSpec;
use crate::clouds::cloudscale::load_balancers::observed::{Listener, Observed};
use crate::clouds::cloudscale::load_balancers::step::{ListenerChange, Step};
use crate::engine::canonical::canonical_set;

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

fn patches(listener: &Listener, wanted: &ListenerSpec) -> Vec<Step> {
    let actual = &listener.spec;
    let name = (actual.name != wanted.name).then(|| ListenerChange::Name(wanted.name.clone()));
    let are_others = canonical_set(&actual.allowed_cidrs) != canonical_set(&wanted.allowed_cidrs);
    let cidrs = are_others.then(|| ListenerChange::AllowedCidrs(wanted.allowed_cidrs.clone()));
    let number = |actual: Option<u32>, wanted: Option<u32>| {
        wanted.filter(|wanted| actual.is_some_and(|actual| actual != *wanted))
    };
    let client = number(actual.timeout_client_data_ms, wanted.timeout_client_data_ms);
    let connect = number(
        actual.timeout_member_connect_ms,
        wanted.timeout_member_connect_ms,
    );
    let member = number(actual.timeout_member_data_ms, wanted.timeout_member_data_ms);
    let all = [
        name,
        cidrs,
        client.map(ListenerChange::ClientDataMs),
        connect.map(ListenerChange::MemberConnectMs),
        member.map(ListenerChange::MemberDataMs),
    ];
    let patch = |change| Step::PatchListener {
        uuid: listener.uuid.clone(),
        change,
    };
    all.into_iter().flatten().map(patch).collect()
}
