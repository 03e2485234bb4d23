//! Reads the pools of a segment, and the ranges that they are made of.

use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;

use super::{AddressPool, L2NetworkSpec, Pool};
use crate::address_range::{AddressRange, AddressRangeError};

type Subnets = [(IpNet, Option<IpAddr>)];

/// All addresses, and the pools that they are in: that of `spec.ranges` first, if there are any.
pub(super) fn read(
    spec: &L2NetworkSpec,
    subnets: &Subnets,
    faults: &mut Vec<String>,
) -> (Vec<AddressRange>, Vec<Pool>) {
    let mut all = Vec::new();
    let own = read_ranges("spec.ranges", &spec.ranges, subnets, &mut all, faults);
    let own = Pool {
        ranges: own,
        ..Pool::default()
    };
    let mut pools = vec![own];
    for (index, pool) in spec.pools.iter().enumerate() {
        let field = format!("spec.pools[{index}]");
        pools.push(read_pool(&field, pool, subnets, &mut all, faults));
    }
    pools.retain(|pool| !pool.ranges.is_empty());
    (all, pools)
}

fn read_pool(
    field: &str,
    pool: &AddressPool,
    subnets: &Subnets,
    all: &mut Vec<AddressRange>,
    faults: &mut Vec<String>,
) -> Pool {
    let ranges = read_ranges(
        &format!("{field}.ranges"),
        &pool.ranges,
        subnets,
        all,
        faults,
    );
    let excluded = format!("{field}.excludedRanges");
    let excluded = read_ranges(
        &excluded,
        &pool.excluded_ranges,
        subnets,
        &mut Vec::new(),
        faults,
    );
    let namespaces = pool.allowed_namespaces.as_ref();
    let services = pool.allowed_services.as_ref();
    Pool {
        name: pool.name.clone(),
        ranges: AddressRange::without(&ranges, &excluded),
        priority: pool.priority,
        allocation: pool.allocation.unwrap_or_default(),
        allowed_namespaces: read_selector(
            &format!("{field}.allowedNamespaces"),
            namespaces,
            faults,
        ),
        allowed_services: read_selector(&format!("{field}.allowedServices"), services, faults),
        avoids_buggy: pool.avoid_buggy_ips,
    }
}

/// A selector of labels, if there is one.
pub(super) fn read_selector(
    field: &str,
    selector: Option<&LabelSelector>,
    faults: &mut Vec<String>,
) -> Option<Selector> {
    let selector = selector?.clone().try_into();
    Some(selector.unwrap_or_else(|error| {
        faults.push(format!(
            "{field} cannot be read ({error}); use matchLabels, or matchExpressions with In, NotIn, \
             Exists or DoesNotExist"
        ));
        Selector::default()
    }))
}

/// Ranges that lie in the subnets, and overlap none of those `read` before, which they are added to.
fn read_ranges(
    field: &str,
    ranges: &[String],
    subnets: &Subnets,
    read: &mut Vec<AddressRange>,
    faults: &mut Vec<String>,
) -> Vec<AddressRange> {
    let mut own = Vec::new();
    for (index, text) in ranges.iter().enumerate() {
        let range = match text.parse::<AddressRange>() {
            Ok(range) => range,
            Err(AddressRangeError { remedy, .. }) => {
                faults.push(format!("{field}[{index}]: {text:?} is no range; {remedy}"));
                continue;
            }
        };
        let is_in =
            |subnet: &IpNet| subnet.contains(&range.first()) && subnet.contains(&range.last());
        if !subnets.iter().any(|(subnet, _)| is_in(subnet)) {
            faults.push(format!(
                "{field}[{index}]: {text:?} lies in none of the subnets; add its subnet, or correct the \
                 range"
            ));
        }
        if let Some(other) = read.iter().find(|other| other.overlaps(&range)) {
            faults.push(format!(
                "{field}[{index}]: {text:?} overlaps {other}; let each address be in one range"
            ));
        }
        read.push(range);
        own.push(range);
    }
    own
}
