//! From pools to L2Networks. Pools that are announced at the same place, and whose subnets belong together, are one
//! L2Network's. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use mooring_common::address_range::AddressRange;
use mooring_common::l2_network::{
    AddressPool, Allocation, L2Network, L2NetworkSpec, SegmentInterface,
};

use super::finding::Findings;
use super::ranges;
use super::subnets::{self, KnownSubnet};

/// What an L2Network's schema permits.
const MOST_POOLS: usize = 16;
const MOST_RANGES: usize = 16;
const LONGEST_NAME: usize = 63;

/// Where a pool's addresses are announced.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    /// What its L2Network is called, if nothing else is.
    pub(super) name: String,
    /// The interfaces, in order; none: any.
    pub(super) interfaces: Vec<SegmentInterface>,
    /// The Nodes; absent: all.
    pub(super) node_selector: Option<LabelSelector>,
    /// Whether Nodes announce that are excluded from load balancers.
    pub(super) includes_excluded: bool,
}

impl Place {
    /// This one interface on all Nodes.
    pub(super) fn on(interface: &str) -> Vec<SegmentInterface> {
        vec![SegmentInterface {
            name: interface.to_owned(),
            node_selector: None,
        }]
    }

    /// `spec.parent` and `spec.interfaces`, one of which says it.
    fn parent_or_interfaces(&self) -> (Option<String>, Vec<SegmentInterface>) {
        match self.interfaces.as_slice() {
            [one] if one.node_selector.is_none() => (Some(one.name.clone()), Vec::new()),
            several => (None, several.to_vec()),
        }
    }

    /// Whether it is the same, by whatever name.
    fn is_same(&self, other: &Self) -> bool {
        let named = Self {
            name: other.name.clone(),
            ..self.clone()
        };
        named == *other
    }
}

/// A pool of another implementation, understood.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SourcePool {
    /// How findings call it: `IPAddressPool web`.
    pub(super) object: String,
    pub(super) name: String,
    pub(super) ranges: Vec<AddressRange>,
    pub(super) excluded: Vec<AddressRange>,
    pub(super) priority: Option<u16>,
    pub(super) on_request: bool,
    pub(super) namespaces: Option<LabelSelector>,
    pub(super) services: Option<LabelSelector>,
    pub(super) avoids_buggy: bool,
    pub(super) place: Place,
}

/// Pools of one L2Network, and the numbers of its subnets.
struct Group {
    place: Place,
    subnets: BTreeSet<usize>,
    pools: Vec<AddressPool>,
}

/// The L2Networks that have the pools' addresses, on these subnets and guessed ones.
pub(super) fn assemble(
    mut pools: Vec<SourcePool>,
    given: &[KnownSubnet],
    nodes: &[IpAddr],
    findings: &mut Findings,
) -> Vec<L2Network> {
    name_anew(&mut pools, findings);
    take_overlaps_out(&mut pools, findings);
    let all: Vec<_> = pools.iter().flat_map(|pool| pool.ranges.clone()).collect();
    let subnets = subnets::complete(given, &all, nodes, findings);
    let mut groups: Vec<Group> = Vec::new();
    for pool in pools {
        add(&mut groups, pool, &subnets, findings);
    }
    let mut networks: Vec<L2Network> = Vec::new();
    for group in groups {
        for pools in group.pools.chunks(MOST_POOLS) {
            let name = free_name(&group.place.name, &networks);
            networks.push(network(&name, &group, pools.to_vec(), &subnets));
        }
    }
    networks
}

/// Adds a pool to the groups: those at its place that have one of its subnets become one.
fn add(
    groups: &mut Vec<Group>,
    pool: SourcePool,
    subnets: &[KnownSubnet],
    findings: &mut Findings,
) {
    let mut own = BTreeSet::new();
    let mut cut = Vec::new();
    for (index, subnet) in subnets.iter().enumerate() {
        let part = subnet.part_of(&pool.ranges);
        if !part.is_empty() {
            own.insert(index);
            cut.extend(part);
        }
    }
    let families = own.iter().filter_map(|index| subnets.get(*index));
    let v4 = families.filter(|subnet| subnet.cidr.addr().is_ipv4());
    if v4.clone().count() > 1 {
        let all: Vec<_> = v4.map(|subnet| subnet.cidr.to_string()).collect();
        findings.assume(
            format!("{}: it has addresses of {}", pool.object, all.join(" and ")),
            "they are taken for subnets of one segment. If they are not, make an L2Network for each, with a \
             part of the pool",
        );
    }
    let (place, object) = (pool.place.clone(), pool.object.clone());
    let mut group = Group {
        place,
        subnets: own,
        pools: spec_of(pool, &cut, findings),
    };
    if group.pools.is_empty() {
        findings.cannot_say(
            object,
            "it has no addresses that an L2Network could have; it is left out",
        );
        return;
    }
    let joins = |other: &Group| {
        other.place.is_same(&group.place) && !other.subnets.is_disjoint(&group.subnets)
    };
    let first = groups.iter().position(joins).unwrap_or(groups.len());
    let (joined, rest): (Vec<_>, Vec<_>) = std::mem::take(groups).into_iter().partition(joins);
    *groups = rest;
    let mut pools = Vec::new();
    for other in joined {
        group.subnets.extend(other.subnets);
        pools.extend(other.pools);
    }
    pools.append(&mut group.pools);
    group.pools = pools;
    groups.insert(first.min(groups.len()), group);
}

/// The pool as an L2Network has it; several, where it has more ranges than one may have.
fn spec_of(pool: SourcePool, cut: &[AddressRange], findings: &mut Findings) -> Vec<AddressPool> {
    let spelled =
        |all: &[AddressRange]| -> Vec<String> { all.iter().flat_map(ranges::spelled).collect() };
    let mut all = spelled(cut);
    let mut excluded = spelled(&ranges::common(&ranges::joined(&pool.excluded), cut));
    if excluded.len() > MOST_RANGES {
        all = spelled(&AddressRange::without(cut, &pool.excluded));
        excluded.clear();
    }
    if all.len() > MOST_RANGES {
        findings.cannot_say(
            format!("{}: it is made of {} ranges", pool.object, all.len()),
            format!(
                "a pool of an L2Network has at most {MOST_RANGES}: further ones are pools {}-2 and so on, \
                 which Services that ask for {} are not given",
                pool.name, pool.name
            ),
        );
    }
    let whole = AddressPool {
        name: pool.name.clone(),
        ranges: Vec::new(),
        excluded_ranges: excluded,
        priority: pool.priority,
        allocation: pool.on_request.then_some(Allocation::OnRequest),
        allowed_namespaces: pool.namespaces,
        allowed_services: pool.services,
        avoid_buggy_ips: pool.avoids_buggy,
    };
    let parts = all.chunks(MOST_RANGES).enumerate();
    let parts = parts.map(|(index, part)| AddressPool {
        name: numbered(&pool.name, index + 1),
        ranges: part.to_vec(),
        ..whole.clone()
    });
    parts.collect()
}

fn network(
    name: &str,
    group: &Group,
    pools: Vec<AddressPool>,
    subnets: &[KnownSubnet],
) -> L2Network {
    let held = group.subnets.iter().filter_map(|index| subnets.get(*index));
    let (parent, interfaces) = group.place.parent_or_interfaces();
    L2Network::new(
        name,
        L2NetworkSpec {
            parent,
            interfaces,
            subnets: held.map(KnownSubnet::spec).collect(),
            pools,
            node_selector: group.place.node_selector.clone(),
            include_excluded_nodes: group.place.includes_excluded,
            ..L2NetworkSpec::default()
        },
    )
}

/// Gives pools names that an L2Network permits, each its own.
fn name_anew(pools: &mut [SourcePool], findings: &mut Findings) {
    let mut taken = BTreeSet::new();
    for pool in pools {
        let permitted = permitted_name(&pool.name);
        let mut name = permitted.clone();
        for number in 2.. {
            if !taken.contains(&name) {
                break;
            }
            name = numbered(&permitted, number);
        }
        if name != pool.name {
            findings.cannot_say(
                format!("{}: its name", pool.object),
                format!(
                    "a pool has a DNS label as its name: it is called {name}. Services that ask for it by its \
                     name have to ask for that one"
                ),
            );
        }
        taken.insert(name.clone());
        pool.name = name;
    }
}

/// A DNS label made of a name.
fn permitted_name(name: &str) -> String {
    let letters = name.to_ascii_lowercase();
    let letters = letters.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    });
    let cut: String = letters.take(LONGEST_NAME - 4).collect();
    let trimmed = cut.trim_matches('-');
    if trimmed.is_empty() {
        "pool".to_owned()
    } else {
        trimmed.to_owned()
    }
}

fn numbered(name: &str, number: usize) -> String {
    match number {
        0 | 1 => name.to_owned(),
        number => format!("{name}-{number}"),
    }
}

fn free_name(wanted: &str, networks: &[L2Network]) -> String {
    let wanted = permitted_name(wanted);
    let is_free = |name: &String| {
        networks
            .iter()
            .all(|one| one.metadata.name.as_ref() != Some(name))
    };
    let mut names = (1..).map(|number| numbered(&wanted, number));
    names.find(is_free).unwrap_or(wanted.clone())
}

/// No address is in two pools: the first one keeps it.
fn take_overlaps_out(pools: &mut [SourcePool], findings: &mut Findings) {
    let mut before: Vec<AddressRange> = Vec::new();
    for pool in pools {
        pool.ranges = ranges::joined(&pool.ranges);
        let twice = ranges::common(&pool.ranges, &before);
        if !twice.is_empty() {
            let twice: Vec<_> = twice.iter().map(ToString::to_string).collect();
            findings.cannot_say(
                format!(
                    "{}: {} is in another pool too",
                    pool.object,
                    twice.join(", ")
                ),
                "an address is in one pool only: it is left to the first one",
            );
        }
        pool.ranges = AddressRange::without(&pool.ranges, &before);
        before.extend(pool.ranges.iter().copied());
    }
}

#[cfg(test)]
mod tests;
