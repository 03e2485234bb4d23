//! The members of a pool: who joins, who is enabled, who is replaced, who is disabled, who leaves.

use std::fmt::Debug;

use mooring_common::engine::Impact;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::change::{Change, Field};
use super::step::{Action, Effect, Part, PartStep, PoolRef};

/// A member of a pool, as it is or as it is wanted.
pub trait Member: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Where traffic goes: what users can tell apart.
    fn target(&self) -> (&str, u16);

    /// The subnet that its address is in, where another one may have the same address.
    fn subnet(&self) -> Option<&str> {
        None
    }

    /// Its name, for people.
    fn name(&self) -> &str;

    /// Whether it is given new connections. Those that it has go on.
    fn is_enabled(&self) -> bool;

    /// Whether the cloud can leave it without new connections.
    fn can_be_disabled(&self) -> bool {
        true
    }

    /// Lets it be given new connections, or none.
    fn enable(&mut self, enabled: bool);

    /// What asks the cloud for that.
    fn switch(enabled: bool) -> Change;

    /// Whether one that is there is as `wanted`, as far as the cloud says, enabled or not.
    fn is_as(&self, wanted: &Self) -> bool;
}

/// A member where load balancers have none of their own: whole machines get the traffic of all ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoMember {}

impl Member for NoMember {
    fn target(&self) -> (&str, u16) {
        match *self {}
    }

    fn name(&self) -> &str {
        match *self {}
    }

    fn is_enabled(&self) -> bool {
        match *self {}
    }

    fn enable(&mut self, _enabled: bool) {
        match *self {}
    }

    fn switch(enabled: bool) -> Change {
        const ENABLED: Field = Field::new(&["enabled"], "enabled", "");
        Change::new(&ENABLED, enabled)
    }

    fn is_as(&self, _wanted: &Self) -> bool {
        match *self {}
    }
}

impl<M: Member> PartStep<M> {
    /// What it does to a member.
    pub fn member_effect(&self, planned: &[String]) -> Effect {
        match &self.action {
            Action::Create(spec) => {
                let pool = self.pool.id(planned).map(ToOwned::to_owned);
                Effect::CreateMember(pool, spec.name().to_owned())
            }
            Action::Change(member, change) if *change == M::switch(false) => {
                Effect::DisableMember(member.id.clone())
            }
            Action::Change(..) => Effect::Change,
            Action::Delete(member, _) => Effect::DeleteMember(member.id.clone()),
        }
    }
}

/// What changes about the members of one pool.
pub struct MemberChanges<'a, M> {
    pool: &'a PoolRef,
    joining: Vec<&'a M>,
    /// Those that are right but for being enabled or not.
    switched: Vec<&'a Part<M>>,
    /// Those that differ in what cannot be changed, and whose place is needed.
    pub replaced: Vec<(&'a Part<M>, &'a M)>,
    leaving: Vec<&'a Part<M>>,
    /// Those that are not wanted, and stay since not all that are wanted are known.
    pub kept: Vec<&'a Part<M>>,
    /// How many there are that are given traffic.
    enabled: usize,
    /// Whether nobody is to be left.
    empties: bool,
}

impl<'a, M: Member> MemberChanges<'a, M> {
    /// What leads from one to the other. `are_complete`: all that are wanted are known.
    pub fn of(
        pool: &'a PoolRef,
        actual: impl Iterator<Item = &'a Part<M>>,
        wanted: &'a [M],
        are_complete: bool,
    ) -> Self {
        let mut free: Vec<&Part<M>> = actual.collect();
        let mut changes = Self {
            pool,
            joining: Vec::new(),
            switched: Vec::new(),
            replaced: Vec::new(),
            leaving: Vec::new(),
            kept: Vec::new(),
            enabled: free.iter().filter(|part| part.spec.is_enabled()).count(),
            empties: wanted.is_empty(),
        };
        let mut missing: Vec<&M> = Vec::new();
        for wanted in wanted {
            let is_same = |part: &M| part.is_as(wanted) && part.is_enabled() == wanted.is_enabled();
            if take(&mut free, is_same).is_none() {
                missing.push(wanted);
            }
        }
        for wanted in missing {
            if let Some(part) = take(&mut free, |part| part.is_as(wanted)) {
                changes.switched.push(part);
                continue;
            }
            match take(&mut free, |part| part.target() == wanted.target()) {
                Some(part) => changes.replaced.push((part, wanted)),
                None => changes.joining.push(wanted),
            }
        }
        // While those that get no traffic are replaced, the others are all there.
        changes
            .replaced
            .sort_by_key(|(part, _)| part.spec.is_enabled());
        if are_complete {
            changes.leaving = free;
        } else {
            changes.kept = free;
        }
        changes
    }

    /// Those that come, those that are enabled, and then those that are replaced, one by one.
    pub fn joins_and_replacements(&self) -> Vec<PartStep<M>> {
        let joins = self
            .joining
            .iter()
            .map(|spec| PartStep::create(self.pool, *spec));
        joins
            .chain(self.switches(true))
            .chain(self.replacements())
            .collect()
    }

    fn replacements(&self) -> Vec<PartStep<M>> {
        let joining = self.joining.iter().filter(|spec| spec.is_enabled());
        let mut enabled = self.enabled + joining.count() + self.switches(true).count();
        let mut steps = Vec::new();
        for (old, new) in &self.replaced {
            let cuts = old.spec.is_enabled() && enabled == 1;
            let impact = if cuts {
                Impact::Considerable
            } else {
                Impact::None
            };
            steps.push(PartStep::delete(self.pool, old, impact));
            steps.push(PartStep::create(self.pool, *new));
            enabled += usize::from(new.is_enabled());
            enabled -= usize::from(old.spec.is_enabled());
        }
        steps
    }

    /// Those that get no new connections, after those that do.
    pub fn disabled(&self) -> impl Iterator<Item = PartStep<M>> {
        self.switches(false)
    }

    fn switches(&self, enabled: bool) -> impl Iterator<Item = PartStep<M>> {
        let parts = self.switched.iter();
        let parts = parts.filter(move |part| part.spec.is_enabled() != enabled);
        parts.map(move |part| PartStep::change(self.pool, part, M::switch(enabled)))
    }

    /// Those that go.
    pub fn leaves(&self) -> Vec<PartStep<M>> {
        let mut left = self.leaving.len();
        let leave = |part: &&Part<M>| {
            left -= 1;
            let cuts = self.empties && left == 0;
            let impact = if cuts { Impact::Major } else { Impact::None };
            PartStep::delete(self.pool, part, impact)
        };
        self.leaving.iter().map(leave).collect()
    }
}

fn take<'a, M>(free: &mut Vec<&'a Part<M>>, is_right: impl Fn(&M) -> bool) -> Option<&'a Part<M>> {
    let index = free.iter().position(|part| is_right(&part.spec))?;
    Some(free.remove(index))
}
