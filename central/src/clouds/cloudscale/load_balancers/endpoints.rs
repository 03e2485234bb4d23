//! Which members get new connections, where the endpoints of a Service are followed.
//!
//! | The Node has | Its member is |
//! |---|---|
//! | a ready endpoint | enabled, also if somebody has disabled it by hand |
//! | just lost its last ready one | disabled, once another one that stays serves by the health monitor's word; until then as it is |
//! | none | as it is: what was disabled stays so, and of the others the health monitor keeps traffic away |
//!
//! Of the members of a pool, one at least is always enabled.

use std::collections::{HashMap, HashSet};

use super::desired::{Desired, DesiredPool};
use super::model::MemberSpec;
use super::observed::{Member, Observed, Pool};
use crate::cloud_provider::load_balancers::{LoadBalancerRequest, Presence};
use crate::engine::members::Members;

/// What the Nodes behind members have of a Service's endpoints, by the members' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointStates(HashMap<String, Presence>);

impl EndpointStates {
    /// `None`: that is not followed, and all members are enabled.
    pub(super) fn of(request: &LoadBalancerRequest, machines: &Members) -> Option<Self> {
        let endpoints = request.endpoints.as_ref()?;
        let of_machines = machines.found.iter().flat_map(|machine| {
            let presence = endpoints.on(&machine.node);
            let addresses = machine.attachments.iter();
            addresses.map(move |attachment| (attachment.address.to_string(), presence))
        });
        Some(Self(of_machines.collect()))
    }

    /// The UUIDs of the pools whose members' health decides: somebody is to be disabled, and there is
    /// somebody else.
    pub(super) fn to_ask(&self, desired: &Desired, observed: &Observed) -> Vec<String> {
        let mut pools: Vec<String> = Vec::new();
        for wanted in &desired.pools {
            let enabled = |presence: Presence| {
                let members = self.with(wanted, presence);
                let all = members.flat_map(|member| matches_of(observed, member));
                all.filter(|(_, member)| member.spec.enabled)
            };
            if enabled(Presence::Leaving).next().is_some() {
                pools.extend(enabled(Presence::Ready).map(|(pool, _)| pool.uuid.clone()));
            }
        }
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// Says of each member that is wanted whether it is enabled. `serving`: the UUIDs of those that
    /// serve now. Gives whether some have to wait for others to serve.
    pub(super) fn settle(
        &self,
        desired: &mut Desired,
        observed: &Observed,
        serving: &HashSet<String>,
    ) -> bool {
        let mut is_held = false;
        for wanted in &mut desired.pools {
            let takes_over = |member: &MemberSpec| {
                matches_of(observed, member)
                    .any(|(_, actual)| actual.spec.enabled && serving.contains(&actual.uuid))
            };
            let has_successor = self.with(wanted, Presence::Ready).any(takes_over);
            let will_have = self.with(wanted, Presence::Ready).next().is_some();
            for member in &mut wanted.members {
                let presence = self.presence(member);
                let is_enabled = is_enabled(observed, member);
                member.enabled = match presence {
                    Presence::Ready => true,
                    Presence::Leaving => is_enabled && !has_successor,
                    Presence::Absent => is_enabled,
                };
                is_held |= presence == Presence::Leaving && member.enabled && will_have;
            }
            if wanted.members.iter().all(|member| !member.enabled) {
                let all = wanted.members.iter_mut();
                all.for_each(|member| member.enabled = true);
            }
        }
        is_held
    }

    fn presence(&self, member: &MemberSpec) -> Presence {
        let known = self.0.get(&member.address);
        known.copied().unwrap_or(Presence::Absent)
    }

    fn with<'a>(
        &'a self,
        pool: &'a DesiredPool,
        presence: Presence,
    ) -> impl Iterator<Item = &'a MemberSpec> {
        let members = pool.members.iter();
        members.filter(move |member| self.presence(member) == presence)
    }
}

/// Whether a member that is wanted gets new connections; what there is not yet will.
fn is_enabled(observed: &Observed, wanted: &MemberSpec) -> bool {
    let mut all = matches_of(observed, wanted).peekable();
    all.peek().is_none() || all.any(|(_, actual)| actual.spec.enabled)
}

/// The members that there are for one that is wanted, and their pools.
fn matches_of<'a>(
    observed: &'a Observed,
    wanted: &'a MemberSpec,
) -> impl Iterator<Item = (&'a Pool, &'a Member)> {
    let all = observed.pools.iter();
    let all = all.flat_map(|pool| pool.members.iter().map(move |member| (pool, member)));
    all.filter(|(_, member)| member.spec.target() == wanted.target())
}

#[cfg(test)]
mod tests;
