//! Machines of another zone than the load balancer's: private networks end at their zone, and the cloud
//! refuses them as members.

use std::collections::{BTreeMap, BTreeSet};

use mooring_common::names::reasons;

use super::members::{Members, some_of};
use super::notices::notice;
use super::pool::Member as _;
use super::provider::{Desired, Listed as _, Observed};
use crate::cloud_provider::load_balancers::Notice;

/// Leaves out the members that are wanted in another zone, unless they are there already. Gives what a
/// person should know about that.
pub(super) fn keep<O: Observed, D: Desired<Member = O::Member>>(
    desired: &mut D,
    members: &Members,
    observed: Option<&O>,
) -> Option<Notice> {
    let actual = observed.and_then(|observed| observed.listed().zone());
    let zone = actual.or(desired.zone())?.to_owned();
    let elsewhere = members.found.iter().filter_map(|machine| {
        let other = machine.zone.as_ref().filter(|other| **other != zone)?;
        let addresses = machine.attachments.iter().map(|a| a.address.to_string());
        Some((format!("{} ({other})", machine.node), addresses))
    });
    let nodes: BTreeMap<String, String> = elsewhere
        .flat_map(|(node, addresses)| addresses.map(move |address| (address, node.clone())))
        .collect();
    let there = observed.into_iter().flat_map(Observed::members);
    let there: BTreeSet<(&str, u16)> = there.map(|(_, member)| member.spec.target()).collect();
    let mut left_out = BTreeSet::new();
    for pool in desired.pools() {
        pool.retain(|member| {
            let node = nodes.get(member.target().0);
            let stays = node.is_none() || there.contains(&member.target());
            left_out.extend(node.filter(|_| !stays));
            stays
        });
    }
    let named: Vec<&str> = left_out.into_iter().map(String::as_str).collect();
    let note = format!(
        "The load balancer is in zone {zone}, and reaches no server of another zone: {}. Exclude these \
         Nodes, or give them a Service of their own.",
        some_of(&named)
    );
    (!named.is_empty()).then(|| notice(reasons::NO_MEMBER_ADDRESS, note))
}
