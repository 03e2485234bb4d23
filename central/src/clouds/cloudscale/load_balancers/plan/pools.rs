//! Which pool there is for which that is wanted.

use std::collections::HashSet;

use mooring_common::engine::Impact;

use super::super::desired::{Desired, DesiredPool};
use super::super::model::{MemberSpec, POOL_NAME};
use super::super::observed::{Listener, Observed, Pool};
use super::super::step::Step;
use crate::engine::change::Change;
use crate::engine::pool::MemberChanges;
use crate::engine::step::{PartStep, PoolRef};

/// A pool that is wanted, and where it is.
pub(super) struct Pair<'a> {
    /// As it is wanted.
    pub(super) wanted: &'a DesiredPool,
    /// As it is. `None`: it is to be made.
    pub(super) actual: Option<&'a Pool>,
    /// How steps refer to it.
    pub(super) pool: PoolRef,
}

/// All pools.
pub(super) struct Pools<'a> {
    /// Those that are wanted, in order, but for what must wait.
    pub(super) pairs: Vec<Pair<'a>>,
    /// UUIDs of the listeners that stay where they are: what they would move to might have fewer
    /// members, since not all are known.
    pub(super) staying: HashSet<&'a str>,
    /// Those that nobody wants.
    unwanted: Vec<&'a Pool>,
}

impl Pair<'_> {
    /// The making of the pool, if it is not there.
    pub(super) fn created(&self) -> Option<Step> {
        let create = || PartStep::create(&PoolRef::None, &self.wanted.spec);
        self.actual.is_none().then(|| Step::Pool(create()))
    }

    /// What changes about its members.
    pub(super) fn members(&self, are_complete: bool) -> MemberChanges<'_, MemberSpec> {
        let actual = self.actual.iter().flat_map(|pool| &pool.members);
        MemberChanges::of(&self.pool, actual, &self.wanted.members, are_complete)
    }
}

impl<'a> Pools<'a> {
    /// Finds a pool for each that is wanted: one that is the same; else one that serves the same
    /// port and differs in nothing but its name.
    pub(super) fn of(desired: &'a Desired, observed: &'a Observed) -> Self {
        let mut free: Vec<&Pool> = observed.pools.iter().collect();
        let mut found: Vec<Option<&Pool>> = Vec::new();
        for wanted in &desired.pools {
            let same = |pool: &&Pool| pool.part.spec == wanted.spec;
            let serving = |pool: &&Pool| same(pool) && serves(pool, wanted);
            found.push(take(&mut free, serving).or_else(|| take(&mut free, same)));
        }
        for (wanted, found) in desired.pools.iter().zip(&mut found) {
            let renamed = |pool: &&Pool| is_alike(pool, wanted) && serves(pool, wanted);
            *found = found.or_else(|| take(&mut free, renamed));
        }
        let mut pools = Self {
            pairs: Vec::new(),
            staying: HashSet::new(),
            unwanted: Vec::new(),
        };
        let mut planned = 0;
        for (wanted, actual) in desired.pools.iter().zip(found) {
            if !desired.members_are_complete {
                let staying = waiting(wanted, actual, observed);
                let must_wait = actual.is_none() && !staying.is_empty();
                pools.staying.extend(staying);
                if must_wait {
                    continue;
                }
            }
            let pool = match actual {
                Some(pool) => pool.part.reference(),
                None => PoolRef::Planned(planned),
            };
            planned += usize::from(actual.is_none());
            pools.pairs.push(Pair {
                wanted,
                actual,
                pool,
            });
        }
        let stays = |l: &Listener| pools.staying.contains(&*l.id);
        free.retain(|pool| !pool.listeners.iter().any(stays));
        pools.unwanted = free;
        pools
    }

    /// Names that change.
    pub(super) fn renamed(&self) -> impl Iterator<Item = Step> {
        self.pairs.iter().filter_map(|pair| {
            let (part, name) = (&pair.actual?.part, &pair.wanted.spec.name);
            let rename = || Change::new(&POOL_NAME, name);
            let is_renamed = part.spec.name != *name;
            is_renamed.then(|| Step::Pool(PartStep::change(&pair.pool, part, rename())))
        })
    }

    /// The end of those that nobody wants.
    pub(super) fn deleted(&self) -> impl Iterator<Item = Step> {
        let unwanted = self.unwanted.iter();
        unwanted.map(|pool| {
            let step = PartStep::delete(&pool.part.reference(), &pool.part, Impact::None);
            Step::Pool(step)
        })
    }
}

fn take<'a>(free: &mut Vec<&'a Pool>, is_right: impl FnMut(&&'a Pool) -> bool) -> Option<&'a Pool> {
    let index = free.iter().position(is_right)?;
    Some(free.remove(index))
}

fn serves(pool: &Pool, wanted: &DesiredPool) -> bool {
    let mut listeners = pool.listeners.iter();
    listeners.any(|listener| listener.spec.place() == wanted.listener.place())
}

fn is_alike(pool: &Pool, wanted: &DesiredPool) -> bool {
    let (actual, wanted) = (&pool.part.spec, &wanted.spec);
    (&actual.algorithm, &actual.protocol) == (&wanted.algorithm, &wanted.protocol)
}

/// The listeners that must not move to a pool yet, since it might have fewer members than theirs.
fn waiting<'a>(
    wanted: &DesiredPool,
    actual: Option<&Pool>,
    observed: &'a Observed,
) -> Vec<&'a str> {
    let is_served = |pool: &Pool| pool.members.iter().any(|member| member.spec.enabled);
    let has_members = actual.is_some_and(|pool| is_served(pool) || !wanted.members.is_empty());
    if has_members {
        return Vec::new();
    }
    let others = observed.pools.iter().filter(|pool| {
        let is_itself = actual.is_some_and(|actual| actual.part.id == pool.part.id);
        !is_itself && !pool.members.is_empty()
    });
    others
        .flat_map(|pool| &pool.listeners)
        .filter(|listener| listener.spec.place() == wanted.listener.place())
        .map(|listener| listener.id.as_str())
        .collect()
}
