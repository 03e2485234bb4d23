use super::*;
use mooring_common::l2_network::Segment;
use proptest::prelude::*;

fn pool(name: &str, ranges: &[&str]) -> Pool {
    let ranges = ranges.iter().map(|text| text.parse().unwrap()).collect();
    Pool {
        name: name.into(),
        ranges,
        unusable: HashSet::new(),
    }
}

fn allocations(pools: &[Pool]) -> Allocations {
    let allocations = Allocations::default();
    allocations.set_pools(pools.to_vec(), HashSet::new());
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

fn held(pool: &str, addresses: &[&str]) -> Held {
    let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
    Held {
        pool: pool.into(),
        addresses,
    }
}

#[test]
fn the_same_service_gets_the_same_and_another_gets_another() {
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
fn an_address_that_has_just_come_back_is_given_out_last() {
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
fn what_is_asked_for_is_given_or_refused_and_never_replaced() {
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
fn what_was_recorded_comes_back_unless_another_has_it() {
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
fn what_is_held_stays_whatever_becomes_of_the_network() {
    let all = allocations(&[pool("lan", &["192.0.2.8/30"])]);
    let before = all.allocate(&key("a"), &v4(), None).unwrap();
    all.set_pools(vec![], HashSet::from(["lan".into()]));
    assert_eq!(all.allocate(&key("a"), &v4(), None), Ok(before));
    assert_eq!(
        all.allocate(&key("b"), &v4(), None),
        Err(Unavailable::NoPools)
    );
}

#[test]
fn both_families_come_from_one_network() {
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
fn routers_and_broadcast_addresses_are_never_given_out() {
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
    let all = allocations(&[Pool::of(&Segment::try_from(&network).unwrap())]);
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
    fn no_address_has_two_holders(acts in prop::collection::vec((0u8..12, any::<bool>()), 1..200)) {
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
    }
}

#[test]
fn at_the_start_a_status_counts_before_a_copied_record() {
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
fn what_a_status_still_shows_goes_to_nobody_else() {
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
fn what_somebody_else_has_put_into_a_status_is_not_given_out() {
    let all = allocations(&[pool("lan", &["192.0.2.8/31"])]);
    let theirs = held("", &["192.0.2.8"]).addresses;
    assert!(!all.leave(&key("theirs"), &theirs));
    let ours = all.allocate(&key("ours"), &v4(), None);
    assert_eq!(ours, Ok(held("lan", &["192.0.2.9"])));
    assert_eq!(all.used("lan"), 1);
    assert!(all.release(&key("theirs")));
}

#[test]
fn a_network_that_gets_another_name_keeps_its_services() {
    let all = allocations(&[pool("old", &["192.0.2.8/31"])]);
    all.allocate(&key("a"), &v4(), None).unwrap();
    let new = vec![pool("new", &["192.0.2.0/24"])];
    let both = HashSet::from(["old".to_owned(), "new".to_owned()]);
    all.set_pools(new.clone(), both);
    let kept = all.allocate(&key("a"), &v4(), None);
    assert_eq!(
        kept,
        Ok(held("old", &["192.0.2.8"])),
        "old is there, though not ready"
    );
    all.set_pools(new, HashSet::from(["new".to_owned()]));
    let renamed = all.allocate(&key("a"), &v4(), None);
    assert_eq!(renamed, Ok(held("new", &["192.0.2.8"])));
}
