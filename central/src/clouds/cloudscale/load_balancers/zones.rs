//! Servers of another zone than the load balancer's: private networks end at their zone, and the cloud
//! refuses them as members.

use std::collections::{BTreeMap, BTreeSet};

use mooring_common::names::reasons;

use super::desired::Desired;
use super::observed::Observed;
use crate::cloud_provider::load_balancers::Notice;
use crate::engine::members::{Members, some_of};

/// Leaves out the members that are wanted in another zone, unless they are there already. Gives what a
/// person should know about that.
pub(super) fn keep(
    desired: &mut Desired,
    machines: &Members,
    observed: Option<&Observed>,
) -> Option<Notice> {
    let actual = observed.and_then(|observed| observed.balancer.zone.as_ref());
    let zone = actual.or(desired.zone.as_ref())?.clone();
    let elsewhere = machines.found.iter().filter_map(|machine| {
        let other = machine.zone.as_ref().filter(|other| **other != zone)?;
        let addresses = machine.attachments.iter().map(|a| a.address.to_string());
        Some((format!("{} ({other})", machine.node), addresses))
    });
    let there: BTreeSet<(String, u16)> = observed
        .iter()
        .flat_map(|observed| &observed.pools)
        .flat_map(|pool| &pool.members)
        .map(|member| {
            let (address, port) = member.spec.target();
            (address.to_owned(), port)
        })
        .collect();
    let nodes: BTreeMap<String, String> = elsewhere
        .flat_map(|(node, addresses)| addresses.map(move |address| (address, node.clone())))
        .collect();
    let mut left_out = BTreeSet::new();
    for pool in &mut desired.pools {
        pool.members.retain(|member| {
            let (address, port) = member.target();
            let node = nodes.get(address);
            let stays = node.is_none() || there.contains(&(address.to_owned(), port));
            left_out.extend(node.filter(|_| !stays));
            stays
        });
    }
    let named: Vec<&str> = left_out.into_iter().map(String::as_str).collect();
    (!named.is_empty()).then(|| Notice {
        reason: reasons::NO_MEMBER_ADDRESS,
        note: format!(
            "The load balancer is in zone {zone}, and reaches no server of another zone: {}. Exclude \
             these Nodes, or give them a Service of their own.",
            some_of(&named)
        ),
        by_provider: false,
    })
}
