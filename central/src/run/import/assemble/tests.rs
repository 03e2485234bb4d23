use super::*;
use mooring_common::l2_network::Segment;

fn pool(name: &str, texts: &[&str]) -> SourcePool {
    SourcePool {
        object: format!("IPAddressPool {name}"),
        name: name.to_owned(),
        ranges: texts
            .iter()
            .flat_map(|text| ranges::parse(text).unwrap())
            .collect(),
        place: Place {
            name: "lan".to_owned(),
            ..Place::default()
        },
        ..SourcePool::default()
    }
}

fn given(line: &str) -> Vec<KnownSubnet> {
    subnets::read(&line.split(',').map(ToOwned::to_owned).collect::<Vec<_>>()).unwrap()
}

/// Each L2Network as `name subnets: pools`, all of them valid.
fn assembled(pools: Vec<SourcePool>, line: &str) -> (Vec<String>, Findings) {
    let mut findings = Findings::default();
    let networks = assemble(pools, &given(line), &[], &mut findings);
    let shown = networks.iter().map(|network| {
        Segment::try_from(network).unwrap();
        let subnets: Vec<_> = network
            .spec
            .subnets
            .iter()
            .map(|s| s.cidr.clone())
            .collect();
        let pools: Vec<_> = network.spec.pools.iter().map(|p| p.name.clone()).collect();
        let name = network.metadata.name.as_deref().unwrap();
        format!("{name} {}: {}", subnets.join(" "), pools.join(" "))
    });
    (shown.collect(), findings)
}

#[test]
fn each_subnet_is_a_network_unless_a_pool_joins_them() {
    let line = "192.0.2.0/24,198.51.100.0/24,2001:db8::/64";
    let (a, b) = (
        pool("a", &["192.0.2.0/28"]),
        pool("b", &["198.51.100.0/28"]),
    );
    let (networks, findings) = assembled(vec![a.clone(), b.clone()], line);
    assert_eq!(
        networks,
        ["lan 192.0.2.0/24: a", "lan-2 198.51.100.0/24: b"]
    );
    assert!(findings.sorted().is_empty());
    let dual = pool("dual", &["198.51.100.32/28", "2001:db8::10/124"]);
    let (networks, findings) = assembled(vec![a.clone(), b.clone(), dual], line);
    let expected = [
        "lan 192.0.2.0/24: a",
        "lan-2 198.51.100.0/24 2001:db8::/64: b dual",
    ];
    assert_eq!(networks, expected);
    assert!(findings.sorted().is_empty());
    let wide = pool("wide", &["192.0.2.32/28", "198.51.100.32/28"]);
    let (networks, findings) = assembled(vec![a, b, wide], line);
    assert_eq!(networks, ["lan 192.0.2.0/24 198.51.100.0/24: a b wide"]);
    assert_eq!(findings.sorted().len(), 1);
}

#[test]
fn other_nodes_are_another_network() {
    let mut other = pool("other", &["192.0.2.32/28"]);
    other.place.interfaces = Place::on("eth1");
    let (networks, _) = assembled(vec![pool("a", &["192.0.2.0/28"]), other], "192.0.2.0/24");
    assert_eq!(
        networks,
        ["lan 192.0.2.0/24: a", "lan-2 192.0.2.0/24: other"]
    );
}

#[test]
fn ranges_are_cut_at_subnets_and_overlaps_taken_out() {
    let mut findings = Findings::default();
    let pools = vec![
        pool("a", &["192.0.2.250-192.0.3.5"]),
        pool("b", &["192.0.3.4-192.0.3.9"]),
    ];
    let networks = assemble(
        pools,
        &given("192.0.2.0/24,192.0.3.0/24"),
        &[],
        &mut findings,
    );
    let ranges = |pool: &AddressPool| pool.ranges.join(" ");
    let spec = &networks[0].spec;
    assert_eq!(networks.len(), 1);
    assert_eq!(
        ranges(&spec.pools[0]),
        "192.0.2.250-192.0.2.255 192.0.3.0-192.0.3.5"
    );
    assert_eq!(ranges(&spec.pools[1]), "192.0.3.6-192.0.3.9");
    assert!(!findings.is_complete());
}

#[test]
fn names_are_labels_and_large_pools_are_several() {
    let blocks: Vec<String> = (0..20).map(|n| format!("192.0.2.{}/32", n * 2)).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let (networks, findings) = assembled(vec![pool("a.b", &blocks)], "192.0.2.0/24");
    assert_eq!(networks, ["lan 192.0.2.0/24: a-b a-b-2"]);
    let told: Vec<_> = findings.sorted().iter().map(ToString::to_string).collect();
    assert!(
        told[0].contains("called a-b") && told[1].contains("20 ranges"),
        "{told:?}"
    );
    let many = (0..17)
        .map(|n| pool(&format!("p{n}"), &[&format!("192.0.2.{n}/32")]))
        .collect();
    let (networks, _) = assembled(many, "192.0.2.0/24");
    assert_eq!(networks.len(), 2);
}

#[test]
fn excluded_addresses_stay_excluded() {
    let mut pool = pool("a", &["192.0.2.0/28"]);
    pool.excluded = ["192.0.2.0/32", "192.0.2.15/32", "192.0.2.99/32"]
        .iter()
        .flat_map(|text| ranges::parse(text).unwrap())
        .collect();
    let mut findings = Findings::default();
    let networks = assemble(vec![pool], &given("192.0.2.0/24"), &[], &mut findings);
    assert_eq!(
        networks[0].spec.pools[0].excluded_ranges,
        ["192.0.2.0/32", "192.0.2.15/32"]
    );
}
