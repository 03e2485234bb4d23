//! Each Service with the address that it has, and what becomes of that. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use mooring_common::l2_network::{L2Network, Reserved, Segment};

use super::finding::Findings;
use super::objects::{Object, Objects};

/// The annotations by which Services agree to share an address.
const SHARING: [&str; 2] = [
    "metallb.io/allow-shared-ip",
    "metallb.universe.tf/allow-shared-ip",
];

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
    let key = sharing_key(service);
    let mut apart =
        others.filter(|other| ***other != *service && (key.is_none() || sharing_key(other) != key));
    let other = apart.next()?;
    Some(format!(
        "{address} is that of {}/{} too: give both the same value of {}",
        other.namespace(),
        other.name(),
        SHARING[0]
    ))
}

fn sharing_key(service: &Object) -> Option<String> {
    let annotations = service.annotations();
    let found = SHARING.iter().find_map(|key| annotations.get(*key));
    found.filter(|value| !value.is_empty()).cloned()
}

fn addresses(service: &Object) -> Vec<IpAddr> {
    let ingress = service.list("/status/loadBalancer/ingress").iter();
    let texts = ingress.filter_map(|one| one.get("ip")?.as_str());
    texts.filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooring_common::l2_network::{AddressPool, L2NetworkSpec, Subnet};
    use serde_json::json;

    fn network() -> L2Network {
        let subnet = Subnet {
            cidr: "192.0.2.0/24".to_owned(),
            gateway: Some("192.0.2.1".to_owned()),
        };
        let pool = |name: &str, range: &str| AddressPool {
            name: name.to_owned(),
            ranges: vec![range.to_owned()],
            ..AddressPool::default()
        };
        L2Network::new(
            "lan",
            L2NetworkSpec {
                subnets: vec![subnet],
                pools: vec![pool("a", "192.0.2.0/26"), pool("b", "192.0.2.64/26")],
                ..L2NetworkSpec::default()
            },
        )
    }

    fn service(name: &str, address: &str, key: &str) -> serde_json::Value {
        json!({
            "metadata": {"name": name, "namespace": "shop", "annotations": {"metallb.io/allow-shared-ip": key}},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": address}]}},
        })
    }

    #[test]
    fn says_who_keeps_the_address_and_why_not() {
        let mut objects = Objects::default();
        let node =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}});
        objects.add("Node", node);
        for (name, address, key) in [
            ("first", "192.0.2.0", ""),
            ("kept", "192.0.2.70", ""),
            ("node", "192.0.2.11", ""),
            ("other", "203.0.113.9", ""),
            ("router", "192.0.2.1", ""),
            ("shared-a", "192.0.2.20", "k"),
            ("shared-b", "192.0.2.20", "k"),
            ("twice-a", "192.0.2.21", "k"),
            ("twice-b", "192.0.2.21", "l"),
            ("unshared-a", "192.0.2.22", ""),
            ("unshared-b", "192.0.2.22", ""),
        ] {
            objects.add("Service", service(name, address, key));
        }
        objects.add("Service", json!({"metadata": {"name": "new", "namespace": "shop"}, "spec": {"type": "LoadBalancer"}}));
        objects.add(
            "Service",
            json!({"metadata": {"name": "internal"}, "spec": {"type": "ClusterIP"}}),
        );
        let mut findings = Findings::default();
        let rows = rows(&objects, &[network()], &mut findings);
        let shown: Vec<String> = rows
            .iter()
            .map(|row| match &row.after {
                After::Kept { network, pools } => {
                    format!("{} {network}/{}", row.service, pools.join(" "))
                }
                After::Allocated => format!("{} allocated", row.service),
                After::Left(reason) => format!("{} {reason}", row.service),
            })
            .collect();
        let expected = [
            ("shop/first", "the first address"),
            ("shop/kept", "lan/b"),
            ("shop/new", "allocated"),
            ("shop/node", "address of a Node"),
            ("shop/other", "in no L2Network"),
            ("shop/router", "the router"),
            ("shop/shared-a", "lan/a"),
            ("shop/shared-b", "lan/a"),
            ("shop/twice-a", "shop/twice-b too"),
            ("shop/twice-b", "shop/twice-a too"),
            ("shop/unshared-a", "shop/unshared-b too"),
            ("shop/unshared-b", "shop/unshared-a too"),
        ];
        assert_eq!(shown.len(), expected.len(), "{shown:#?}");
        for (shown, (service, words)) in shown.iter().zip(expected) {
            assert!(
                shown.starts_with(service) && shown.contains(words),
                "{shown}: {words}"
            );
        }
        assert_eq!(findings.sorted().len(), 8);
    }
}
