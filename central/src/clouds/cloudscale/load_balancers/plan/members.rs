//! The members of the pools: who joins, who is enabled, who is replaced, who is disabled, who leaves.

use mooring_common::engine::Impact;

use super::pools::{Pair, Pools};
use crate::clouds::cloudscale::load_balancers::desired::Desired;
use crate::clouds::cloudscale::load_balancers::model::MemberSpec;
use crate::clouds::cloudscale::load_balancers::observed::Member;
use crate::clouds::cloudscale::load_balancers::step::{PoolRef, Step};

/// What changes about the members of one pool.
pub(super) struct Changes<'a> {
    pool: &'a PoolRef,
    joining: Vec<&'a MemberSpec>,
    /// Those that are right but for being enabled or not.
    switched: Vec<&'a Member>,
    /// Those that differ in what cannot be changed, and whose place is needed.
    replaced: Vec<(&'a Member, &'a MemberSpec)>,
    leaving: Vec<&'a Member>,
    /// How many there are that are given traffic.
    enabled: usize,
    /// Whether nobody is to be left.
    empties: bool,
    /// Whether what is not known might suffer, so that nothing is done yet.
    pub(super) must_wait: bool,
}

/// The changes for each pair, in order.
pub(super) fn all<'a>(desired: &Desired, pools: &'a Pools<'a>) -> Vec<Changes<'a>> {
    let of_pair = |pair| Changes::of(pair, desired.members_are_complete);
    pools.pairs.iter().map(of_pair).collect()
}

impl<'a> Changes<'a> {
    fn of(pair: &'a Pair<'a>, are_complete: bool) -> Self {
        let mut free: Vec<&Member> = pair.actual.iter().flat_map(|pool| &pool.members).collect();
        let enabled = free.iter().filter(|member| member.spec.enabled).count();
        let mut missing: Vec<&MemberSpec> = Vec::new();
        for wanted in &pair.wanted.members {
            if take(&mut free, |member| is_same(&member.spec, wanted)).is_none() {
                missing.push(wanted);
            }
        }
        let (mut joining, mut switched, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in missing {
            if let Some(member) = take(&mut free, |member| is_but_for_switch(&member.spec, wanted))
            {
                switched.push(member);
                continue;
            }
            match take(&mut free, |member| member.spec.target() == wanted.target()) {
                Some(member) => replaced.push((member, wanted)),
                None => joining.push(wanted),
            }
        }
        // While those that get no traffic are replaced, the others are all there.
        replaced.sort_by_key(|(member, _)| member.spec.enabled);
        let must_wait = !are_complete && would_strand(pair, &free);
        if !are_complete {
            free.clear();
        }
        Self {
            pool: &pair.pool,
            joining,
            switched,
            replaced,
            leaving: free,
            enabled,
            empties: pair.wanted.members.is_empty(),
            must_wait,
        }
    }

    /// Whether members change the port on which they are asked for their health.
    pub(super) fn move_monitor_port(&self) -> bool {
        let moves = |(old, new): &(&Member, &MemberSpec)| old.spec.monitor_port != new.monitor_port;
        self.replaced.iter().any(moves)
    }

    /// Those that come, those that are enabled, and then those that are replaced, one by one.
    pub(super) fn joins_and_replacements(&self) -> impl Iterator<Item = Step> {
        let joins = self.joining.iter().map(|member| self.create(member));
        let switched = self.switched.iter().filter(|member| !member.spec.enabled);
        let switched = switched.map(|member| self.switch(member));
        joins.chain(switched).chain(self.replacements())
    }

    fn replacements(&self) -> Vec<Step> {
        let joining = self.joining.iter().filter(|member| member.enabled);
        let switched = self.switched.iter().filter(|member| !member.spec.enabled);
        let mut enabled = self.enabled + joining.count() + switched.count();
        let mut steps = Vec::new();
        for (old, new) in &self.replaced {
            let cuts = old.spec.enabled && enabled == 1;
            let impact = if cuts {
                Impact::Considerable
            } else {
                Impact::None
            };
            steps.push(self.delete(old, impact));
            steps.push(self.create(new));
            enabled += usize::from(new.enabled);
            enabled -= usize::from(old.spec.enabled);
        }
        steps
    }

    /// Those that get no new connections, after those that do.
    pub(super) fn disabled(&self) -> impl Iterator<Item = Step> {
        let may_be = !self.must_wait;
        let switched = self.switched.iter().filter(move |_| may_be);
        let switched = switched.filter(|member| member.spec.enabled);
        switched.map(|member| self.switch(member))
    }

    /// Those that go.
    pub(super) fn leaves(&self) -> Vec<Step> {
        let mut left = self.leaving.len();
        let leave = |member: &&Member| {
            left -= 1;
            let cuts = self.empties && left == 0;
            self.delete(member, if cuts { Impact::Major } else { Impact::None })
        };
        self.leaving.iter().map(leave).collect()
    }

    fn create(&self, member: &MemberSpec) -> Step {
        Step::CreateMember {
            pool: self.pool.clone(),
            member: member.clone(),
        }
    }

    /// Enables what is disabled, and the other way round.
    fn switch(&self, member: &Member) -> Step {
        Step::SwitchMember {
            pool: self.pool.clone(),
            uuid: member.uuid.clone(),
            member: member.spec.name.clone(),
            enabled: !member.spec.enabled,
        }
    }

    fn delete(&self, member: &Member, impact: Impact) -> Step {
        Step::DeleteMember {
            pool: self.pool.clone(),
            uuid: member.uuid.clone(),
            member: member.spec.clone(),
            impact,
        }
    }
}

fn take<'a>(
    free: &mut Vec<&'a Member>,
    is_right: impl FnMut(&&'a Member) -> bool,
) -> Option<&'a Member> {
    let index = free.iter().position(is_right)?;
    Some(free.remove(index))
}

fn is_same(actual: &MemberSpec, wanted: &MemberSpec) -> bool {
    let is_port_right = actual.monitor_port.is_none() || actual.monitor_port == wanted.monitor_port;
    let actual = MemberSpec {
        monitor_port: wanted.monitor_port,
        ..actual.clone()
    };
    is_port_right && actual == *wanted
}

fn is_but_for_switch(actual: &MemberSpec, wanted: &MemberSpec) -> bool {
    let switched = MemberSpec {
        enabled: !actual.enabled,
        ..actual.clone()
    };
    is_same(&switched, wanted)
}

/// Whether members that are kept, since they may be right, would be asked for their health where
/// nothing answers the new monitor.
fn would_strand(pair: &Pair<'_>, kept: &[&Member]) -> bool {
    let Some(monitor) = pair.actual.and_then(|pool| pool.monitors.first()) else {
        return false;
    };
    let is_asked_there = |member: &&Member| {
        let ports = pair.wanted.members.iter().map(|wanted| wanted.monitor_port);
        ports
            .into_iter()
            .any(|port| port == member.spec.monitor_port)
    };
    !monitor.spec.can_become(&pair.wanted.monitor)
        && !kept
            .iter()
            .filter(|member| member.spec.enabled)
            .all(is_asked_there)
}
