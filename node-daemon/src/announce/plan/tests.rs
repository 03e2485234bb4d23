use std::collections::BTreeMap;

use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use proptest::prelude::*;

use super::super::observe::{NetworkView, SliceView};
use super::*;

/// A world that is built up step by step.
#[derive(Clone, Default)]
struct World {
    snapshot: Snapshot,
    leases: Vec<Arc<LeaseView>>,
}

impl World {
    fn new(nodes: &[&str]) -> Self {
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
        let view = NetworkView::read(network, "me");
        view.segment.as_ref().unwrap();
        world.snapshot.networks =
            Arc::new([(ObjectKey::cluster_wide("public"), Arc::new(view))].into());
        world.leases = nodes
            .iter()
            .map(|node| Arc::new(LeaseView::test(node, "holder", 1).on("public", 1)))
            .collect();
        world
    }

    fn service(mut self, name: &str, policy: TrafficPolicy, addresses: &[&str]) -> Self {
        let view = ServiceView {
            uid: String::new(),
            network: Some("public".into()),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            policy,
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
        assign(&self.snapshot, &self.leases, &Assignment::default())
    }

    fn speaker(&self, address: &str) -> Option<String> {
        let assignment = self.assign();
        let address = address.parse().unwrap();
        assignment.get("public", address).unwrap().speaker.clone()
    }
}

#[test]
fn policy_and_endpoints_say_who_may_speak() {
    use TrafficPolicy::{Cluster, Local};
    // policy, nodes with ready endpoints, with leaving ones, who may speak
    type Nodes = &'static [&'static str];
    let table: &[(TrafficPolicy, Nodes, Nodes, Nodes)] = &[
        (Cluster, &["a"], &[], &["a", "b", "c"]),
        (Cluster, &["elsewhere"], &[], &["a", "b", "c"]),
        (Cluster, &[], &["b"], &["a", "b", "c"]),
        (Cluster, &[], &[], &[]),
        (Local, &["b"], &[], &["b"]),
        (Local, &["b"], &["c"], &["b"]),
        (Local, &["a", "c"], &["b"], &["a", "c"]),
        (Local, &[], &["b", "c"], &["b", "c"]),
        (Local, &["elsewhere"], &["c"], &["c"]),
        (Local, &["elsewhere"], &[], &[]),
        (Local, &[], &[], &[]),
    ];
    for (policy, ready, leaving, expected) in table {
        let world = World::new(&["a", "b", "c"])
            .service("web", *policy, &["192.0.2.17"])
            .endpoints("web", ready, leaving);
        let assignment = world.assign();
        let assigned = assignment
            .get("public", "192.0.2.17".parse().unwrap())
            .unwrap();
        let row = format!("{policy:?} ready {ready:?} leaving {leaving:?}");
        let candidates: Vec<_> = assigned
            .group
            .candidates
            .iter()
            .map(String::as_str)
            .collect();
        assert_eq!(candidates, *expected, "{row}");
        match &assigned.speaker {
            Some(speaker) => assert!(expected.contains(&speaker.as_str()), "{row}"),
            None => assert!(expected.is_empty(), "{row}"),
        }
    }
}

#[test]
fn only_live_members_of_the_segment_speak() {
    let mut world = World::new(&["a", "b"])
        .service("web", TrafficPolicy::Cluster, &["192.0.2.17"])
        .endpoints("web", &["a"], &[]);
    let first = world.speaker("192.0.2.17").unwrap();
    world.leases.retain(|lease| lease.node != first);
    let second = world.speaker("192.0.2.17").unwrap();
    assert_ne!(first, second);
    world.leases = vec![Arc::new(LeaseView::test("c", "holder", 1).on("private", 1))];
    assert_eq!(world.speaker("192.0.2.17"), None);
}

#[test]
fn both_families_of_a_service_are_on_one_node() {
    for last in 16..32 {
        let (four, six) = (format!("192.0.2.{last}"), format!("2001:db8::1{last:02x}"));
        let world = World::new(&["a", "b", "c", "d", "e"])
            .service("web", TrafficPolicy::Cluster, &[&four, &six])
            .endpoints("web", &["a"], &[]);
        assert_eq!(world.speaker(&four), world.speaker(&six));
    }
}

#[test]
fn services_that_share_an_address_are_on_one_node_that_can_serve_both() {
    let world = World::new(&["a", "b", "c"])
        .service(
            "web",
            TrafficPolicy::Local,
            &["192.0.2.17", "2001:db8::117"],
        )
        .service("dns", TrafficPolicy::Local, &["192.0.2.17", "192.0.2.18"])
        .service("other", TrafficPolicy::Local, &["192.0.2.18"])
        .endpoints("web", &["a", "b"], &[])
        .endpoints("dns", &["b", "c"], &[])
        .endpoints("other", &["a", "b", "c"], &[]);
    for address in ["192.0.2.17", "192.0.2.18", "2001:db8::117"] {
        assert_eq!(world.speaker(address).as_deref(), Some("b"), "{address}");
    }
    let assignment = world.assign();
    let assigned = assignment
        .get("public", "192.0.2.17".parse().unwrap())
        .unwrap();
    assert_eq!(assigned.services.len(), 2);
    let apart = World::new(&["a", "b"])
        .service("web", TrafficPolicy::Local, &["192.0.2.17"])
        .service("dns", TrafficPolicy::Local, &["192.0.2.17"])
        .endpoints("web", &["a"], &[])
        .endpoints("dns", &["b"], &[]);
    assert!(
        apart.speaker("192.0.2.17").is_some(),
        "nobody serves both, somebody serves one"
    );
}

#[test]
fn each_address_has_the_router_of_its_subnet() {
    let world = World::new(&["a"])
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
fn services_of_no_network_are_not_announced() {
    let mut world = World::new(&["a"])
        .service("web", TrafficPolicy::Cluster, &["192.0.2.17"])
        .endpoints("web", &["a"], &[]);
    let services = Arc::make_mut(&mut world.snapshot.services);
    let service = Arc::make_mut(services.values_mut().next().unwrap());
    service.network = None;
    assert_eq!(world.assign(), Assignment::default());
}

/// Anybody who may write a Service's status could otherwise have any host's address announced.
#[test]
fn only_addresses_of_the_segments_subnets_are_announced() {
    let world = World::new(&["a"])
        .service(
            "web",
            TrafficPolicy::Cluster,
            // In a range; in a subnet and in no range (any more); in neither, twice.
            &["192.0.2.17", "192.0.2.200", "198.51.100.7", "2001:db8:1::1"],
        )
        .service("far", TrafficPolicy::Cluster, &["198.51.100.7"])
        .endpoints("web", &["a"], &[])
        .endpoints("far", &["a"], &[]);
    let assignment = world.assign();
    let announced: Vec<_> = assignment
        .of("public")
        .map(|(address, _)| address.to_string())
        .collect();
    assert_eq!(announced, ["192.0.2.17", "192.0.2.200"]);
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
    /// What each daemon takes for its own never overlaps, whatever the world looks like, and the
    /// previous assignment changes nothing.
    #[test]
    fn for_one_view_an_address_has_one_speaker_whoever_computes_it(
        live in any::<u8>(),
        before in any::<u8>(),
        services in prop::collection::vec((any::<bool>(), 16..24_u8, 16..24_u8, any::<u8>(), any::<u8>()), 1..8),
    ) {
        let build = |live: u8| {
            let mut world = World::new(&some_nodes(live));
            for (i, (local, one, two, ready, leaving)) in services.iter().enumerate() {
                let policy = if *local { TrafficPolicy::Local } else { TrafficPolicy::Cluster };
                let addresses = [format!("192.0.2.{one}"), format!("2001:db8::1{two:02x}")];
                let name = format!("s{i}");
                world = world
                    .service(&name, policy, &[&addresses[0], &addresses[1]])
                    .endpoints(&name, &some_nodes(*ready), &some_nodes(*leaving));
            }
            world
        };
        let world = build(live);
        let fresh = world.assign();
        let earlier = build(before).assign();
        let continued = assign(&world.snapshot, world.leases.iter().rev(), &earlier);
        prop_assert_eq!(&fresh, &continued);
        let mut speakers: BTreeMap<IpAddr, &Option<String>> = BTreeMap::new();
        for ((_, address), assigned) in &fresh.addresses {
            prop_assert!(speakers.insert(*address, &assigned.speaker).is_none());
            if let Some(speaker) = &assigned.speaker {
                prop_assert!(some_nodes(live).contains(&speaker.as_str()));
            }
        }
    }
}
