//! kube-vip's configuration, understood. Pure.
//!
//! Its cloud provider allocates from the ranges of a ConfigMap, one key for each namespace and one for all others.
//! Where addresses are announced is in the environment and arguments of its Pods, and in annotations.

mod config_map;
mod services;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use mooring_common::address_range::AddressRange;

use super::assemble::{Place, SourcePool};
use super::finding::Findings;
use super::objects::{Object, Objects};
use super::{ranges, selectors};
use config_map::{ConfigMap, GLOBAL, Range};
use settings::Settings;

pub(super) use services::told_of_services;

/// Where the ConfigMap is, and its name.
pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const CONFIG_MAP: &str = "kubevip";

/// The pool of addresses that Services have named themselves.
const STATIC: &str = "static";

/// The pools that can be said.
pub(super) fn pools(objects: &Objects, findings: &mut Findings) -> Vec<SourcePool> {
    let settings = settings::read(objects, findings);
    let maps = objects.of("ConfigMap");
    let map = maps
        .iter()
        .find(|map| map.name() == CONFIG_MAP && map.namespace() == NAMESPACE);
    let config = match map {
        Some(map) => config_map::read(map, findings),
        None => {
            findings.assume(
                format!("ConfigMap {NAMESPACE}/{CONFIG_MAP}: it is not there"),
                "no ranges are known but the addresses that Services have; add ranges for new Services",
            );
            ConfigMap::default()
        }
    };
    let mut pools: Vec<SourcePool> = Vec::new();
    let own: Vec<String> = config
        .ranges
        .keys()
        .filter(|name| *name != GLOBAL)
        .cloned()
        .collect();
    for (name, range) in &config.ranges {
        pools.push(pool(name, range, &own, &config, &settings));
    }
    // The first pool keeps an address that is in two of them; a namespace's own is more to the point.
    pools.sort_by_key(|pool| (pool.name == GLOBAL, pool.name.clone()));
    told_of_interfaces(&config, findings);
    pools.extend(named_by_services(
        objects, &pools, &config, &settings, findings,
    ));
    pools
}

/// A namespace with ranges of its own has no others; the global ones are for the rest.
fn pool(
    name: &str,
    range: &Range,
    own: &[String],
    config: &ConfigMap,
    settings: &Settings,
) -> SourcePool {
    let namespaces = match (name == GLOBAL, own.is_empty()) {
        (true, true) => None,
        (true, false) => Some(selectors::namespaces("NotIn", own)),
        (false, _) => Some(selectors::namespaces("In", &[name.to_owned()])),
    };
    SourcePool {
        object: format!("ConfigMap {CONFIG_MAP}: {}", range.key),
        name: name.to_owned(),
        ranges: range.addresses.clone(),
        excluded: if config.skips_ends {
            range.ends.clone()
        } else {
            Vec::new()
        },
        namespaces,
        // It gives out no IPv4 address that ends so, whatever the range.
        avoids_buggy: true,
        place: place(config.interface_of(name), settings),
        ..SourcePool::default()
    }
}

fn place(interface: Option<&str>, settings: &Settings) -> Place {
    let interface = interface.or(settings.interface.as_deref());
    Place {
        name: "kube-vip".to_owned(),
        interfaces: interface.map(Place::on).unwrap_or_default(),
        node_selector: settings.nodes.clone(),
        includes_excluded: true,
    }
}

/// An interface for a namespace that has its addresses from the global ranges.
fn told_of_interfaces(config: &ConfigMap, findings: &mut Findings) {
    for namespace in config.interfaces.keys() {
        if namespace != GLOBAL && !config.ranges.contains_key(namespace) {
            findings.cannot_say(
                format!("ConfigMap {CONFIG_MAP}: interface-{namespace}"),
                format!(
                    "the namespace has its addresses from the global ranges, which are on one interface. Make a \
                     pool for it with allowedNamespaces, in an L2Network with that interface as parent, and take \
                     {namespace} out of the global one"
                ),
            );
        }
    }
}

/// Addresses that Services have although they are in no range: kube-vip announces any.
fn named_by_services(
    objects: &Objects,
    pools: &[SourcePool],
    config: &ConfigMap,
    settings: &Settings,
    findings: &mut Findings,
) -> Option<SourcePool> {
    let known: Vec<AddressRange> = pools.iter().flat_map(|pool| pool.ranges.clone()).collect();
    let mut found: BTreeMap<IpAddr, String> = BTreeMap::new();
    for service in objects.of("Service") {
        for address in addresses(service) {
            if services::is_served(service) && !known.iter().any(|range| range.contains(address)) {
                found.insert(
                    address,
                    format!("{}/{}", service.namespace(), service.name()),
                );
            }
        }
    }
    found.retain(|address, _| !address.is_unspecified());
    if found.is_empty() {
        return None;
    }
    let holders: BTreeSet<_> = found.values().cloned().collect();
    findings.assume(
        format!(
            "Services {}: their addresses are in no range",
            holders.into_iter().collect::<Vec<_>>().join(", ")
        ),
        format!("they are a pool, {STATIC}, that others are not given"),
    );
    let ranges = found
        .keys()
        .filter_map(|address| ranges::between(*address, *address));
    Some(SourcePool {
        object: format!("pool {STATIC}"),
        name: STATIC.to_owned(),
        ranges: ranges.flatten().collect(),
        on_request: true,
        place: place(config.interface_of(GLOBAL), settings),
        ..SourcePool::default()
    })
}

/// What a Service has, or asks for.
fn addresses(service: &Object) -> Vec<IpAddr> {
    let status = service.list("/status/loadBalancer/ingress").iter();
    let status = status.filter_map(|one| one.get("ip")?.as_str());
    status.filter_map(|text| text.parse().ok()).collect()
}

/// As `LabelSelector`s, for the modules below.
type Nodes = Option<LabelSelector>;

#[cfg(test)]
mod tests;
