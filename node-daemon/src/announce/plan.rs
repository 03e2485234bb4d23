//! Who announces what: a pure function from what was observed to the speaker of every address.
//!
//! Every daemon computes this for all nodes, from the same objects, and takes from it what is its
//! own. So for one and the same view there is at most one speaker for an address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::Segment;

use super::observe::{LeaseView, ServiceView, Snapshot, TrafficPolicy};
use super::rendezvous::{Candidate, choose};

/// The speaker of every address that should be announced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// By the L2Network's name and the address.
    pub addresses: BTreeMap<(String, IpAddr), Assigned>,
}

/// What is decided about one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The Node that announces it; `None`: nobody, since nobody could serve it.
    pub speaker: Option<String>,
    /// The Services that have the address.
    pub services: BTreeSet<ObjectKey>,
    /// The router to tell about it first, if the segment has one.
    pub gateway: Option<IpAddr>,
    group: Arc<Group>,
}

/// Addresses that must be on one node, and who may have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    key: String,
    candidates: BTreeSet<String>,
}

/// Decides the speaker of every address.
///
/// `live` are the Leases of the daemons that are alive. `previous` is the last assignment: where
/// a group's candidates are the same, its speaker is taken from there instead of being computed
/// again, with the same result.
#[must_use]
pub fn assign<'a>(
    snapshot: &Snapshot,
    live: impl IntoIterator<Item = &'a Arc<LeaseView>>,
    previous: &Assignment,
) -> Assignment {
    let mut on_segment: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for lease in live {
        for segment in lease.segments.keys() {
            on_segment
                .entry(segment)
                .or_default()
                .insert(lease.node.as_str());
        }
    }
    let nobody = BTreeSet::new();
    let mut assignment = Assignment::default();
    for (name, network) in snapshot.networks.iter() {
        let Ok(segment) = &network.segment else {
            continue;
        };
        let members = on_segment.get(name.name.as_str()).unwrap_or(&nobody);
        for sharers in groups(snapshot, &name.name, segment) {
            let addresses: BTreeSet<IpAddr> = sharers
                .iter()
                .flat_map(|sharer| sharer.addresses.iter().copied())
                .collect();
            let Some(first) = addresses.first() else {
                continue;
            };
            let group = Arc::new(Group {
                key: first.to_string(),
                candidates: candidates(snapshot, &sharers, members),
            });
            let speaker = speaker_of(&group, previous.get(&name.name, *first));
            for address in addresses {
                let services = sharers
                    .iter()
                    .filter(|sharer| sharer.addresses.contains(&address))
                    .map(|sharer| sharer.key.clone())
                    .collect();
                let assigned = Assigned {
                    speaker: speaker.clone(),
                    services,
                    gateway: segment.gateway_of(address),
                    group: Arc::clone(&group),
                };
                assignment
                    .addresses
                    .insert((name.name.clone(), address), assigned);
            }
        }
    }
    assignment
}

impl Assignment {
    /// What is decided about one address.
    #[must_use]
    pub fn get(&self, segment: &str, address: IpAddr) -> Option<&Assigned> {
        self.addresses.get(&(segment.to_owned(), address))
    }

    /// All addresses of a segment.
    pub fn of<'a>(&'a self, segment: &'a str) -> impl Iterator<Item = (IpAddr, &'a Assigned)> + 'a {
        self.addresses
            .iter()
            .filter(move |((name, _), _)| name == segment)
            .map(|((_, address), assigned)| (*address, assigned))
    }
}

/// A Service with those of its addresses that lie on the segment.
struct Sharer<'a> {
    key: &'a ObjectKey,
    service: &'a ServiceView,
    addresses: BTreeSet<IpAddr>,
}

/// The Services on a segment, those that share an address (directly, or through others) together:
/// an address that two nodes answered for would reach neither Service whole.
///
/// What lies in none of the segment's subnets central cannot have allocated, whatever a Service's
/// status says. Its ranges are not asked: what a Service holds outlives them.
fn groups<'a>(snapshot: &'a Snapshot, name: &str, segment: &Segment) -> Vec<Vec<Sharer<'a>>> {
    let on_segment = |address: &IpAddr| {
        let mut subnets = segment.subnets.iter();
        subnets.any(|(subnet, _)| subnet.contains(address))
    };
    let mut groups: Vec<Option<Vec<Sharer<'a>>>> = Vec::new();
    let mut group_of: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for (key, service) in snapshot.services.iter() {
        if service.network.as_deref() != Some(name) {
            continue;
        }
        let addresses: BTreeSet<IpAddr> = service
            .addresses
            .iter()
            .copied()
            .filter(on_segment)
            .collect();
        if addresses.is_empty() {
            continue;
        }
        let shared: BTreeSet<usize> = addresses
            .iter()
            .filter_map(|address| group_of.get(address).copied())
            .collect();
        let mut merged = vec![Sharer {
            key,
            service,
            addresses,
        }];
        for index in shared {
            merged.extend(
                groups
                    .get_mut(index)
                    .and_then(Option::take)
                    .unwrap_or_default(),
            );
        }
        for address in merged.iter().flat_map(|sharer| &sharer.addresses) {
            group_of.insert(*address, groups.len());
        }
        groups.push(Some(merged));
    }
    groups.into_iter().flatten().collect()
}

/// Who may have the addresses of these Services: whoever can serve all of them, or, if nobody
/// can, whoever can serve one.
fn candidates(
    snapshot: &Snapshot,
    sharers: &[Sharer<'_>],
    members: &BTreeSet<&str>,
) -> BTreeSet<String> {
    let able: Vec<BTreeSet<&str>> = sharers
        .iter()
        .map(|sharer| able_to_serve(snapshot, sharer.key, sharer.service.policy, members))
        .collect();
    let of_all: BTreeSet<&str> = members
        .iter()
        .copied()
        .filter(|node| able.iter().all(|nodes| nodes.contains(node)))
        .collect();
    let chosen = if of_all.is_empty() {
        able.into_iter().flatten().collect()
    } else {
        of_all
    };
    chosen.into_iter().map(str::to_owned).collect()
}

/// The members that can serve one Service. Endpoints that terminate and still serve count where
/// there is none that is ready, as for kube-proxy.
fn able_to_serve<'a>(
    snapshot: &Snapshot,
    key: &ObjectKey,
    policy: TrafficPolicy,
    members: &BTreeSet<&'a str>,
) -> BTreeSet<&'a str> {
    let slices = || snapshot.slices_of(key).iter();
    match policy {
        TrafficPolicy::Cluster => {
            if slices().any(|slice| slice.any_ready || slice.any_leaving) {
                members.clone()
            } else {
                BTreeSet::new()
            }
        }
        TrafficPolicy::Local => {
            let ready = members_among(members, |node| {
                slices().any(|slice| slice.ready_nodes.contains(node))
            });
            if ready.is_empty() {
                members_among(members, |node| {
                    slices().any(|slice| slice.leaving_nodes.contains(node))
                })
            } else {
                ready
            }
        }
    }
}

fn members_among<'a>(
    members: &BTreeSet<&'a str>,
    mut test: impl FnMut(&str) -> bool,
) -> BTreeSet<&'a str> {
    members.iter().copied().filter(|node| test(node)).collect()
}

fn speaker_of(group: &Group, previous: Option<&Assigned>) -> Option<String> {
    match previous {
        Some(previous) if *previous.group == *group => previous.speaker.clone(),
        _ => {
            let candidates = group.candidates.iter().map(|node| Candidate::new(node));
            choose(&group.key, candidates).map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests;
