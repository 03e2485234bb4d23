use super::*;
use mooring_common::l2_network::{self, Segment};
use proptest::prelude::*;

fn pool(name: &str, ranges: &[&str]) -> Pool {
    Pool::new(
        name,
        ranges.iter().map(|text| text.parse().unwrap()).collect(),
    )
}

fn allocations(pools: &[Pool]) -> Allocations {
    let allocations = Allocations::default();
    allocations.set_pools(pools.to_vec(), HashSet::new(), HashMap::new());
    allocations
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn v4() -> Request {
    Request {
        families: vec![Family::V4],
        all_families: true,
        ..Request::default()
    }
}

fn asking(address: &str) -> Request {
    Request {
        addresses: vec![address.parse().unwrap()],
        ..v4()
    }
}

fn held(network: &str, addresses: &[&str]) -> Held {
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    Held {
        network: network.into(),
        addresses,
    }
}

#[test]
fn allocation_is_stable_and_unique() {
    let all = allocations(&[pool("lan", &["192.0.2.8/31"])]);
    assert_eq!(
        all.allocate(&key("a"), &v4(), None),
        Ok(held("lan", &["192.0.2.8"]))
    );
    assert_eq!(
        all.allocate(&key("a"), &v4(), None),
        Ok(held("lan", &["192.0.2.8"]))
    );
    assert_eq!(
        all.allocate(&key("b"), &v4(), None),
        Ok(held("lan", &["192.0.2.9"]))
    );
    let error = all.allocate(&key("c"), &v4(), None).unwrap_err();
    assert!(
        error.may_pass() && error.to_string().contains("IPv4"),
        "{error}"
    );
    assert!(all.release(&key("a")) && !all.release(&key("a")));
    assert_eq!(
        all.allocate(&key("c"), &v4(), None),
        Ok(held("lan", &["192.0.2.8"]))
    );
}

#[test]
fn freed_address_is_allocated_last() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    for name in ["a", "b"] {
        all.allocate(&key(name), &v4(), None).unwrap();
    }
    all.release(&key("b"));
    all.release(&key("a"));
    let next: Vec<_> = ["c", "d", "e", "f"]
        .map(|name| all.allocate(&key(name), &v4(), None).unwrap().addresses[0].to_string())
        .into();
    assert_eq!(next, ["192.0.2.10", "192.0.2.11", "192.0.2.9", "192.0.2.8"]);
}

#[test]
fn requested_address_is_given_or_refused() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    let asked = all.allocate(&key("a"), &asking("192.0.2.10"), None);
    assert_eq!(asked, Ok(held("lan", &["192.0.2.10"])));
    let taken = all
        .allocate(&key("b"), &asking("192.0.2.10"), None)
        .unwrap_err();
    assert!(
        matches!(taken, Unavailable::Taken { ref by, .. } if *by == key("a")),
        "{taken}"
    );
    let outside = all.allocate(&key("b"), &asking("198.51.100.1"), None);
    assert!(matches!(outside, Err(Unavailable::Outside { .. })));
    assert_eq!(all.held(&key("b")), None);
    let before = all.allocate(&key("b"), &v4(), None).unwrap();
    all.allocate(&key("b"), &asking("192.0.2.10"), None)
        .unwrap_err();
    assert_eq!(all.held(&key("b")), Some(before));
}

#[test]
fn restores_recorded_address_unless_taken() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    let record = held("lan", &["192.0.2.11"]);
    assert_eq!(
        all.allocate(&key("a"), &v4(), Some(&record)),
        Ok(record.clone())
    );
    let copy = all.allocate(&key("copy"), &v4(), Some(&record)).unwrap();
    assert_ne!(copy, record);
    let forged = held("lan", &["10.0.0.1"]);
    assert_ne!(all.allocate(&key("f"), &v4(), Some(&forged)), Ok(forged));
}

#[test]
fn held_address_survives_network_changes() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    let before = all.allocate(&key("a"), &v4(), None).unwrap();
    all.set_pools(vec![], HashSet::from(["lan".into()]), HashMap::new());
    assert_eq!(all.allocate(&key("a"), &v4(), None), Ok(before));
    assert_eq!(
        all.allocate(&key("b"), &v4(), None),
        Err(Unavailable::NoPools)
    );
}

#[test]
fn dual_stack_uses_one_network() {
    let all = allocations(&[
        pool("a-v4-only", &["192.0.2.8/30"]),
        pool("b-both", &["198.51.100.0/30", "2001:db8::10/124"]),
    ]);
    let families = vec![Family::V6, Family::V4];
    let both = Request {
        families: families.clone(),
        all_families: true,
        ..Request::default()
    };
    let expected = held("b-both", &["2001:db8::10", "198.51.100.0"]);
    assert_eq!(all.allocate(&key("a"), &both, None), Ok(expected));
    let either = Request {
        families,
        ..Request::default()
    };
    assert_eq!(
        all.allocate(&key("b"), &either, None),
        Ok(held("a-v4-only", &["192.0.2.8"]))
    );
}

#[test]
fn never_allocates_router_or_broadcast_address() {
    let network: mooring_common::l2_network::L2Network =
        serde_json::from_value(serde_json::json!({
            "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
            "metadata": {"name": "lan"},
            "spec": {
                "subnets": [{"cidr": "192.0.2.0/29", "gateway": "192.0.2.1"}],
                "ranges": ["192.0.2.0/29"],
            },
        }))
        .unwrap();
    let segment = Segment::try_from(&network).unwrap();
    let all = Allocations::default();
    let reserved = segment
        .reserved()
        .map(|(address, why)| (address, ("lan".to_owned(), why)));
    all.set_pools(
        Pool::of(&segment).collect(),
        HashSet::new(),
        reserved.collect(),
    );
    let given: Vec<_> = (0..5)
        .map(|i| {
            all.allocate(&key(&i.to_string()), &v4(), None)
                .unwrap()
                .addresses[0]
                .to_string()
        })
        .collect();
    assert_eq!(
        given,
        [
            "192.0.2.2",
            "192.0.2.3",
            "192.0.2.4",
            "192.0.2.5",
            "192.0.2.6"
        ]
    );
    assert!(all.allocate(&key("more"), &v4(), None).is_err());
}

proptest! {
    /// Whatever is allocated and released in whatever order, no address has two holders.
    #[test]
    fn allocates_no_address_twice(acts in prop::collection::vec((0u8..12, any::<bool>()), 1..200)) {
        let all = allocations(&[pool("lan", &["192.0.2.8/29"])]);
        for (service, allocate) in acts {
            let key = key(&service.to_string());
            if allocate { let _ = all.allocate(&key, &v4(), None); } else { all.release(&key); }
            let state = all.lock();
            let mut addresses: Vec<_> = state.held.values().flat_map(|h| &h.addresses).collect();
            let count = addresses.len();
            addresses.sort();
            addresses.dedup();
            prop_assert_eq!(addresses.len(), count);
            prop_assert_eq!(state.by_address.len(), count);
        }
    }
}

fn claim(name: &str, recorded: Option<Held>, status: &[&str]) -> Claim {
    Claim {
        key: key(name),
        recorded,
        status: held("", status).addresses,
        namespace: Namespace::NotListed,
        labels: BTreeMap::new(),
        terms: Some(SharingTerms::default()),
    }
}

#[test]
fn status_outranks_copied_record_at_start() {
    let all = allocations(&[pool("lan", &["192.0.2.8/31"])]);
    let record = Some(held("lan", &["192.0.2.8"]));
    all.seed(&[
        claim("copy", record.clone(), &[]),
        claim("owner", record.clone(), &["192.0.2.8"]),
    ]);
    assert_eq!(all.held(&key("owner")), record);
    let moved = all.allocate(&key("copy"), &v4(), record.as_ref());
    assert_eq!(moved, Ok(held("lan", &["192.0.2.9"])));
}

#[test]
fn address_in_a_status_is_not_allocated() {
    let all = allocations(&[pool("lan", &["192.0.2.8/31"])]);
    all.allocate(&key("a"), &v4(), None).unwrap();
    let moved = all.allocate(&key("a"), &asking("192.0.2.9"), None);
    assert_eq!(moved, Ok(held("lan", &["192.0.2.9"])));
    assert!(all.allocate(&key("b"), &v4(), None).is_err());
    assert!(all.settle(&key("a")) && !all.settle(&key("a")));
    let next = all.allocate(&key("b"), &v4(), None);
    assert_eq!(next, Ok(held("lan", &["192.0.2.8"])));
}

#[test]
fn foreign_status_address_is_not_allocated() {
    let all = allocations(&[pool("lan", &["192.0.2.8/31"])]);
    let theirs = held("", &["192.0.2.8"]).addresses;
    assert!(!all.leave(&key("theirs"), &theirs));
    let ours = all.allocate(&key("ours"), &v4(), None);
    assert_eq!(ours, Ok(held("lan", &["192.0.2.9"])));
    assert_eq!(all.used("lan"), 1);
    assert!(all.release(&key("theirs")));
}

#[test]
fn renamed_network_keeps_its_services() {
    let all = allocations(&[pool("old", &["192.0.2.8/31"])]);
    all.allocate(&key("a"), &v4(), None).unwrap();
    let new = vec![pool("new", &["192.0.2.0/24"])];
    let both = HashSet::from(["old".to_owned(), "new".to_owned()]);
    all.set_pools(new.clone(), both, HashMap::new());
    let kept = all.allocate(&key("a"), &v4(), None);
    assert_eq!(
        kept,
        Ok(held("old", &["192.0.2.8"])),
        "old is there, though not ready"
    );
    all.set_pools(new, HashSet::from(["new".to_owned()]), HashMap::new());
    let renamed = all.allocate(&key("a"), &v4(), None);
    assert_eq!(renamed, Ok(held("new", &["192.0.2.8"])));
}

#[test]
fn unconfirmed_record_is_a_request() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    let gateway = "192.0.2.8".parse().unwrap();
    let reserved = [(gateway, ("lan".to_owned(), l2_network::Reserved::Router))];
    let pools = vec![pool("lan", &["192.0.2.8/30"])];
    all.set_pools(pools, HashSet::new(), reserved.into());
    all.node_changed("n1", &[], &["192.0.2.9".parse().unwrap()]);
    for (name, address) in [
        ("router", "192.0.2.8"),
        ("node", "192.0.2.9"),
        ("outside", "169.254.169.254"),
        ("wiped", "192.0.2.11"),
    ] {
        all.seed(&[claim(name, Some(held("lan", &[address])), &[])]);
    }
    assert_eq!(all.held(&key("wiped")), Some(held("lan", &["192.0.2.11"])));
    for name in ["router", "node", "outside"] {
        assert_eq!(all.held(&key(name)), None, "{name}");
    }
    // Not even if the status says the same.
    for address in ["192.0.2.8", "192.0.2.9"] {
        all.seed(&[claim("both", Some(held("lan", &[address])), &[address])]);
        assert_eq!(all.held(&key("both")), None, "{address}");
    }
    // But what is in no range any more stays.
    let outside = held("gone", &["198.51.100.7"]);
    all.seed(&[claim("kept", Some(outside.clone()), &["198.51.100.7"])]);
    assert_eq!(all.held(&key("kept")), Some(outside));
    let given = all.allocate(&key("router"), &v4(), Some(&held("lan", &["192.0.2.8"])));
    assert_eq!(given, Ok(held("lan", &["192.0.2.10"])));
}

#[test]
fn refuses_reserved_address_and_names_holder() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    all.node_changed("n1", &[], &["192.0.2.8".parse().unwrap()]);
    let refused = all
        .allocate(&key("a"), &asking("192.0.2.8"), None)
        .unwrap_err();
    assert!(
        refused.to_string().contains("an address of Node n1"),
        "{refused}"
    );
    let before = all.allocate(&key("a"), &v4(), None).unwrap();
    assert_eq!(
        (before.clone(), all.conflict(&key("a"))),
        (held("lan", &["192.0.2.9"]), None)
    );
    let holders = all.node_changed("n2", &[], &before.addresses);
    assert_eq!(holders, [key("a")]);
    assert_eq!(
        all.allocate(&key("a"), &v4(), None),
        Ok(before.clone()),
        "it stays"
    );
    assert!(
        all.conflict(&key("a"))
            .unwrap()
            .1
            .to_string()
            .contains("Node n2")
    );
    all.node_changed("n2", &before.addresses, &[]);
    assert_eq!(all.conflict(&key("a")), None);
}

fn in_namespace(team: &str) -> Request {
    let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
    Request {
        namespace: Namespace::Known(labels),
        ..v4()
    }
}

fn of_team(name: &str, ranges: &[&str], team: &str) -> Pool {
    let selector = std::iter::once(("team".to_owned(), team.to_owned())).collect();
    Pool {
        allowed_namespaces: vec![selector],
        ..pool(name, ranges)
    }
}

#[test]
fn namespace_uses_networks_that_select_it() {
    let all = allocations(&[
        of_team("a-red", &["192.0.2.8/31"], "red"),
        pool("open", &["198.51.100.8/31"]),
    ]);
    let red = all.allocate(&key("red"), &in_namespace("red"), None);
    assert_eq!(red, Ok(held("a-red", &["192.0.2.8"])));
    for request in [in_namespace("blue"), v4()] {
        let other = all.allocate(&key("other"), &request, None);
        assert_eq!(other, Ok(held("open", &["198.51.100.8"])));
    }
    let named = Request {
        network: Some("a-red".into()),
        ..in_namespace("blue")
    };
    let by_address = Request {
        addresses: vec!["192.0.2.9".parse().unwrap()],
        ..in_namespace("blue")
    };
    for request in [named.clone(), by_address] {
        let refused = all.allocate(&key("late"), &request, None).unwrap_err();
        assert!(
            matches!(refused, Unavailable::NotAllowed { .. }),
            "{refused}"
        );
    }
    let unknown = Request {
        namespace: Namespace::NotListed,
        ..named
    };
    let refused = all.allocate(&key("late"), &unknown, None).unwrap_err();
    assert!(
        refused.to_string().contains("cannot list Namespaces"),
        "{refused}"
    );
    // A wish is no way around it.
    let wish = held("a-red", &["192.0.2.9"]);
    let given = all.allocate(&key("late"), &in_namespace("blue"), Some(&wish));
    assert_eq!(given, Ok(held("open", &["198.51.100.9"])));
    // What it has stays when it is not selected any more.
    let kept = all.allocate(&key("red"), &in_namespace("blue"), None);
    assert_eq!(kept, Ok(held("a-red", &["192.0.2.8"])));
}

#[test]
fn enforces_quota_per_namespace() {
    let limited = |max| Pool {
        max_per_namespace: Some(max),
        ..pool("lan", &["192.0.2.8/29", "2001:db8::10/124"])
    };
    let all = allocations(&[limited(2)]);
    let both = |all_families| Request {
        families: vec![Family::V4, Family::V6],
        all_families,
        ..Request::default()
    };
    all.allocate(&key("a"), &v4(), None).unwrap();
    let refused = all.allocate(&key("b"), &both(true), None).unwrap_err();
    assert!(
        refused.may_pass() && refused.to_string().contains("permits (2)"),
        "{refused}"
    );
    let one = all.allocate(&key("b"), &both(false), None);
    assert_eq!(
        one,
        Ok(held("lan", &["192.0.2.9"])),
        "as many as there is room for"
    );
    all.allocate(&key("c"), &v4(), None).unwrap_err();
    let elsewhere = ObjectKey::new("other", "c");
    all.allocate(&elsewhere, &v4(), None).unwrap();
    all.set_pools(vec![limited(1)], HashSet::new(), HashMap::new());
    for name in ["a", "b"] {
        let stays = all.held(&key(name)).unwrap();
        assert_eq!(all.allocate(&key(name), &v4(), None), Ok(stays));
    }
    all.release(&key("a"));
    all.allocate(&key("c"), &v4(), None).unwrap_err();
    all.release(&key("b"));
    all.allocate(&key("c"), &v4(), None).unwrap();
}

/// How many addresses are looked at for each of so many Services.
fn looks_for_each(services: usize) -> f64 {
    let allocations = allocations(&[pool("lan", &["10.0.0.0/16"])]);
    for number in 0..services {
        let key = key(&format!("web-{number}"));
        allocations.allocate(&key, &v4(), None).unwrap();
    }
    let state = allocations.lock();
    let looks: usize = state.fresh.values().map(|fresh| fresh.looks).sum();
    let each = looks as f64 / services as f64;
    println!("{services:>6} Services: {each:>5.1} addresses looked at for each");
    each
}

#[test]
fn address_costs_the_same_in_full_and_empty_pool() {
    let (few, many) = (looks_for_each(100), looks_for_each(5_000));
    assert!(few >= 1.0, "or this test sees nothing");
    assert!(many <= 1.5 * few, "{few} became {many}");
}
