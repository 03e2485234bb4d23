use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use proptest::prelude::*;

use super::*;
use crate::cluster::snapshot::{L2NetworkView, SliceView};

/// A world that is built up step by step.
#[derive(Clone, Default)]
struct World {
    snapshot: Snapshot,
}

impl World {
    fn new() -> Self {
        let network = L2Network::new(
            "public",
            L2NetworkSpec {
                subnets: vec![
                    Subnet {
                        cidr: "192.0.2.0/24".into(),
                        gateway: Some("192.0.2.1".into()),
                    },
                    Subnet {
                        cidr: "2001:db8::/64".into(),
                        gateway: None,
                    },
                ],
                ranges: vec!["192.0.2.16/28".into(), "2001:db8::100/120".into()],
                ..L2NetworkSpec::default()
            },
        );
        let mut world = Self::default();
        let view = L2NetworkView::read(network, "me");
        view.segment.as_ref().unwrap();
        world.snapshot.networks =
            Arc::new([(ObjectKey::cluster_wide("public"), Arc::new(view))].into());
        world
    }

    fn service(mut self, name: &str, policy: TrafficPolicy, addresses: &[&str]) -> Self {
        let view = ServiceView {
            uid: String::new(),
            network: Some("public".into()),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            recorded: vec!["192.0.2.200".parse().unwrap()],
            policy,
            health_check_node_port: None,
        };
        Arc::make_mut(&mut self.snapshot.services)
            .insert(ObjectKey::new("shop", name), Arc::new(view));
        self
    }

    fn endpoints(mut self, service: &str, ready: &[&str], leaving: &[&str]) -> Self {
        let set = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect();
        let view = SliceView {
            service: service.to_owned(),
            ready_nodes: set(ready),
            leaving_nodes: set(leaving),
            any_ready: !ready.is_empty(),
            any_leaving: !leaving.is_empty(),
            ..SliceView::default()
        };
        Arc::make_mut(&mut self.snapshot.slices)
            .insert(ObjectKey::new("shop", service), vec![Arc::new(view)]);
        self
    }

    fn assign(&self) -> Assignment {
        assign(&self.snapshot)
    }

    /// The group that an address is in, and who may have it; `None`: nobody.
    fn group(&self, address: &str) -> Option<Wanted> {
        let assignment = self.assign();
        let assigned = assignment.get("public", address.parse().unwrap())?;
        Some(assigned.wanted.clone())
    }
}

fn only(nodes: &[&str]) -> Candidates {
    Candidates::Only(nodes.iter().map(|node| NodeId::of(node)).collect())
}

#[test]
fn policy_and_endpoints_choose_candidates() {
    use TrafficPolicy::{Cluster, Local};
    // policy, nodes with ready endpoints, with leaving ones, who may speak
    type Nodes = &'static [&'static str];
    let all = || Some(Candidates::All);
    let table: Vec<(TrafficPolicy, Nodes, Nodes, Option<Candidates>)> = vec![
        (Cluster, &["a"], &[], all()),
        (Cluster, &["elsewhere"], &[], all()),
        (Cluster, &[], &["b"], all()),
        (Cluster, &[], &[], None),
        (Local, &["b"], &[], Some(only(&["b"]))),
        (Local, &["b"], &["c"], Some(only(&["b"]))),
        (Local, &["a", "c"], &["b"], Some(only(&["a", "c"]))),
        (Local, &[], &["b", "c"], Some(only(&["b", "c"]))),
        (Local, &[], &[], None),
    ];
    for (policy, ready, leaving, expected) in table {
        let world = World::new()
            .service("web", policy, &["192.0.2.17"])
            .endpoints("web", ready, leaving);
        let found = world.group("192.0.2.17").map(|wanted| wanted.candidates);
        assert_eq!(
            found, expected,
            "{policy:?} ready {ready:?} leaving {leaving:?}"
        );
    }
}

#[test]
fn dual_stack_service_is_one_group_of_two_keys() {
    let world = World::new()
        .service(
            "web",
            TrafficPolicy::Cluster,
            &["192.0.2.17", "2001:db8::117"],
        )
        .endpoints("web", &["a"], &[]);
    let (four, six) = (world.group("192.0.2.17"), world.group("2001:db8::117"));
    assert!(four.is_some() && four == six);
    let assignment = world.assign();
    let keys: BTreeSet<Key> = assignment.of("public").map(|(key, _)| key).collect();
    let expected =
        ["192.0.2.17", "2001:db8::117"].map(|address| Key::of("public", address.parse().unwrap()));
    assert_eq!(keys, expected.into());
}

/// Who has not heard of the change yet must know the other address by the same key as who has.
#[test]
fn key_and_group_ignore_other_addresses_of_service() {
    let with = |four: &str| {
        World::new()
            .service("web", TrafficPolicy::Cluster, &[four, "2001:db8::117"])
            .endpoints("web", &["a"], &[])
            .assign()
    };
    let known = |assignment: &Assignment| {
        let six: IpAddr = "2001:db8::117".parse().unwrap();
        let mut all = assignment.of("public");
        let (key, assigned) = all.find(|(_, assigned)| assigned.address == six).unwrap();
        (key, assigned.wanted.group)
    };
    assert_eq!(known(&with("192.0.2.17")), known(&with("192.0.2.18")));
}

#[test]
fn sharing_services_need_node_that_serves_all() {
    let world = World::new()
        .service(
            "web",
            TrafficPolicy::Local,
            &["192.0.2.17", "2001:db8::117"],
        )
        .service("dns", TrafficPolicy::Local, &["192.0.2.17", "192.0.2.18"])
        .service("other", TrafficPolicy::Cluster, &["192.0.2.18"])
        .endpoints("web", &["a", "b"], &[])
        .endpoints("dns", &["b", "c"], &[])
        .endpoints("other", &["a"], &[]);
    let first = world.group("192.0.2.17").unwrap();
    assert_eq!(first.candidates, only(&["b"]));
    for address in ["192.0.2.18", "2001:db8::117"] {
        assert_eq!(world.group(address).as_ref(), Some(&first), "{address}");
    }
    let assignment = world.assign();
    let assigned = assignment.get("public", "192.0.2.17".parse().unwrap());
    assert_eq!(assigned.unwrap().services.len(), 2);
}

/// One Service without endpoints takes the address from nobody, and one that is gone neither.
#[test]
fn sharing_service_without_endpoints_silences_no_other() {
    let cluster = |name: &str, ready: &[&str]| {
        World::new()
            .service("web", TrafficPolicy::Cluster, &["192.0.2.17"])
            .endpoints("web", &["a"], &[])
            .service(name, TrafficPolicy::Cluster, &["192.0.2.17"])
            .endpoints(name, ready, &[])
    };
    for ready in [&["b"][..], &[]] {
        let wanted = cluster("dns", ready).group("192.0.2.17").unwrap();
        assert_eq!(wanted.candidates, Candidates::All);
    }
    let nobody = World::new()
        .service("web", TrafficPolicy::Cluster, &["192.0.2.17"])
        .service("dns", TrafficPolicy::Cluster, &["192.0.2.17"]);
    assert_eq!(nobody.group("192.0.2.17"), None);
    let local = |ready: &[&str], leaving: &[&str]| {
        World::new()
            .service("tcp", TrafficPolicy::Local, &["192.0.2.17"])
            .service("udp", TrafficPolicy::Local, &["192.0.2.17"])
            .endpoints("tcp", ready, leaving)
            .endpoints("udp", ready, leaving)
            .group("192.0.2.17")
            .map(|wanted| wanted.candidates)
    };
    assert_eq!(local(&["a", "c"], &["b"]), Some(only(&["a", "c"])));
    assert_eq!(local(&[], &["b"]), Some(only(&["b"])));
}

#[test]
fn who_joins_an_address_is_known_with_who_had_it() {
    let world = |names: &[&str]| {
        let add = |world: World, name: &&str| {
            world
                .service(name, TrafficPolicy::Cluster, &["192.0.2.17"])
                .endpoints(name, &["a"], &[])
        };
        names.iter().fold(World::new(), add).assign()
    };
    let address = "192.0.2.17".parse().unwrap();
    let joined = |before: &[&str], now: &[&str]| {
        let (before, now) = (world(before), world(now));
        let (first, joined) = before.joined(&now, "public", address)?;
        Some((
            first.name.clone(),
            joined.map(|key| key.name.clone()).collect::<Vec<_>>(),
        ))
    };
    assert_eq!(joined(&[], &["web"]), None, "nobody had it");
    assert_eq!(joined(&["web"], &[]), None, "nobody has it");
    let all = joined(&["web"], &["dns", "ssh", "web"]);
    assert_eq!(
        all,
        Some(("web".to_owned(), vec!["dns".to_owned(), "ssh".to_owned()]))
    );
    assert_eq!(
        joined(&["dns", "web"], &["web"]),
        Some(("dns".to_owned(), vec![]))
    );
}

#[test]
fn node_that_serves_one_is_enough_if_none_serves_all() {
    let apart = |two: &[&str]| {
        World::new()
            .service("web", TrafficPolicy::Local, &["192.0.2.17"])
            .service("dns", TrafficPolicy::Local, &["192.0.2.17"])
            .endpoints("web", &["a"], &[])
            .endpoints("dns", two, &[])
            .group("192.0.2.17")
            .map(|wanted| wanted.candidates)
    };
    assert_eq!(apart(&["b"]), Some(only(&["a", "b"])));
    assert_eq!(apart(&[]), Some(only(&["a"])));
}

#[test]
fn address_has_router_of_its_subnet() {
    let world = World::new()
        .service(
            "web",
            TrafficPolicy::Cluster,
            &["192.0.2.17", "2001:db8::117"],
        )
        .endpoints("web", &["a"], &[]);
    let assignment = world.assign();
    let gateway = |address: &str| {
        assignment
            .get("public", address.parse().unwrap())
            .unwrap()
            .gateway
    };
    assert_eq!(gateway("192.0.2.17"), Some("192.0.2.1".parse().unwrap()));
    assert_eq!(gateway("2001:db8::117"), None);
}

#[test]
fn ignores_services_without_network() {
    let mut world = World::new()
        .service("web", TrafficPolicy::Cluster, &["192.0.2.17"])
        .endpoints("web", &["a"], &[]);
    let services = Arc::make_mut(&mut world.snapshot.services);
    let service = Arc::make_mut(services.values_mut().next().unwrap());
    service.network = None;
    assert_eq!(world.assign().of("public").count(), 0);
}

/// Anybody who may write a Service's status could otherwise have any host's address announced.
#[test]
fn announces_only_addresses_that_central_can_assign() {
    let world = World::new()
        .service(
            "web",
            TrafficPolicy::Cluster,
            // In a range; in no range any more, and recorded; in no range; in no subnet, twice.
            &[
                "192.0.2.17",
                "192.0.2.200",
                "192.0.2.201",
                "198.51.100.7",
                "2001:db8:1::1",
            ],
        )
        .service("far", TrafficPolicy::Cluster, &["198.51.100.7"])
        .endpoints("web", &["a"], &[])
        .endpoints("far", &["a"], &[]);
    let assignment = world.assign();
    let announced: BTreeSet<IpAddr> = assignment
        .of("public")
        .map(|(_, assigned)| assigned.address)
        .collect();
    let expected = ["192.0.2.17", "192.0.2.200"].map(|text| text.parse().unwrap());
    assert_eq!(announced, expected.into());
}

fn some_nodes(bits: u8) -> Vec<&'static str> {
    ["a", "b", "c", "d", "e"]
        .into_iter()
        .enumerate()
        .filter(|(i, _)| bits & (1 << i) != 0)
        .map(|(_, node)| node)
        .collect()
}

proptest! {
    /// Whatever the world looks like, each address has one key, those of a Service are one group, and no
    /// address is nobody's.
    #[test]
    fn every_address_is_in_one_group_with_candidates(
        services in prop::collection::vec((any::<bool>(), 16..24_u8, 16..24_u8, any::<u8>(), any::<u8>()), 1..8),
    ) {
        let mut world = World::new();
        for (i, (local, one, two, ready, leaving)) in services.iter().enumerate() {
            let policy = if *local { TrafficPolicy::Local } else { TrafficPolicy::Cluster };
            let addresses = [format!("192.0.2.{one}"), format!("2001:db8::1{two:02x}")];
            let name = format!("s{i}");
            world = world
                .service(&name, policy, &[&addresses[0], &addresses[1]])
                .endpoints(&name, &some_nodes(*ready), &some_nodes(*leaving));
        }
        let mut seen = BTreeSet::new();
        let mut groups: BTreeMap<ObjectKey, BTreeSet<Group>> = BTreeMap::new();
        for (key, assigned) in world.assign().of("public") {
            prop_assert_ne!(&assigned.wanted.candidates, &Candidates::Only(BTreeSet::new()));
            prop_assert_eq!(key, Key::of("public", assigned.address));
            prop_assert!(seen.insert(assigned.address));
            for service in &assigned.services {
                groups.entry(service.clone()).or_default().insert(assigned.wanted.group);
            }
        }
        for groups in groups.values() {
            prop_assert_eq!(groups.len(), 1);
        }
    }
}
