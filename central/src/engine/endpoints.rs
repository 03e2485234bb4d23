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

use super::members::Members;
use super::pool::Member;
use super::provider::Observed;
use super::step::Part;
use crate::cloud_provider::load_balancers::{LoadBalancerRequest, Presence};

/// What the Nodes behind members have of a Service's endpoints, by the members' addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointStates(HashMap<String, Presence>);

impl FromIterator<(String, Presence)> for EndpointStates {
    fn from_iter<I: IntoIterator<Item = (String, Presence)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

impl EndpointStates {
    /// `None`: that is not followed, and all members are enabled.
    pub fn of(request: &LoadBalancerRequest, members: &Members) -> Option<Self> {
        let endpoints = request.endpoints.as_ref()?;
        let of_machines = members.found.iter().flat_map(|machine| {
            let presence = endpoints.on(&machine.node);
            let addresses = machine.attachments.iter();
            addresses.map(move |attachment| (attachment.address.to_string(), presence))
        });
        Some(of_machines.collect())
    }

    /// The IDs of the pools whose members' health decides: somebody is to be disabled, and there is
    /// somebody else.
    pub fn to_ask<'a, O: Observed>(
        &self,
        wanted: impl Iterator<Item = &'a mut Vec<O::Member>>,
        observed: &O,
    ) -> Vec<String> {
        let mut pools: Vec<String> = Vec::new();
        for members in wanted {
            let enabled = |presence: Presence| {
                let all = self.with(members, presence);
                let all = all.flat_map(|member| matches_of(observed, member));
                all.filter(|(_, member)| member.spec.is_enabled())
            };
            if enabled(Presence::Leaving).next().is_some() {
                pools.extend(enabled(Presence::Ready).map(|(pool, _)| pool.to_owned()));
            }
        }
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    /// Says of each member that is wanted whether it is enabled. `serving`: the IDs of those that
    /// serve now. Gives whether some have to wait for others to serve.
    pub fn settle<'a, O: Observed>(
        &self,
        wanted: impl Iterator<Item = &'a mut Vec<O::Member>>,
        observed: &O,
        serving: &HashSet<String>,
    ) -> bool {
        let mut is_held = false;
        for members in wanted {
            let takes_over = |member: &O::Member| {
                matches_of(observed, member)
                    .any(|(_, actual)| actual.spec.is_enabled() && serving.contains(&actual.id))
            };
            let has_successor = self.with(members, Presence::Ready).any(takes_over);
            let will_have = self.with(members, Presence::Ready).next().is_some();
            for member in members.iter_mut() {
                let presence = self.presence(member);
                let is_enabled = is_enabled(observed, member);
                member.enable(match presence {
                    Presence::Ready => true,
                    Presence::Leaving => is_enabled && !has_successor,
                    Presence::Absent => is_enabled,
                });
                is_held |= presence == Presence::Leaving && member.is_enabled() && will_have;
            }
            if !members.iter().any(Member::is_enabled) {
                members.iter_mut().for_each(|member| member.enable(true));
            }
        }
        is_held
    }

    fn presence(&self, member: &impl Member) -> Presence {
        let (address, _) = member.target();
        let known = self.0.get(address);
        known.copied().unwrap_or(Presence::Absent)
    }

    fn with<'a, M: Member>(
        &self,
        members: &'a [M],
        presence: Presence,
    ) -> impl Iterator<Item = &'a M> {
        let members = members.iter();
        members.filter(move |member| self.presence(*member) == presence)
    }
}

/// Whether a member that is wanted gets new connections; what there is not yet will.
fn is_enabled<O: Observed>(observed: &O, wanted: &O::Member) -> bool {
    let mut all = matches_of(observed, wanted).peekable();
    all.peek().is_none() || all.any(|(_, actual)| actual.spec.is_enabled())
}

/// The members that there are for one that is wanted, and their pools.
fn matches_of<'a, O: Observed>(
    observed: &'a O,
    wanted: &'a O::Member,
) -> impl Iterator<Item = (&'a str, &'a Part<O::Member>)> {
    let all = observed.members();
    all.filter(|(_, member)| member.spec.target() == wanted.target())
}
