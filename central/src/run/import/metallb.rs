//! MetalLB's configuration, understood. Pure.
//!
//! An IPAddressPool is a pool, and the L2Advertisements that choose it say where it is announced. Every field is said
//! by the L2Networks, or told as a finding.

mod advertisements;
mod program;
mod schema;
mod services;

use mooring_common::address_range::AddressRange;
use serde_json::Value;

use super::assemble::SourcePool;
use super::finding::Findings;
use super::objects::{Object, Objects};
use super::{ranges, selectors};
use advertisements::Advertisement;
use schema::{PoolSpec, ServiceAllocation, Unknown};
use selectors::Joined;

pub(super) use services::told_of_services;

/// Kinds of BGP: what each is for, which no L2Network says.
const BGP: [(&str, &str); 4] = [
    ("BGPAdvertisement", "announces pools by BGP"),
    ("BGPPeer", "is a router that MetalLB speaks BGP with"),
    ("Community", "names BGP communities"),
    ("BFDProfile", "watches BGP sessions"),
];

/// The kinds that are read: API group, version, kind and resource, and whether there is nothing to import without.
pub(super) const KINDS: [(&str, &str, &str, &str, bool); 6] = [
    (
        "metallb.io",
        "v1beta1",
        "IPAddressPool",
        "ipaddresspools",
        true,
    ),
    (
        "metallb.io",
        "v1beta1",
        "L2Advertisement",
        "l2advertisements",
        true,
    ),
    (
        "metallb.io",
        "v1beta1",
        "BGPAdvertisement",
        "bgpadvertisements",
        false,
    ),
    ("metallb.io", "v1beta2", "BGPPeer", "bgppeers", false),
    ("metallb.io", "v1beta1", "Community", "communities", false),
    ("metallb.io", "v1beta1", "BFDProfile", "bfdprofiles", false),
];

/// The pools that can be said.
pub(super) fn pools(objects: &Objects, findings: &mut Findings) -> Vec<SourcePool> {
    let program = program::read(objects, findings);
    let advertisements: Vec<Advertisement> = objects
        .of("L2Advertisement")
        .into_iter()
        .filter_map(|object| Advertisement::read(object, findings))
        .collect();
    told_of_bgp(objects, findings);
    let mut found = Vec::new();
    for object in objects.of("IPAddressPool") {
        let named = format!("IPAddressPool {}", object.name());
        let Some(spec) = object.spec::<PoolSpec>(&named, findings) else {
            continue;
        };
        let place = advertisements::place(object, &advertisements, &program, findings);
        let allocation = spec.service_allocation.as_ref();
        let priority = allocation.map(|allocation| allocation.priority);
        let Some(pool) = pool(&named, object, spec, findings) else {
            continue;
        };
        match place {
            Some(place) => found.push((SourcePool { place, ..pool }, priority)),
            None => findings.cannot_say(
                format!("{named}: no L2Advertisement announces it"),
                "an L2Network announces all that it has: the pool is left out. If it is announced by BGP, leave \
                 it to MetalLB",
            ),
        }
    }
    prioritized(found)
}

fn pool(
    named: &str,
    object: &Object,
    spec: PoolSpec,
    findings: &mut Findings,
) -> Option<SourcePool> {
    told_of_unknown(named, "spec", &spec.unknown, findings);
    let mut all: Vec<AddressRange> = Vec::new();
    for (index, text) in spec.addresses.iter().enumerate() {
        match ranges::parse(text) {
            Some(ranges) => all.extend(ranges),
            None => findings.cannot_say(
                format!("{named}: spec.addresses[{index}]: {text:?}"),
                "it is no range; correct it, and import again",
            ),
        }
    }
    let allocation = spec.service_allocation.unwrap_or_default();
    let field = |name: &str| format!("{named}: spec.serviceAllocation.{name}");
    told_of_unknown(
        named,
        "spec.serviceAllocation",
        &allocation.unknown,
        findings,
    );
    let namespaces = namespaces(&allocation, &field("namespaceSelectors"), findings);
    let services = selectors::any_of(&allocation.service_selectors);
    let services = only(services, &field("serviceSelectors"), "Services", findings);
    Some(SourcePool {
        object: named.to_owned(),
        name: object.name().to_owned(),
        ranges: all,
        on_request: spec.auto_assign == Some(false),
        avoids_buggy: spec.avoid_buggy_ips,
        namespaces,
        services,
        ..SourcePool::default()
    })
}

/// MetalLB adds up names and selectors.
fn namespaces(
    allocation: &ServiceAllocation,
    field: &str,
    findings: &mut Findings,
) -> Option<selectors::LabelSelector> {
    let mut all = allocation.namespace_selectors.clone();
    if !allocation.namespaces.is_empty() {
        all.insert(0, selectors::namespaces("In", &allocation.namespaces));
    }
    only(selectors::any_of(&all), field, "namespaces", findings)
}

/// The one selector that says it; `None`: everything.
fn only(
    joined: Joined,
    field: &str,
    things: &str,
    findings: &mut Findings,
) -> Option<selectors::LabelSelector> {
    match joined {
        Joined::Everything => None,
        Joined::Exact(selector) => Some(selector),
        Joined::First(selector) => {
            findings.cannot_say(
                field,
                format!(
                    "any of several selectors about different labels may match, and an L2Network has one: the \
                     first is taken. Give the {things} a label of their own, and select by it"
                ),
            );
            Some(selector)
        }
    }
}

/// MetalLB serves a Service from the pools with a `serviceAllocation` that may serve it, by their priority, those
/// without one last, and only then from the others. The numbers say the same.
fn prioritized(pools: Vec<(SourcePool, Option<i64>)>) -> Vec<SourcePool> {
    let mut distinct: Vec<i64> = pools.iter().filter_map(|(_, priority)| *priority).collect();
    distinct.retain(|priority| *priority != 0);
    distinct.sort_unstable();
    distinct.dedup();
    let as_written = distinct
        .iter()
        .all(|one| (1..i64::from(u16::MAX)).contains(one));
    let last = match (as_written, distinct.last()) {
        (true, Some(last)) => *last,
        _ => i64::try_from(distinct.len()).unwrap_or(i64::MAX),
    };
    let number = |priority: i64| match priority {
        0 => last.saturating_add(1),
        written if as_written => written,
        other => distinct
            .iter()
            .take_while(|one| **one <= other)
            .count()
            .try_into()
            .unwrap_or(i64::MAX),
    };
    let numbered = pools.into_iter().map(|(pool, priority)| SourcePool {
        priority: priority.map(|priority| u16::try_from(number(priority)).unwrap_or(u16::MAX)),
        ..pool
    });
    numbered.collect()
}

fn told_of_bgp(objects: &Objects, findings: &mut Findings) {
    for (kind, purpose) in BGP {
        for object in objects.of(kind) {
            findings.cannot_say(
                format!("{kind} {}", object.name()),
                format!(
                    "it {purpose}, and Mooring speaks no BGP. Leave these Services to MetalLB, by its \
                     loadBalancerClass, or announce their addresses on the segment"
                ),
            );
        }
    }
}

fn told_of_unknown(named: &str, within: &str, unknown: &Unknown, findings: &mut Findings) {
    for (field, value) in unknown {
        findings.cannot_say(
            format!("{named}: {within}.{field}: {}", shown(value)),
            "this version does not know the field; see what MetalLB does by it",
        );
    }
}

/// A value in one line.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
