use std::collections::{BTreeMap, HashMap, HashSet};

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::{AddressCounts, L2Network, Segment};
use serde_json::{Value, json};

use super::super::{Allocations, Family, Held, Request, Unavailable};
use super::Pool;

/// The addresses of one L2Network `lan` with these pools, beside its own range of one address.
fn allocations(pools: &Value) -> Allocations {
    let network: L2Network = serde_json::from_value(json!({
        "apiVersion": "mooring.dev/v1alpha1", "kind": "L2Network",
        "metadata": {"name": "lan"},
        "spec": {
            "subnets": [{"cidr": "192.0.0.0/16"}, {"cidr": "2001:db8::/64"}],
            "ranges": ["192.0.9.1/32"],
            "pools": pools,
        },
    }))
    .unwrap();
    let segment = Segment::try_from(&network).unwrap();
    let mut pools: Vec<Pool> = Pool::of(&segment).collect();
    pools.sort_by(|a, b| a.order().cmp(&b.order()));
    let all = Allocations::default();
    all.set_pools(pools, HashSet::from(["lan".to_owned()]), HashMap::new());
    all
}

fn request() -> Request {
    Request {
        families: vec![Family::V4],
        all_families: true,
        ..Request::default()
    }
}

fn from_pool(name: &str) -> Request {
    Request {
        pool: Some(name.to_owned()),
        ..request()
    }
}

fn at(address: &str) -> Request {
    Request {
        addresses: vec![address.parse().unwrap()],
        ..request()
    }
}

/// Asks for one address.
fn ask(all: &Allocations, name: &str, request: &Request) -> Result<String, Unavailable> {
    let held = all.allocate(&ObjectKey::new("default", name), request, None)?;
    Ok(held.addresses[0].to_string())
}

#[test]
fn lowest_priority_is_given_out_first_and_ranges_without_last() {
    let all = allocations(&json!([
        {"name": "later", "ranges": ["192.0.2.20/32"], "priority": 20},
        {"name": "first", "ranges": ["192.0.2.10/32"], "priority": 10},
    ]));
    for (name, address) in [("a", "192.0.2.10"), ("b", "192.0.2.20"), ("c", "192.0.9.1")] {
        assert_eq!(ask(&all, name, &request()), Ok(address.to_owned()));
    }
    let told = ask(&all, "d", &request()).unwrap_err().to_string();
    assert!(
        told.contains("lan/first (1 in all, 1 held), lan/later (1 in all, 1 held)"),
        "{told}"
    );
}

#[test]
fn pool_on_request_is_given_by_its_name_or_address_alone() {
    let all = allocations(&json!([
        {"name": "gold", "ranges": ["192.0.2.10/31"], "priority": 1, "allocation": "OnRequest"},
    ]));
    assert_eq!(ask(&all, "plain", &request()), Ok("192.0.9.1".to_owned()));
    ask(&all, "late", &request()).unwrap_err();
    assert_eq!(
        ask(&all, "late", &from_pool("gold")),
        Ok("192.0.2.10".to_owned())
    );
    assert_eq!(
        ask(&all, "named", &at("192.0.2.11")),
        Ok("192.0.2.11".to_owned())
    );
    let told = ask(&all, "lost", &from_pool("silver"))
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("no pool \"silver\"") && told.contains("lan/gold"),
        "{told}"
    );
    // A Service that asks for another pool moves there; one whose pool is not there keeps what it has.
    all.release(&ObjectKey::new("default", "late"));
    assert_eq!(
        ask(&all, "plain", &from_pool("gold")),
        Ok("192.0.2.10".to_owned())
    );
    ask(&all, "plain", &from_pool("silver")).unwrap_err();
    let kept = all.held(&ObjectKey::new("default", "plain")).unwrap();
    assert_eq!(kept.addresses[0].to_string(), "192.0.2.10");
}

#[test]
fn pool_alone_on_request_says_so() {
    let all = allocations(&json!([
        {"name": "six", "ranges": ["2001:db8::10/127"], "allocation": "OnRequest"},
    ]));
    let wanted = Request {
        network: Some("lan".to_owned()),
        ..request()
    };
    ask(&all, "a", &wanted).unwrap();
    let other_family = Request {
        families: vec![Family::V6],
        ..request()
    };
    let told = ask(&all, "b", &other_family).unwrap_err().to_string();
    assert!(told.contains("no free IPv6 address"), "{told}");
    let six = Request {
        families: vec![Family::V6],
        ..from_pool("six")
    };
    assert_eq!(ask(&all, "b", &six), Ok("2001:db8::10".to_owned()));
}

#[test]
fn pool_for_labelled_services_is_given_to_them_alone() {
    let all = allocations(&json!([{
        "name": "edge", "ranges": ["192.0.2.10/31"], "priority": 1,
        "allowedServices": {"matchLabels": {"tier": "edge"}},
    }]));
    let edge = Request {
        labels: BTreeMap::from([("tier".to_owned(), "edge".to_owned())]),
        ..request()
    };
    assert_eq!(ask(&all, "edge", &edge), Ok("192.0.2.10".to_owned()));
    assert_eq!(ask(&all, "plain", &request()), Ok("192.0.9.1".to_owned()));
    for wanted in [from_pool("edge"), at("192.0.2.11")] {
        let told = ask(&all, "other", &wanted).unwrap_err().to_string();
        assert!(told.contains("allowedServices of lan/edge"), "{told}");
    }
    // A record is no way around it.
    let wish = Held {
        network: "lan".to_owned(),
        addresses: at("192.0.2.11").addresses,
    };
    let key = ObjectKey::new("default", "other");
    all.allocate(&key, &request(), Some(&wish)).unwrap_err();
    // What it has stays when its labels change.
    assert_eq!(ask(&all, "edge", &request()), Ok("192.0.2.10".to_owned()));
}

#[test]
fn excluded_and_buggy_addresses_are_given_to_nobody_and_not_counted() {
    let all = allocations(&json!([{
        "name": "a", "ranges": ["192.0.2.254-192.0.3.3", "2001:db8::10/126"], "priority": 1,
        "excludedRanges": ["192.0.3.1-192.0.3.2", "2001:db8::10/127"], "avoidBuggyIPs": true,
    }]));
    let counts = |used| AddressCounts {
        total: 3,
        used,
        free: 3 - used,
    };
    assert_eq!(all.counts("lan", Family::V4), Some(counts(0)));
    assert_eq!(ask(&all, "a", &request()), Ok("192.0.2.254".to_owned()));
    assert_eq!(ask(&all, "b", &request()), Ok("192.0.3.3".to_owned()));
    assert_eq!(all.counts("lan", Family::V4), Some(counts(2)));
    for address in ["192.0.2.255", "192.0.3.0", "192.0.3.1", "2001:db8::10"] {
        let wanted = Request {
            families: vec![Family::V4, Family::V6],
            all_families: false,
            ..at(address)
        };
        let told = ask(&all, "c", &wanted).unwrap_err();
        assert!(matches!(told, Unavailable::Outside { .. }), "{told}");
    }
    let six = all.counts("lan", Family::V6).unwrap();
    assert_eq!((six.total, six.free), (2, 2));
    assert_eq!(all.counts("other", Family::V4), None);
}
