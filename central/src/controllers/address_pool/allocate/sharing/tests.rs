use std::collections::{HashMap, HashSet};

use mooring_common::l2_network::AddressCounts;
use proptest::prelude::*;

use super::super::{Claim, Family, Namespace};
use super::*;

fn pool() -> Pool {
    let ranges = ["192.0.2.8/29", "2001:db8::10/124"];
    Pool::new("lan", ranges.map(|range| range.parse().unwrap()).into())
}

fn allocations(pool: Pool) -> Allocations {
    let all = Allocations::default();
    all.set_pools(
        vec![pool],
        HashSet::from(["lan".to_owned()]),
        HashMap::new(),
    );
    all
}

fn key(name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    ObjectKey::new(namespace, name)
}

/// Of a Service with this key and these TCP ports.
fn terms(key: &str, ports: &[u16]) -> SharingTerms {
    let port = |number: &u16| Port {
        protocol: "TCP".to_owned(),
        number: *number,
    };
    SharingTerms {
        key: (!key.is_empty()).then(|| key.to_owned()),
        ports: ports.iter().map(port).collect(),
        backends: Backends::AnyNode,
    }
}

fn local(app: &str, ports: &[u16]) -> SharingTerms {
    let selector = BTreeMap::from([("app".to_owned(), app.to_owned())]);
    SharingTerms {
        backends: Backends::NodesOf(selector),
        ..terms("k", ports)
    }
}

fn v4() -> Request {
    Request {
        families: vec![Family::V4],
        all_families: true,
        ..Request::default()
    }
}

fn at(address: &str) -> Request {
    Request {
        addresses: vec![address.parse().unwrap()],
        ..v4()
    }
}

/// One pass over a Service.
fn pass(
    all: &Allocations,
    name: &str,
    terms: SharingTerms,
    request: &Request,
) -> Result<String, Unavailable> {
    all.set_terms(&key(name), Some(terms));
    all.lose_collided(&key(name));
    let held = all.allocate(&key(name), request, None)?;
    let texts: Vec<String> = held.addresses.iter().map(ToString::to_string).collect();
    Ok(texts.join(" "))
}

fn given(address: &str) -> Result<String, Unavailable> {
    Ok(address.to_owned())
}

#[test]
fn one_key_and_different_ports_share_an_address() {
    let all = allocations(pool());
    let first = "192.0.2.8";
    assert_eq!(pass(&all, "web", terms("k", &[80]), &v4()), given(first));
    assert_eq!(pass(&all, "dns", terms("k", &[53]), &v4()), given(first));
    // Asked for by its address, or not.
    assert_eq!(
        pass(&all, "ssh", terms("k", &[22]), &at(first)),
        given(first)
    );
    let udp = SharingTerms {
        ports: [Port {
            protocol: "UDP".to_owned(),
            number: 53,
        }]
        .into(),
        ..terms("k", &[])
    };
    assert_eq!(pass(&all, "udp", udp, &v4()), given(first));
    // The same port, another key, no key: one of its own.
    for (name, terms, own) in [
        ("late", terms("k", &[80, 81]), "192.0.2.9"),
        ("other", terms("j", &[1]), "192.0.2.10"),
        ("none", terms("", &[2]), "192.0.2.11"),
    ] {
        assert_eq!(pass(&all, name, terms, &v4()), given(own), "{name}");
    }
    assert_eq!(all.used("lan"), 4);
    let counts = all.counts("lan", Family::V4);
    let expected = AddressCounts {
        total: 8,
        used: 4,
        free: 4,
    };
    assert_eq!(counts, Some(expected));
}

#[test]
fn every_broken_rule_is_told_and_no_key_shown() {
    let all = allocations(pool());
    let secret = SharingTerms {
        backends: Backends::AnyNode,
        ..terms("secret", &[80, 443])
    };
    pass(&all, "web", secret, &v4()).unwrap();
    let guess = SharingTerms {
        key: Some("guess".to_owned()),
        ..local("web", &[80, 443, 53])
    };
    let refused = pass(&all, "tenant/evil", guess, &at("192.0.2.8")).unwrap_err();
    assert!(refused.may_pass());
    let told = refused.to_string();
    for words in [
        "192.0.2.8",
        "Service default/web",
        "mooring.dev/allow-shared-ip has not the same value",
        "spec.shareAcrossNamespaces",
        "both have the port TCP 80, TCP 443",
        "Cluster on one of them and Local on the other",
    ] {
        assert!(told.contains(words), "{words:?} is missing: {told}");
    }
    assert!(!told.contains("secret"), "{told}");
    let keyless = pass(&all, "none", terms("", &[53]), &at("192.0.2.8"));
    assert!(matches!(keyless, Err(Unavailable::Taken { .. })));
}

#[test]
fn local_services_share_with_the_same_pods_alone() {
    let all = allocations(Pool {
        shares_across_namespaces: true,
        ..pool()
    });
    let first = "192.0.2.8";
    assert_eq!(pass(&all, "tcp", local("dns", &[53]), &v4()), given(first));
    assert_eq!(pass(&all, "web", local("dns", &[80]), &v4()), given(first));
    let without = SharingTerms {
        backends: Backends::NodesOf(BTreeMap::new()),
        ..terms("k", &[3])
    };
    for (name, terms) in [
        ("other", local("web", &[1])),
        ("cluster", terms("k", &[2])),
        ("without", without),
        ("elsewhere/tcp", local("dns", &[4])),
    ] {
        let refused = pass(&all, name, terms, &at(first));
        assert!(
            matches!(refused, Err(Unavailable::NotShared { .. })),
            "{name}"
        );
    }
}

#[test]
fn namespaces_share_where_the_network_permits_it() {
    let closed = allocations(pool());
    pass(&closed, "a/web", terms("k", &[80]), &v4()).unwrap();
    let own = pass(&closed, "b/dns", terms("k", &[53]), &v4());
    assert_eq!(own, given("192.0.2.9"));
    let open = allocations(Pool {
        shares_across_namespaces: true,
        max_per_namespace: Some(1),
        ..pool()
    });
    pass(&open, "a/web", terms("k", &[80]), &v4()).unwrap();
    let shared = pass(&open, "b/dns", terms("k", &[53]), &v4());
    assert_eq!(shared, given("192.0.2.8"));
    // It counts once in each of them.
    let again = pass(&open, "b/ssh", terms("k", &[22]), &v4());
    assert_eq!(again, given("192.0.2.8"));
    let full = pass(&open, "b/web", terms("k", &[80]), &v4()).unwrap_err();
    assert!(matches!(full, Unavailable::NamespaceFull { .. }), "{full}");
    assert_eq!(open.used("lan"), 1);
}

#[test]
fn both_families_come_from_one_other_service() {
    let all = allocations(pool());
    let both = Request {
        families: vec![Family::V4, Family::V6],
        ..v4()
    };
    let first = "192.0.2.8 2001:db8::10";
    let second = "192.0.2.9 2001:db8::11";
    assert_eq!(pass(&all, "a", terms("k", &[80]), &both), given(first));
    assert_eq!(pass(&all, "b", terms("k", &[80]), &both), given(second));
    assert_eq!(pass(&all, "c", terms("k", &[53]), &both), given(first));
    let asked = Request {
        families: both.families.clone(),
        ..at("192.0.2.9")
    };
    assert_eq!(pass(&all, "d", terms("k", &[53]), &asked), given(second));
    // A second family is added where the first one is.
    assert_eq!(
        pass(&all, "e", terms("k", &[22]), &at("192.0.2.9")),
        given("192.0.2.9")
    );
    assert_eq!(pass(&all, "e", terms("k", &[22]), &both), given(second));
    // It has one that nobody can share.
    pass(&all, "f", terms("j", &[80]), &v4()).unwrap();
    let own = "192.0.2.10 2001:db8::12";
    assert_eq!(pass(&all, "g", terms("j", &[22]), &both), given(own));
}

#[test]
fn service_that_takes_a_port_of_another_loses_the_address() {
    let all = allocations(pool());
    pass(&all, "a", terms("k", &[80]), &v4()).unwrap();
    pass(&all, "b", terms("k", &[443]), &v4()).unwrap();
    // Whoever changes goes, be it the older one.
    let moved = pass(&all, "a", terms("k", &[80, 443]), &v4());
    assert_eq!(moved, given("192.0.2.9"));
    let lost = all.collision(&key("a")).unwrap().to_string();
    assert!(
        lost.contains("192.0.2.8 is the address of Service default/b as well")
            && lost.contains("both have the port TCP 443"),
        "{lost}"
    );
    // Until its status says so nobody joins, and then nothing is left of it.
    let early = pass(&all, "c", terms("k", &[22]), &at("192.0.2.8"));
    assert!(matches!(early, Err(Unavailable::Taken { .. })), "{early:?}");
    assert!(all.settle(&key("a")));
    assert_eq!(all.collision(&key("a")), None);
    let joined = pass(&all, "c", terms("k", &[22]), &at("192.0.2.8"));
    assert_eq!(joined, given("192.0.2.8"));
    // One that asks for this very address gets none.
    let none = pass(&all, "c", terms("k", &[443]), &at("192.0.2.8"));
    assert!(matches!(none, Err(Unavailable::NotShared { .. })));
    assert_eq!(all.held(&key("c")), None);
}

#[test]
fn other_broken_rules_cost_no_address() {
    let all = allocations(pool());
    for (name, port) in [("a", 80), ("b", 443)] {
        pass(&all, name, terms("k", &[port]), &v4()).unwrap();
    }
    assert_eq!(all.irregular_sharing(&key("b")), []);
    for change in [terms("", &[443]), terms("j", &[443]), local("b", &[443])] {
        assert_eq!(pass(&all, "b", change, &v4()), given("192.0.2.8"));
        assert_eq!(all.irregular_sharing(&key("b")).len(), 1);
    }
    assert!(
        all.set_terms(&key("b"), Some(terms("k", &[443]))),
        "somebody may join now"
    );
    assert!(!all.set_terms(&key("b"), Some(terms("k", &[443]))));
    assert_eq!(all.irregular_sharing(&key("b")), []);
}

#[test]
fn shared_address_is_released_with_its_last_service() {
    let all = allocations(pool());
    for (name, port) in [("a", 80), ("b", 443)] {
        pass(&all, name, terms("k", &[port]), &v4()).unwrap();
    }
    assert!(
        all.release(&key("a")),
        "whoever waits for its port may have it"
    );
    assert_eq!(all.used("lan"), 1);
    let other = pass(&all, "other", terms("", &[80]), &v4());
    assert_eq!(other, given("192.0.2.9"));
    let joined = pass(&all, "c", terms("k", &[80]), &v4());
    assert_eq!(joined, given("192.0.2.8"));
    all.release(&key("b"));
    all.release(&key("c"));
    assert_eq!(all.used("lan"), 1);
    for (name, own) in (10..16).map(|n| (format!("s{n}"), format!("192.0.2.{n}"))) {
        assert_eq!(pass(&all, &name, terms("", &[1]), &v4()), Ok(own));
    }
    let last = pass(&all, "last", terms("", &[1]), &v4());
    assert_eq!(last, given("192.0.2.8"), "what came back is given out last");
}

fn claim(name: &str, terms: SharingTerms, recorded: bool, status: &[&str]) -> Claim {
    let addresses = vec!["192.0.2.8".parse().unwrap()];
    let network = "lan".to_owned();
    Claim {
        key: key(name),
        recorded: recorded.then_some(Held { network, addresses }),
        status: status.iter().map(|text| text.parse().unwrap()).collect(),
        namespace: Namespace::NotListed,
        labels: BTreeMap::new(),
        terms: Some(terms),
    }
}

#[test]
fn who_shares_keeps_it_through_a_restart() {
    let shown: &[&str] = &["192.0.2.8"];
    // Statuses that say so, one whose key was taken off meanwhile, and two that were wiped.
    let all = allocations(pool());
    all.seed(&[
        claim("a", terms("k", &[80]), true, shown),
        claim("b", terms("", &[443]), true, shown),
        claim("wiped", terms("k", &[22]), true, &[]),
    ]);
    assert_eq!(all.held(&key("a")), all.held(&key("b")));
    assert_eq!(all.held(&key("wiped")), None, "b shares with nobody");
    let all = allocations(pool());
    all.seed(&[
        claim("a", terms("k", &[80]), true, &[]),
        claim("b", terms("k", &[443]), true, &[]),
        claim("forged", terms("j", &[1]), true, &[]),
    ]);
    assert!(all.held(&key("a")).is_some() && all.held(&key("a")) == all.held(&key("b")));
    assert_eq!(all.held(&key("forged")), None);
    // Of two with the same port the younger loses it.
    let all = allocations(pool());
    all.seed(&[
        claim("a", terms("k", &[80]), true, shown),
        claim("b", terms("k", &[80]), true, shown),
    ]);
    assert!(all.lose_collided(&key("a")).is_none() && all.held(&key("a")).is_some());
    assert_eq!(all.held(&key("b")), None);
    assert_eq!(all.lose_collided(&key("b")).unwrap().with, key("a"));
}

#[test]
fn what_another_controller_has_made_is_adopted_in_any_order() {
    let shown: &[&str] = &["192.0.2.8"];
    let addresses: Vec<IpAddr> = vec!["192.0.2.8".parse().unwrap()];
    for order in [["a", "b"], ["b", "a"]] {
        let all = allocations(pool());
        all.seed(&[
            claim("a", terms("k", &[80]), false, shown),
            claim("b", terms("k", &[443]), false, shown),
            claim("third", terms("k", &[80]), false, shown),
        ]);
        for name in order {
            let found = all.adopt(&key(name), &addresses);
            let given = all.allocate(&key(name), &v4(), found.as_ref()).unwrap();
            assert_eq!(given.addresses, addresses, "{name}");
        }
        assert_eq!(all.adopt(&key("third"), &addresses), None);
    }
    // An address that another implementation announces is not adopted.
    let all = allocations(pool());
    let theirs = Claim {
        terms: None,
        ..claim("theirs", terms("k", &[80]), false, shown)
    };
    all.seed(&[theirs, claim("ours", terms("k", &[443]), false, shown)]);
    assert_eq!(all.adopt(&key("ours"), &addresses), None);
}

proptest! {
    /// Whatever is asked, changed and deleted in whatever order: no two Services have one port of one
    /// address, and nobody has one with a stranger.
    #[test]
    fn no_port_of_an_address_has_two_services(
        acts in prop::collection::vec((0u8..10, 0u8..3, 1u16..5, any::<bool>(), any::<bool>()), 1..120)
    ) {
        let all = allocations(pool());
        for (service, shared, port, delete, settle) in acts {
            let name = service.to_string();
            if delete {
                all.release(&key(&name));
                continue;
            }
            let sharing = ["", "k", "j"][usize::from(shared)];
            let _ = pass(&all, &name, terms(sharing, &[port]), &v4());
            if settle {
                all.settle(&key(&name));
            }
            let state = all.lock();
            let mut seen = BTreeSet::new();
            for (service, held) in &state.held {
                let ports = &state.terms[service].ports;
                for address in &held.addresses {
                    prop_assert!(state.by_address[address].contains(service));
                    for port in ports {
                        prop_assert!(seen.insert((*address, port.clone())), "{} {}", address, port);
                    }
                }
            }
        }
    }
}
