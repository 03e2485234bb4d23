//! What there is to announce, and who may: a pure function from what was observed.
//!
//! Who does announce it is for the daemons of a segment to settle among themselves
//! ([`crate::protocol`]). Each makes the same [`Assignment`] of the same objects; where their views
//! differ for a moment, the protocol still keeps two from speaking.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::Segment;

use super::permitted::Check;
use crate::cluster::service_proxy::is_awaited;
use crate::cluster::snapshot::{ServiceView, Snapshot, TrafficPolicy};
use crate::protocol::{Candidates, Group, Key, NodeId, Wanted};

/// All that should be announced, by L2Network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// By the L2Network's name; each that can be read has its place, be it empty.
    pub segments: BTreeMap<String, BTreeMap<Key, Assigned>>,
}

/// One address: who may announce it, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Which.
    pub address: IpAddr,
    /// Who may, and what belongs together with it.
    pub wanted: Wanted,
    /// The Services that have the address.
    pub services: BTreeSet<ObjectKey>,
    /// The router to tell about it first, if the segment has one.
    pub gateway: Option<IpAddr>,
}

/// Finds out who may announce the addresses of all Services, and which of them belong together. What
/// nobody could serve is left out.
#[must_use]
pub fn assign(snapshot: &Snapshot) -> Assignment {
    let mut assignment = Assignment::default();
    for (name, network) in snapshot.networks.iter() {
        let Ok(segment) = &network.segment else {
            continue;
        };
        let check = Check::new(snapshot, network, segment);
        let keys = groups(snapshot, &name.name, &check)
            .iter()
            .flat_map(|sharers| group(snapshot, &name.name, segment, sharers))
            .collect();
        assignment.segments.insert(name.name.clone(), keys);
    }
    assignment
}

/// The addresses of a group. It is named after the first of its Services, so that it stays the same when
/// an address of it changes.
fn group(
    snapshot: &Snapshot,
    name: &str,
    segment: &Segment,
    sharers: &[SharedService<'_>],
) -> Vec<(Key, Assigned)> {
    let first = sharers.iter().map(|sharer| sharer.key).min();
    let (Some(first), Some(candidates)) = (first, candidates(snapshot, sharers)) else {
        return Vec::new();
    };
    let wanted = Wanted {
        candidates,
        group: Group::of(&first.to_string()),
        ready: !sharers
            .iter()
            .any(|sharer| is_awaited(snapshot, sharer.key, sharer.service)),
        spoken_here: false,
    };
    let addresses: BTreeSet<IpAddr> = sharers
        .iter()
        .flat_map(|sharer| sharer.addresses.iter().copied())
        .collect();
    addresses
        .into_iter()
        .map(|address| {
            let assigned = Assigned {
                address,
                wanted: wanted.clone(),
                services: sharers
                    .iter()
                    .filter(|sharer| sharer.addresses.contains(&address))
                    .map(|sharer| sharer.key.clone())
                    .collect(),
                gateway: segment.gateway_of(address),
            };
            (Key::of(name, address), assigned)
        })
        .collect()
}

impl Assignment {
    /// The addresses of a segment.
    pub fn of<'a>(&'a self, segment: &str) -> impl Iterator<Item = (Key, &'a Assigned)> + 'a {
        let addresses = self.segments.get(segment).into_iter().flatten();
        addresses.map(|(key, assigned)| (*key, assigned))
    }

    /// The Services that have got an address since this assignment was made, with one that had it before;
    /// `None`: nobody had it.
    #[must_use]
    pub fn joined<'a>(
        &'a self,
        now: &'a Self,
        segment: &str,
        address: IpAddr,
    ) -> Option<(&'a ObjectKey, impl Iterator<Item = &'a ObjectKey>)> {
        let key = Key::of(segment, address);
        let before = &self.segments.get(segment)?.get(&key)?.services;
        let now = &now.segments.get(segment)?.get(&key)?.services;
        Some((before.first()?, now.difference(before)))
    }

    /// What is known about one address.
    #[must_use]
    pub fn get(&self, segment: &str, address: IpAddr) -> Option<&Assigned> {
        self.segments.get(segment)?.get(&Key::of(segment, address))
    }
}

/// A Service with those of its addresses that lie on the segment.
struct SharedService<'a> {
    key: &'a ObjectKey,
    service: &'a ServiceView,
    addresses: BTreeSet<IpAddr>,
}

/// The Services on a segment, those that share an address (directly, or through others) together:
/// all are to be served where it is.
///
/// What central cannot have given is left out, whatever a Service's status says.
fn groups<'a>(
    snapshot: &'a Snapshot,
    name: &str,
    check: &Check<'_>,
) -> Vec<Vec<SharedService<'a>>> {
    let mut groups: Vec<Option<Vec<SharedService<'a>>>> = Vec::new();
    let mut group_of: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for (key, service) in snapshot.services.iter() {
        if service.network.as_deref() != Some(name) {
            continue;
        }
        let addresses: BTreeSet<IpAddr> = service
            .addresses
            .iter()
            .copied()
            .filter(|address| check.refusal(service, *address).is_none())
            .collect();
        if addresses.is_empty() {
            continue;
        }
        let shared: BTreeSet<usize> = addresses
            .iter()
            .filter_map(|address| group_of.get(address).copied())
            .collect();
        let mut merged = vec![SharedService {
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
/// can, whoever can serve one. `None`: nobody can serve any.
fn candidates(snapshot: &Snapshot, sharers: &[SharedService<'_>]) -> Option<Candidates> {
    let able: Vec<EligibleNodes<'_>> = sharers
        .iter()
        .map(|sharer| able_to_serve(snapshot, sharer.key, sharer.service.policy))
        .collect();
    let of_all = able.iter().cloned().reduce(EligibleNodes::and)?;
    let chosen = if of_all == EligibleNodes::nobody() {
        able.into_iter().reduce(EligibleNodes::or)?
    } else {
        of_all
    };
    match chosen {
        EligibleNodes::All => Some(Candidates::All),
        EligibleNodes::Only(nodes) if nodes.is_empty() => None,
        EligibleNodes::Only(nodes) => Some(Candidates::Only(
            nodes.into_iter().map(NodeId::of).collect(),
        )),
    }
}

/// The Nodes that can serve a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
enum EligibleNodes<'a> {
    All,
    Only(BTreeSet<&'a str>),
}

impl EligibleNodes<'_> {
    const fn nobody() -> Self {
        Self::Only(BTreeSet::new())
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, able) | (able, Self::All) => able,
            (Self::Only(one), Self::Only(two)) => Self::Only(&one & &two),
        }
    }

    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Only(one), Self::Only(two)) => Self::Only(&one | &two),
            (Self::All, _) | (_, Self::All) => Self::All,
        }
    }
}

/// Endpoints that terminate and still serve count where there is none that is ready, as for
/// kube-proxy.
fn able_to_serve<'a>(
    snapshot: &'a Snapshot,
    key: &ObjectKey,
    policy: TrafficPolicy,
) -> EligibleNodes<'a> {
    let slices = snapshot.slices_of(key);
    match policy {
        TrafficPolicy::Cluster => {
            if slices
                .iter()
                .any(|slice| slice.any_ready || slice.any_leaving)
            {
                EligibleNodes::All
            } else {
                EligibleNodes::nobody()
            }
        }
        TrafficPolicy::Local => {
            let ready = slices.iter().flat_map(|slice| &slice.ready_nodes);
            let ready: BTreeSet<&str> = ready.map(String::as_str).collect();
            if !ready.is_empty() {
                return EligibleNodes::Only(ready);
            }
            let leaving = slices.iter().flat_map(|slice| &slice.leaving_nodes);
            EligibleNodes::Only(leaving.map(String::as_str).collect())
        }
    }
}

#[cfg(test)]
mod tests;
