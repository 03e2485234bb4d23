//! Subnets of VPCs: linode.md 1.4.

use super::*;
use crate::clouds::linode::load_balancers::model::VpcUse;
use crate::clouds::linode::vpcs::Vpc;

fn named(vpc: &str, subnet: &str) -> Subnet {
    let vpc = Vpc::Label(vpc.to_owned());
    let subnet = subnet.to_owned();
    Subnet::Named { vpc, subnet }
}

fn in_vpcs(subnet: BackendSubnet) -> Settings {
    let texts = |all: [&str; 2]| all.map(ToOwned::to_owned).to_vec();
    let mut settings = settings();
    settings.flags.subnet = subnet;
    settings.flags.vpcs = VpcChoice::Names {
        vpcs: texts(["v1", "v2"]),
        subnets: texts(["s1", "s2"]),
    };
    settings
}

fn asked(settings: &Settings, annotations: &[(&str, &str)]) -> Options {
    read(&service("tcp/80", annotations), settings).unwrap().0
}

#[test]
fn nodes_are_reached_by_the_subnet_that_says_most() {
    let (id, vpc, subnet) = (
        ("backend-subnet-id", "7"),
        ("backend-vpc-name", "v9"),
        ("backend-subnet-name", "s9"),
    );
    let flag = || BackendSubnet::Number(5);
    let name = || BackendSubnet::Name("s5".to_owned());
    for (of_flags, annotations, expected) in [
        (BackendSubnet::First, &[][..], Some(named("v1", "s1"))),
        (
            BackendSubnet::First,
            &[id, vpc, subnet],
            Some(Subnet::Id(7)),
        ),
        (
            BackendSubnet::First,
            &[vpc, subnet],
            Some(named("v9", "s9")),
        ),
        (BackendSubnet::First, &[vpc], Some(named("v9", "s1"))),
        (BackendSubnet::First, &[subnet], Some(named("v1", "s9"))),
        (flag(), &[], Some(Subnet::Id(5))),
        (flag(), &[id], Some(Subnet::Id(7))),
        (flag(), &[vpc], Some(named("v9", "s1"))),
        (flag(), &[subnet], Some(named("v1", "s9"))),
        (name(), &[], Some(named("v1", "s5"))),
        (name(), &[subnet], Some(named("v1", "s9"))),
        (BackendSubnet::Disabled, &[], None),
        (BackendSubnet::Disabled, &[id, vpc, subnet], None),
        (flag(), &[id, ("enable-ipv6-backends", "true")], None),
    ] {
        let settings = in_vpcs(of_flags.clone());
        let subnet = asked(&settings, annotations).subnet;
        assert_eq!(subnet, expected, "{of_flags:?} {annotations:?}");
    }
    // No VPC is named: annotations say nothing, the flag's number does.
    for (of_flags, annotations, expected) in [
        (BackendSubnet::First, &[][..], None),
        (BackendSubnet::First, &[id, vpc, subnet], None),
        (flag(), &[], Some(Subnet::Id(5))),
        (flag(), &[id], Some(Subnet::Id(5))),
    ] {
        let mut settings = settings();
        settings.flags.subnet = of_flags.clone();
        let subnet = asked(&settings, annotations).subnet;
        assert_eq!(subnet, expected, "{of_flags:?} {annotations:?}");
    }
    let mut settings = settings();
    settings.flags.vpcs = VpcChoice::Numbers {
        vpcs: vec![1, 2],
        subnets: vec![11, 12],
    };
    assert_eq!(asked(&settings, &[]).subnet, Some(Subnet::Id(11)));
    let in_first = Subnet::Named {
        vpc: Vpc::Id(1),
        subnet: "s9".to_owned(),
    };
    let like_first = Subnet::NamedLike {
        vpc: Vpc::Label("v9".to_owned()),
        other: (1, 11),
    };
    for (of_flags, annotations, expected) in [
        (BackendSubnet::First, &[subnet][..], in_first),
        (BackendSubnet::First, &[vpc], like_first.clone()),
        (flag(), &[vpc], like_first),
        (BackendSubnet::First, &[vpc, subnet], named("v9", "s9")),
        (BackendSubnet::First, &[id, vpc], Subnet::Id(7)),
    ] {
        settings.flags.subnet = of_flags.clone();
        let subnet = asked(&settings, annotations).subnet;
        assert_eq!(subnet, Some(expected), "{of_flags:?} {annotations:?}");
    }
}

#[test]
fn new_ones_take_their_addresses_from_the_range_that_is_said() {
    let (id, vpc, subnet, range) = (
        ("backend-subnet-id", "7"),
        ("backend-vpc-name", "v9"),
        ("backend-subnet-name", "s9"),
        ("backend-ipv4-range", "10.100.0.4/30"),
    );
    let of_flags = Some("10.100.0.0/24");
    let flag = || BackendSubnet::Number(5);
    for (subnet_flag, range_flag, annotations, expected) in [
        (
            BackendSubnet::First,
            None,
            &[][..],
            (named("v1", "s1"), None, false),
        ),
        (
            BackendSubnet::First,
            None,
            &[range],
            (named("v1", "s1"), Some("10.100.0.4/30"), false),
        ),
        (
            BackendSubnet::First,
            of_flags,
            &[range],
            (named("v1", "s1"), Some("10.100.0.4/30"), false),
        ),
        (
            flag(),
            of_flags,
            &[range, vpc, subnet],
            (named("v9", "s9"), Some("10.100.0.4/30"), false),
        ),
        (
            BackendSubnet::First,
            of_flags,
            &[vpc],
            (named("v9", "s1"), None, false),
        ),
        (
            BackendSubnet::First,
            of_flags,
            &[subnet],
            (named("v1", "s9"), None, false),
        ),
        (flag(), of_flags, &[], (Subnet::Id(5), None, false)),
        (
            BackendSubnet::Name("s5".to_owned()),
            of_flags,
            &[],
            (named("v1", "s5"), None, false),
        ),
        (
            BackendSubnet::First,
            of_flags,
            &[],
            (named("v1", "s1"), of_flags, true),
        ),
        (
            BackendSubnet::First,
            of_flags,
            &[id],
            (Subnet::Id(7), of_flags, true),
        ),
        (
            BackendSubnet::First,
            of_flags,
            &[("backend-ipv4-range", "")],
            (named("v1", "s1"), of_flags, true),
        ),
        // The Go controller takes the flag's subnet for the NodeBalancer, and this one for its nodes.
        (flag(), None, &[id], (Subnet::Id(7), None, false)),
    ] {
        let mut settings = in_vpcs(subnet_flag);
        settings.flags.range = range_flag.map(|range| range.parse().unwrap());
        let options = asked(&settings, annotations);
        let (subnet, range, is_any) = expected;
        let expected = VpcUse {
            subnet,
            ipv4_range: range.map(ToOwned::to_owned),
            ipv6_range: None,
            is_any_of_range: is_any.then_some(true),
        };
        assert_eq!(options.balancer.backend, Some(expected), "{annotations:?}");
    }
    assert_eq!(asked(&settings(), &[range]).balancer.backend, None);
}

#[test]
fn range_lies_within_that_of_the_flag() {
    let mut settings = in_vpcs(BackendSubnet::First);
    let is_fine = |settings: &Settings, range| {
        let read = read(
            &service("tcp/80", &[("backend-ipv4-range", range)]),
            settings,
        );
        if let Err(faults) = &read {
            let text = faults[0].to_string();
            assert!(
                text.contains(range) && text.contains("is not within the subnet 10.100.0.0/24"),
                "{text}"
            );
            assert!(
                text.contains("--nodebalancer-backend-ipv4-subnet; write"),
                "{text}"
            );
        }
        read.is_ok()
    };
    assert!(is_fine(&settings, "192.0.2.0/30"));
    settings.flags.range = Some("10.100.0.0/24".parse().unwrap());
    for (range, expected) in [
        ("10.100.0.0/30", true),
        ("10.100.0.252/30", true),
        ("10.100.1.0/30", false),
        ("10.100.0.0/23", false),
        ("10.100.0.0", false),
        ("here", false),
    ] {
        assert_eq!(is_fine(&settings, range), expected, "{range}");
    }
}

#[test]
fn front_end_is_named_by_number_or_by_both_names() {
    let (id, vpc, subnet) = (
        ("frontend-subnet-id", "7"),
        ("frontend-vpc-name", "v9"),
        ("frontend-subnet-name", "s9"),
    );
    let (v4, v6) = (
        ("frontend-ipv4-range", "10.0.0.5/30"),
        ("frontend-ipv6-range", "2001:db8::/64"),
    );
    let empty = [
        ("frontend-vpc-name", ""),
        ("frontend-subnet-name", ""),
        ("frontend-ipv4-range", ""),
        ("frontend-ipv6-range", ""),
    ];
    for (annotations, expected) in [
        (&[][..], None),
        (&empty, None),
        (&[id], Some((Subnet::Id(7), None, None))),
        (&[id, vpc, subnet], Some((Subnet::Id(7), None, None))),
        (&[id, vpc], Some((Subnet::Id(7), None, None))),
        (&[vpc, subnet], Some((named("v9", "s9"), None, None))),
        (
            &[vpc, subnet, v4],
            Some((named("v9", "s9"), Some(v4.1), None)),
        ),
        (&[id, v4, v6], Some((Subnet::Id(7), Some(v4.1), Some(v6.1)))),
    ] {
        let expected = expected.map(|(subnet, v4, v6): (_, Option<&str>, Option<&str>)| VpcUse {
            subnet,
            ipv4_range: v4.map(ToOwned::to_owned),
            ipv6_range: v6.map(ToOwned::to_owned),
            is_any_of_range: None,
        });
        let frontend = asked(&settings(), annotations).balancer.frontend;
        assert_eq!(frontend, expected, "{annotations:?}");
    }
    let words = "frontend VPC configuration requires either subnet-id or both vpc-name and subnet-name annotations";
    for annotations in [
        &[vpc][..],
        &[subnet],
        &[vpc, ("frontend-subnet-name", "")],
        &[v4],
        &[v6],
    ] {
        let all = faults("tcp/80", annotations);
        assert_eq!(all.len(), 1, "{annotations:?}: {all:?}");
        assert!(
            all[0].contains(words) && all[0].contains("write frontend-subnet-id"),
            "{all:?}"
        );
    }
    for key in ["frontend-ipv4-range", "frontend-ipv6-range"] {
        for value in ["10.0.0.0", "10.0.0.0/33", "x"] {
            let all = faults("tcp/80", &[id, (key, value)]);
            assert_eq!(all.len(), 1, "{key} {value}: {all:?}");
            assert!(
                all[0].contains("is no block of addresses; write"),
                "{all:?}"
            );
        }
    }
}
