//! Linodes in VPCs.

use super::vpcs::{Subnet, Vpc};
use super::*;

fn by_name(vpcs: &[&str]) -> Flags {
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    Flags {
        vpcs: VpcChoice::Names {
            vpcs: names(vpcs),
            subnets: names(&["default"]),
        },
        ..Flags::default()
    }
}

/// Two VPCs with a subnet `default` each; Linode 1 is in both, 2 in none.
fn answer(seen: &Seen) -> Reply {
    let path = seen
        .line
        .trim_start_matches("GET /v4/")
        .split('?')
        .next()
        .unwrap();
    let filter = seen.header("x-filter").unwrap_or_default();
    match (path, filter) {
        ("linode/instances", _) => page(&[1, 2], 1, 1, 2),
        ("linode/instances/1", _) => Reply::json(entry(1)),
        ("vpcs", _) => whole(&[
            json!({"id": 10, "label": "a"}),
            json!({"id": 20, "label": "b", "subnets": null}),
        ]),
        ("vpcs/10/subnets", _) => whole(&[
            json!({"id": 11, "label": "default"}),
            json!({"id": 12, "label": "other"}),
        ]),
        ("vpcs/20/subnets", _) => whole(&[json!({"id": 21, "label": "default"})]),
        ("vpcs/10/ips", r#"{"subnet_id":"11"}"#) => whole(&[
            json!({"linode_id": 1, "subnet_id": 11, "address": "10.0.0.2"}),
            json!({"linode_id": 1, "subnet_id": 12, "address": "10.9.9.9"}),
            json!({"linode_id": 1, "subnet_id": 11, "address": null, "address_range": "10.0.1.0/24"}),
            json!({"linode_id": null, "nodebalancer_id": 4, "subnet_id": 11, "address": "10.0.0.9"}),
        ]),
        ("vpcs/20/ips", r#"{"subnet_id":"21"}"#) => whole(&[
            json!({"linode_id": 1, "subnet_id": 21, "address": "10.0.0.2"}),
            json!({"linode_id": 1, "subnet_id": 21, "address": "10.2.0.2"}),
        ]),
        ("vpcs/10/ipv6s", _) => whole(&[json!({
            "linode_id": 1, "subnet_id": 11, "address": null, "ipv6_is_public": false,
            "ipv6_addresses": [{"slaac_address": "fd00::2"}],
        })]),
        ("vpcs/20/ipv6s", _) => whole(&[]),
        _ => not_found(),
    }
}

/// Addresses in VPCs have no numbers: a page that repeats another one is known by its entries.
#[tokio::test]
async fn a_page_that_comes_twice_is_no_listing() {
    let of = |address: &str, number: u32| {
        let row = json!({"linode_id": 1, "subnet_id": 11, "address": address});
        Reply::json(json!({"data": [row], "page": number, "pages": 2, "results": 2}))
    };
    for (second, is_whole) in [("10.0.0.3", true), ("10.0.0.2", false)] {
        let cloud = Cloud::start(move |seen, _| {
            if !seen.line.contains("/vpcs/10/ips") {
                return answer(seen);
            }
            match seen.query("page") {
                Some("1") => of("10.0.0.2", 1),
                _ => of(second, 2),
            }
        })
        .await;
        let listed = linode(&cloud.base, by_name(&["a"])).list().await;
        assert_eq!(listed.is_ok(), is_whole, "{second}: {listed:?}");
    }
}

fn shown(machine: &Machine) -> Vec<String> {
    machine
        .facts
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[tokio::test]
async fn vpc_addresses_come_first() {
    let cloud = Cloud::start(|seen, _| answer(seen)).await;
    let linode = linode(&cloud.base, by_name(&["a", "b"]));
    let machines = linode.list().await.unwrap();
    assert_eq!(ids(&machines), ["1", "2"]);
    let inside = [
        "Hostname n1",
        "InternalIP 10.0.0.2",
        "InternalIP 10.2.0.2",
        "ExternalIP 198.51.100.1",
        "InternalIP fd00::2",
    ];
    assert_eq!(shown(&machines[0]), inside);
    assert_eq!(
        shown(&machines[1]),
        ["Hostname n2", "ExternalIP 198.51.100.2"]
    );
    let first = cloud.lines().len();
    assert_eq!(linode.list().await.unwrap(), machines);
    assert_eq!(
        (first, cloud.lines().len()),
        (8, 13),
        "numbers are remembered"
    );
    let one = linode.get(&machines[0].id).await.unwrap().unwrap();
    assert_eq!(one, machines[0]);
}

#[tokio::test]
async fn finds_recreated_vpc() {
    let cloud = Cloud::start(|seen, before| match before {
        3 => not_found(),
        _ => answer(seen),
    })
    .await;
    let linode = linode(&cloud.base, by_name(&["a"]));
    let error = linode.list().await.unwrap_err();
    assert!(
        error.is_not_found() && error.message.contains("vpcs/10/ipv6s"),
        "{error}"
    );
    assert_eq!(linode.list().await.unwrap().len(), 2);
    let searches = cloud
        .lines()
        .iter()
        .filter(|l| l.starts_with("GET /v4/vpcs?"))
        .count();
    assert_eq!(searches, 2);
}

#[tokio::test]
async fn unreadable_vpcs_fail_listing_but_not_look_up() {
    let cloud = Cloud::start(|seen, _| match seen.line.contains("/ips") {
        true => Reply::json("{}").status(500),
        false => answer(seen),
    })
    .await;
    let linode = linode(&cloud.base, by_name(&["a"]));
    assert_eq!(linode.list().await.unwrap_err().kind, ErrorKind::Server);
    let id = facts::parse_id("linode://1").unwrap();
    let machine = linode.get(&id).await.unwrap().unwrap();
    assert_eq!(
        (shown(&machine), machine.names),
        (vec![], vec!["n1".to_owned()])
    );
}

#[tokio::test]
async fn reports_unknown_names() {
    let cloud = Cloud::start(|seen, _| answer(seen)).await;
    let error = linode(&cloud.base, by_name(&["a", "c"]))
        .list()
        .await
        .unwrap_err();
    assert!(
        error.message.contains("--vpc-names: there is no VPC c"),
        "{error}"
    );
    let mut flags = by_name(&["a"]);
    if let VpcChoice::Names { subnets, .. } = &mut flags.vpcs {
        *subnets = vec!["none".to_owned()];
    }
    let error = linode(&cloud.base, flags).list().await.unwrap_err();
    assert!(error.message.contains("--subnet-names=none"), "{error}");
}

/// The end of the first one of the first VPC is kept free of pod CIDRs.
#[tokio::test]
async fn first_subnet_is_the_first_of_the_flag() {
    let cloud = Cloud::start(|seen, _| answer(seen)).await;
    for (subnets, expected) in [(["other", "default"], 12), (["default", "other"], 11)] {
        let flags = Flags {
            vpcs: VpcChoice::Names {
                vpcs: vec!["a".to_owned()],
                subnets: subnets.map(ToOwned::to_owned).to_vec(),
            },
            ..Flags::default()
        };
        let linode = linode(&cloud.base, flags);
        let first = linode.vpcs.first_subnet().await.unwrap();
        assert_eq!(first, Some((10, expected)), "{subnets:?}");
    }
}

#[tokio::test]
async fn subnet_is_found_by_the_label_of_that_in_another_vpc() {
    let cloud = Cloud::start(|seen, _| answer(seen)).await;
    let linode = linode(&cloud.base, Flags::default());
    let like = |subnet| Subnet::NamedLike {
        vpc: Vpc::Label("b".to_owned()),
        other: (10, subnet),
    };
    for _ in 0..2 {
        let found = linode.vpcs.number(&like(11)).await;
        assert_eq!(found.unwrap(), 21);
    }
    assert_eq!(cloud.lines().len(), 3, "numbers are remembered");
    for (subnet, told) in [
        (12, "no subnet other in VPC 20"),
        (13, "no subnet 13 in VPC 10"),
    ] {
        let found = linode.vpcs.number(&like(subnet)).await;
        let error = found.unwrap_err();
        assert!(error.message.contains(told), "{error}");
    }
}

/// What a Linode has in the VPCs was read with the listing, and nobody needs it anew for one.
#[tokio::test]
async fn a_single_linode_takes_one_request() {
    let cloud = Cloud::start(|seen, _| answer(seen)).await;
    let linode = linode(&cloud.base, by_name(&["a"]));
    let machines = linode.list().await.unwrap();
    let before = cloud.lines().len();
    linode.get(&machines[0].id).await.unwrap().unwrap();
    assert_eq!(cloud.lines().len(), before + 1);
}

#[tokio::test]
async fn numbers_need_no_search() {
    let cloud = Cloud::start(|seen, _| answer(seen)).await;
    let flags = Flags {
        vpcs: VpcChoice::Numbers {
            vpcs: vec![10],
            subnets: vec![11],
        },
        ..Flags::default()
    };
    let machines = linode(&cloud.base, flags).list().await.unwrap();
    assert_eq!(shown(&machines[0])[1], "InternalIP 10.0.0.2");
    assert_eq!(cloud.lines().len(), 3);
}
