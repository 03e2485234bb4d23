//! Each Service with the address that it has, and what becomes of that. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mooring_common::l2_network::{L2Network, Reserved, Segment};
use serde_json::Value;

use super::finding::Findings;
use super::objects::{Object, Objects};

/// One Service of type LoadBalancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) service: String,
    pub(super) now: Vec<IpAddr>,
    pub(super) after: After,
}

/// What becomes of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// They are adopted, as addresses of this L2Network and these pools.
    Kept { network: String, pools: Vec<String> },
    /// It has none, and gets one.
    Allocated,
    /// It does not keep them, or stays another implementation's.
    Left(String),
}

/// What is wrong about one address.
struct Held<'a> {
    segments: &'a [Segment],
    nodes: &'a [IpAddr],
    holders: BTreeMap<IpAddr, Vec<&'a Object>>,
}

/// All Services of type LoadBalancer. One that does not keep its address is told.
pub(super) fn rows(objects: &Objects, networks: &[L2Network], findings: &mut Findings) -> Vec<Row> {
    let mut segments = Vec::new();
    for network in networks {
        match Segment::try_from(network) {
            Ok(segment) => segments.push(segment),
            Err(error) => findings.cannot_say(
                format!(
                    "L2Network {}",
                    network.metadata.name.as_deref().unwrap_or_default()
                ),
                error.faults.join("; "),
            ),
        }
    }
    let services = objects.of("Service");
    let balanced: Vec<_> = services
        .into_iter()
        .filter(|one| one.text("/spec/type") == Some("LoadBalancer"))
        .collect();
    let mut holders: BTreeMap<IpAddr, Vec<&Object>> = BTreeMap::new();
    for service in &balanced {
        for address in addresses(service) {
            holders.entry(address).or_default().push(service);
        }
    }
    let nodes = objects.node_addresses();
    let held = Held {
        segments: &segments,
        nodes: &nodes,
        holders,
    };
    balanced
        .into_iter()
        .map(|service| row(service, &held, findings))
        .collect()
}

fn row(service: &Object, held: &Held<'_>, findings: &mut Findings) -> Row {
    let name = format!("{}/{}", service.namespace(), service.name());
    let now = addresses(service);
    if let Some(class) = service.text("/spec/loadBalancerClass") {
        findings.elsewhere(
            format!("Services of the class {class}, such as {name}"),
            format!("they are served if central.loadBalancers.class names it: {class}"),
        );
    }
    let hostname = service
        .list("/status/loadBalancer/ingress")
        .iter()
        .any(|one| one.get("hostname").is_some());
    let after = match now.first() {
        _ if hostname => {
            After::Left("its status has a host name: it is another implementation's".to_owned())
        }
        None => After::Allocated,
        Some(first) => after(service, *first, &now, held),
    };
    if let After::Left(reason) = &after {
        findings.cannot_say(format!("Service {name}: its address"), reason.clone());
    }
    Row {
        service: name,
        now,
        after,
    }
}

fn after(service: &Object, first: IpAddr, now: &[IpAddr], held: &Held<'_>) -> After {
    let Some(segment) = held.segments.iter().find(|segment| segment.contains(first)) else {
        return After::Left(format!(
            "{first} is in no L2Network: the Service is left as it is"
        ));
    };
    let mut pools = Vec::new();
    for address in now {
        if let Some(reason) = obstacle(service, *address, segment, held) {
            return After::Left(reason);
        }
        let pool = segment
            .pools
            .iter()
            .find(|pool| pool.ranges.iter().any(|range| range.contains(*address)));
        let pool = pool.map(|pool| pool.name.clone()).unwrap_or_default();
        if !pools.contains(&pool) {
            pools.push(pool);
        }
    }
    After::Kept {
        network: segment.name.clone(),
        pools,
    }
}

/// Why the Service does not keep this address.
fn obstacle(
    service: &Object,
    address: IpAddr,
    segment: &Segment,
    held: &Held<'_>,
) -> Option<String> {
    if !segment.contains(address) {
        return Some(format!(
            "{address} is not in the L2Network {} as its other address is: put both in one L2Network",
            segment.name
        ));
    }
    let reserved: Option<Reserved> = segment
        .reserved()
        .find(|(one, _)| *one == address)
        .map(|(_, why)| why);
    if let Some(reserved) = reserved {
        return Some(format!(
            "{address} is {reserved}: no Service keeps it. Correct --subnet, or give it another one"
        ));
    }
    if held.nodes.contains(&address) {
        return Some(format!(
            "{address} is an address of a Node: no Service keeps it"
        ));
    }
    let others = held.holders.get(&address).into_iter().flatten();
    let own = ports(service);
    let mut apart = others.filter(|other| ***other != *service && !ports(other).is_disjoint(&own));
    let other = apart.next()?;
    Some(format!(
        "{address} is that of {}/{} too, and both have a port in common: the older one keeps it. Give one of \
         them another port",
        other.namespace(),
        other.name(),
    ))
}

/// Protocols and numbers.
fn ports(service: &Object) -> BTreeSet<(String, i64)> {
    let all = service.list("/spec/ports").iter();
    let all = all.filter_map(|port| {
        let protocol = port
            .get("protocol")
            .and_then(Value::as_str)
            .unwrap_or("TCP");
        Some((protocol.to_owned(), port.get("port")?.as_i64()?))
    });
    all.collect()
}

/// Lets Services of several namespaces share addresses where they do.
pub(super) fn permit_sharing(
    objects: &Objects,
    networks: &mut [L2Network],
    findings: &mut Findings,
) {
    let mut namespaces: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
    for service in objects.of("Service") {
        for address in addresses(service) {
            namespaces
                .entry(address)
                .or_default()
                .insert(service.namespace().to_owned());
        }
    }
    namespaces.retain(|_, namespaces| namespaces.len() > 1);
    for network in networks {
        let Ok(segment) = Segment::try_from(&*network) else {
            continue;
        };
        let shared = namespaces
            .iter()
            .find(|(address, _)| segment.contains(**address));
        if let Some((address, namespaces)) = shared {
            network.spec.share_across_namespaces = true;
            let namespaces: Vec<_> = namespaces.iter().cloned().collect();
            findings.assume(
                format!("{address}: it is shared by Services of the namespaces {}", namespaces.join(", ")),
                format!(
                    "all namespaces may share addresses of the L2Network {}, by their keys. If only one may, take \
                     spec.shareAcrossNamespaces out",
                    segment.name
                ),
            );
        }
    }
}

fn addresses(service: &Object) -> Vec<IpAddr> {
    let ingress = service.list("/status/loadBalancer/ingress").iter();
    let texts = ingress.filter_map(|one| one.get("ip")?.as_str());
    texts.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
