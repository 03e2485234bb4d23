//! What there is to announce, and who may: a pure function from what was observed.
//!
//! Who does announce it is for the daemons of a segment to settle among themselves
//! ([`super::protocol`]). Each makes the same [`Assignment`] of the same objects; where their views
//! differ for a moment, the protocol still keeps two from speaking.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::Segment;

use super::observe::{ServiceView, Snapshot, TrafficPolicy};
use super::protocol::{Candidates, Key, NodeId};

/// All that should be announced, by L2Network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// By the L2Network's name; each that can be read has its place, be it empty.
    pub segments: BTreeMap<String, BTreeMap<Key, Group>>,
}

/// Addresses that must be on one node, and who may have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Who may.
    pub candidates: Candidates,
    /// The addresses.
    pub addresses: BTreeMap<IpAddr, Assigned>,
}

/// What is known about one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The Services that have the address.
    pub services: BTreeSet<ObjectKey>,
    /// The router to tell about it first, if the segment has one.
    pub gateway: Option<IpAddr>,
}

/// Groups the addresses of all Services, and finds out who may announce each group. What nobody could
/// serve is left out.
#[must_use]
pub fn assign(snapshot: &Snapshot) -> Assignment {
    let mut assignment = Assignment::default();
    for (name, network) in snapshot.networks.iter() {
        let Ok(segment) = &network.segment else {
            continue;
        };
        let keys = groups(snapshot, &name.name, segment)
            .iter()
            .filter_map(|sharers| group(snapshot, &name.name, segment, sharers))
            .collect();
        assignment.segments.insert(name.name.clone(), keys);
    }
    assignment
}

fn group(
    snapshot: &Snapshot,
    name: &str,
    segment: &Segment,
    sharers: &[Sharer<'_>],
) -> Option<(Key, Group)> {
    let addresses: BTreeSet<IpAddr> = sharers
        .iter()
        .flat_map(|sharer| sharer.addresses.iter().copied())
        .collect();
    let key = Key::of(name, *addresses.first()?);
    let candidates = candidates(snapshot, sharers)?;
    let addresses = addresses
        .into_iter()
        .map(|address| {
            let assigned = Assigned {
                services: sharers
                    .iter()
                    .filter(|sharer| sharer.addresses.contains(&address))
                    .map(|sharer| sharer.key.clone())
                    .collect(),
                gateway: segment.gateway_of(address),
            };
            (address, assigned)
        })
        .collect();
    let group = Group {
        candidates,
        addresses,
    };
    Some((key, group))
}

impl Assignment {
    /// The groups of a segment.
    pub fn of<'a>(&'a self, segment: &str) -> impl Iterator<Item = (Key, &'a Group)> + 'a {
        let groups = self.segments.get(segment).into_iter().flatten();
        groups.map(|(key, group)| (*key, group))
    }

    /// What is known about one address.
    #[must_use]
    pub fn get(&self, segment: &str, address: IpAddr) -> Option<&Assigned> {
        self.of(segment)
            .find_map(|(_, group)| group.addresses.get(&address))
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
/// can, whoever can serve one. `None`: nobody can serve any.
fn candidates(snapshot: &Snapshot, sharers: &[Sharer<'_>]) -> Option<Candidates> {
    let able: Vec<Able<'_>> = sharers
        .iter()
        .map(|sharer| able_to_serve(snapshot, sharer.key, sharer.service.policy))
        .collect();
    let of_all = able.iter().cloned().reduce(Able::and)?;
    let chosen = if of_all == Able::nobody() {
        able.into_iter().reduce(Able::or)?
    } else {
        of_all
    };
    match chosen {
        Able::All => Some(Candidates::All),
        Able::Only(nodes) if nodes.is_empty() => None,
        Able::Only(nodes) => Some(Candidates::Only(
            nodes.into_iter().map(NodeId::of).collect(),
        )),
    }
}

/// The Nodes that can serve a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Able<'a> {
    All,
    Only(BTreeSet<&'a str>),
}

impl Able<'_> {
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
fn able_to_serve<'a>(snapshot: &'a Snapshot, key: &ObjectKey, policy: TrafficPolicy) -> Able<'a> {
    let slices = snapshot.slices_of(key);
    match policy {
        TrafficPolicy::Cluster => {
            if slices
                .iter()
                .any(|slice| slice.any_ready || slice.any_leaving)
            {
                Able::All
            } else {
                Able::nobody()
            }
        }
        TrafficPolicy::Local => {
            let ready = slices.iter().flat_map(|slice| &slice.ready_nodes);
            let ready: BTreeSet<&str> = ready.map(String::as_str).collect();
            if !ready.is_empty() {
                return Able::Only(ready);
            }
            let leaving = slices.iter().flat_map(|slice| &slice.leaving_nodes);
            Able::Only(leaving.map(String::as_str).collect())
        }
    }
}

#[cfg(test)]
mod tests;
