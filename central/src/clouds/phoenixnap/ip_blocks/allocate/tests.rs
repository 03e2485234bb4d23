mod shown;

use super::*;
use crate::clouds::phoenixnap::api::ip_blocks::Block;
use crate::clouds::phoenixnap::ip_blocks::ownership::{self, Owner};
use crate::clouds::phoenixnap::ip_blocks::testing::{
    CLUSTER, NETWORK, block, in_network, key, network, settings,
};
use crate::clouds::phoenixnap::setting::Settings;
use crate::engine::ip_allocation::Assignment;

fn owned(owner: Owner, block: Block) -> Owned {
    let tags = ownership::of_new(CLUSTER, &owner);
    let block = Block { tags, ..block };
    Owned { block, owner }
}

fn pool(id: &str, cidr: &str) -> Owned {
    let block = Block {
        status: BlockStatus::Assigned,
        holder: in_network(NETWORK),
        ..block(id, cidr)
    };
    owned(Owner::Pool(NETWORK.to_owned()), block)
}

fn own(id: &str, cidr: &str, name: &str) -> Owned {
    let block = pool(id, cidr).block;
    owned(Owner::Service(key(name)), block)
}

fn ip_request(name: &str) -> IpRequest {
    IpRequest {
        key: key(name),
        uid: name.to_owned(),
        created: 0,
        given: None,
        recorded: None,
        published: None,
        asked: None,
        home: None,
        lost: false,
        may_take_over: false,
    }
}

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn allocated(blocks: &[Owned], ip_requests: &[IpRequest]) -> Allocation {
    allotted_by(&settings(true), blocks, ip_requests)
}

fn allotted_by(settings: &Settings, blocks: &[Owned], ip_requests: &[IpRequest]) -> Allocation {
    let network = network();
    allocate(&Observed {
        settings,
        location: "PHX",
        network: Some(&network),
        blocks,
        elsewhere: &Elsewhere::default(),
        ip_requests,
    })
}

fn share(allocation: &Allocation, name: &str) -> Assignment {
    allocation.shares[&key(name)].clone()
}

fn given(block: &str, text: &str) -> Assignment {
    Assignment::Address {
        block: block.to_owned(),
        address: address(text),
    }
}

#[test]
fn services_share_block_until_full() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let ip_requests: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(ip_request).into();
    let allocation = allocated(&blocks, &ip_requests);
    for (name, text) in [
        ("a", "203.0.113.10"),
        ("c", "203.0.113.12"),
        ("e", "203.0.113.14"),
    ] {
        assert_eq!(share(&allocation, name), given("b", text));
    }
    assert_eq!(share(&allocation, "f"), Assignment::Nothing);
}

#[test]
fn without_sharing_keeps_held_addresses_only() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let held = IpRequest {
        recorded: Some(address("203.0.113.12")),
        ..ip_request("held")
    };
    let allocation = allotted_by(&settings(false), &blocks, &[ip_request("new"), held]);
    assert_eq!(share(&allocation, "new"), Assignment::Nothing);
    assert_eq!(share(&allocation, "held"), given("b", "203.0.113.12"));
}

#[test]
fn own_block_gives_requested_then_current_then_third_address() {
    let blocks = [own("b", "203.0.113.8/29", "web")];
    let with = |asked: Option<&str>, published: Option<&str>| {
        let web = IpRequest {
            asked: asked.map(address),
            published: published.map(address),
            ..ip_request("web")
        };
        share(&allocated(&blocks, &[web]), "web")
    };
    assert_eq!(with(None, None), given("b", "203.0.113.10"));
    assert_eq!(with(None, Some("203.0.113.13")), given("b", "203.0.113.13"));
    let both = with(Some("203.0.113.14"), Some("203.0.113.13"));
    assert_eq!(both, given("b", "203.0.113.14"));
    for wrong in ["203.0.113.8", "203.0.113.9", "203.0.113.15", "203.0.113.20"] {
        assert!(
            matches!(with(Some(wrong), None), Assignment::Refused(_)),
            "{wrong}"
        );
    }
}

#[test]
fn own_block_serves_one_service() {
    let blocks = [own("b", "203.0.113.8/29", "web")];
    let asking = IpRequest {
        asked: Some(address("203.0.113.12")),
        ..ip_request("other")
    };
    let allocation = allocated(&blocks, &[ip_request("web"), asking, ip_request("third")]);
    assert!(matches!(
        share(&allocation, "other"),
        Assignment::Refused(_)
    ));
    assert_eq!(share(&allocation, "third"), Assignment::Nothing);
}

#[test]
fn used_one_of_two_own_blocks_stays() {
    let mut blocks = [
        own("b1", "203.0.113.8/29", "web"),
        own("b2", "203.0.113.16/29", "web"),
    ];
    let web = IpRequest {
        asked: Some(address("203.0.113.18")),
        recorded: Some(address("203.0.113.18")),
        ..ip_request("web")
    };
    for _ in 0..2 {
        let allocation = allocated(&blocks, std::slice::from_ref(&web));
        assert_eq!(share(&allocation, "web"), given("b2", "203.0.113.18"));
        assert_eq!(allocation.doubles.keys().collect::<Vec<_>>(), ["b1"]);
        let unnamed = allocated(&blocks, &[ip_request("web")]);
        assert_eq!(share(&unnamed, "web"), given("b1", "203.0.113.10"));
        blocks.reverse();
    }
}

#[test]
fn publisher_keeps_contested_address() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let copy = IpRequest {
        recorded: Some(address("203.0.113.10")),
        asked: Some(address("203.0.113.10")),
        ..ip_request("a-copy")
    };
    let original = IpRequest {
        recorded: Some(address("203.0.113.10")),
        published: Some(address("203.0.113.10")),
        ..ip_request("web")
    };
    let allocation = allocated(&blocks, &[copy, original]);
    assert_eq!(share(&allocation, "web"), given("b", "203.0.113.10"));
    assert_eq!(share(&allocation, "a-copy"), given("b", "203.0.113.11"));
}

#[test]
fn grants_free_request_and_leaves_foreign_one() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let wishing = |name, text| IpRequest {
        asked: Some(address(text)),
        ..ip_request(name)
    };
    let ip_requests = [
        wishing("free", "203.0.113.13"),
        wishing("foreign", "192.0.2.1"),
        wishing("router", "203.0.113.9"),
        IpRequest {
            given: Some(address("203.0.113.12")),
            ..ip_request("first")
        },
        wishing("taken", "203.0.113.12"),
    ];
    let allocation = allocated(&blocks, &ip_requests);
    assert_eq!(share(&allocation, "free"), given("b", "203.0.113.13"));
    assert_eq!(
        share(&allocation, "foreign"),
        Assignment::Foreign(address("192.0.2.1"))
    );
    assert!(matches!(
        share(&allocation, "router"),
        Assignment::Refused(_)
    ));
    assert!(matches!(
        share(&allocation, "taken"),
        Assignment::Refused(_)
    ));
}

#[test]
fn refused_service_keeps_its_address() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let refused = IpRequest {
        recorded: Some(address("203.0.113.10")),
        published: Some(address("203.0.113.10")),
        asked: Some(address("203.0.113.9")),
        ..ip_request("refused")
    };
    let allocation = allocated(&blocks, &[refused, ip_request("new")]);
    assert!(matches!(
        share(&allocation, "refused"),
        Assignment::Refused(_)
    ));
    assert_eq!(share(&allocation, "new"), given("b", "203.0.113.11"));
}

#[test]
fn missing_block_waits_lost_block_is_replaced() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let missing = IpRequest {
        recorded: Some(address("203.0.113.50")),
        published: Some(address("203.0.113.50")),
        asked: Some(address("203.0.113.50")),
        ..ip_request("web")
    };
    let share_of = |ip_request: &IpRequest| {
        share(&allocated(&blocks, std::slice::from_ref(ip_request)), "web")
    };
    assert_eq!(
        share_of(&missing),
        Assignment::Missing(address("203.0.113.50"))
    );
    let lost = IpRequest {
        lost: true,
        ..missing
    };
    assert_eq!(share_of(&lost), given("b", "203.0.113.10"));
}

#[test]
fn keeps_address_of_untagged_block_in_network() {
    let mut network = network();
    network
        .blocks
        .push(("bare".to_owned(), "203.0.113.48/29".parse().unwrap()));
    let web = IpRequest {
        recorded: Some(address("203.0.113.50")),
        published: Some(address("203.0.113.50")),
        ..ip_request("web")
    };
    let settings = settings(true);
    let allocation = allocate(&Observed {
        settings: &settings,
        location: "PHX",
        network: Some(&network),
        blocks: &[],
        elsewhere: &Elsewhere::default(),
        ip_requests: &[web],
    });
    let untagged = Assignment::Untagged {
        block: "bare".to_owned(),
        address: address("203.0.113.50"),
    };
    assert_eq!(share(&allocation, "web"), untagged);
}

#[test]
fn fills_fullest_block_first() {
    let blocks = [
        pool("b1", "203.0.113.8/29"),
        pool("b2", "203.0.113.16/29"),
        pool("b3", "203.0.113.24/29"),
    ];
    let held = IpRequest {
        recorded: Some(address("203.0.113.20")),
        ..ip_request("held")
    };
    let allocation = allocated(&blocks, &[held, ip_request("new")]);
    assert_eq!(share(&allocation, "new"), given("b2", "203.0.113.18"));
    let unused: Vec<_> = allocation.unused.iter().collect();
    assert_eq!(unused, ["b1", "b3"]);
}

/// A2: only the status proves that an address of a block without our tags is the Service's.
#[test]
fn untagged_address_stays_with_proven_holder() {
    let untagged = |recorded: &str, published: Option<&str>, may_take_over: bool| {
        let ip_request = IpRequest {
            recorded: Some(address(recorded)),
            published: published.map(address),
            may_take_over,
            ..ip_request("web")
        };
        let mut there = network();
        let cidr = "203.0.113.64/29".parse().unwrap();
        there.blocks.push(("theirs".to_owned(), cidr));
        let settings = settings(true);
        let allocation = allocate(&Observed {
            settings: &settings,
            location: "PHX",
            network: Some(&there),
            blocks: &[],
            elsewhere: &Elsewhere::default(),
            ip_requests: &[ip_request],
        });
        allocation.shares[&key("web")].clone()
    };
    let theirs = Assignment::Untagged {
        block: "theirs".to_owned(),
        address: address("203.0.113.66"),
    };
    let shown = Some("203.0.113.66");
    assert_eq!(untagged("203.0.113.66", shown, false), theirs);
    assert_eq!(untagged("203.0.113.66", None, true), theirs);
    for published in [None, Some("203.0.113.67")] {
        let share = untagged("203.0.113.66", published, false);
        assert!(
            matches!(&share, Assignment::Refused(why) if why.contains("--take-over-namespaces")),
            "{share:?}"
        );
    }
}

/// What a server has in the network is given to no Service, unless its status shows it.
#[test]
fn addresses_of_members_are_reserved() {
    let mut there = network();
    let range = (address("203.0.113.10"), address("203.0.113.11"));
    there.used = vec![range, (address("203.0.113.14"), address("203.0.113.14"))];
    let settings = settings(true);
    let shares = |blocks: &[Owned], ip_requests: &[IpRequest]| {
        allocate(&Observed {
            settings: &settings,
            location: "PHX",
            network: Some(&there),
            blocks,
            elsewhere: &Elsewhere::default(),
            ip_requests,
        })
    };
    let asking = |name: &str, wish: &str| IpRequest {
        asked: Some(address(wish)),
        ..ip_request(name)
    };
    let shown = IpRequest {
        recorded: Some(address("203.0.113.14")),
        published: Some(address("203.0.113.14")),
        ..ip_request("shown")
    };
    let recorded = IpRequest {
        recorded: Some(address("203.0.113.11")),
        ..ip_request("recorded")
    };
    let shared = [pool("b", "203.0.113.8/29")];
    let requests = [
        ip_request("new"),
        asking("asks", "203.0.113.10"),
        shown.clone(),
        recorded,
    ];
    let allocation = shares(&shared, &requests);
    assert_eq!(share(&allocation, "recorded"), given("b", "203.0.113.12"));
    assert_eq!(share(&allocation, "new"), given("b", "203.0.113.13"));
    assert_eq!(share(&allocation, "shown"), given("b", "203.0.113.14"));
    let Assignment::Refused(why) = share(&allocation, "asks") else {
        panic!("{allocation:?}");
    };
    assert!(
        why.contains("203.0.113.10 is an address of a server"),
        "{why}"
    );
    let its_own = [
        own("b1", "203.0.113.8/29", "new"),
        own("b2", "203.0.113.8/29", "asks"),
        own("b3", "203.0.113.8/29", "shown"),
    ];
    let requests = [ip_request("new"), asking("asks", "203.0.113.11"), shown];
    let allocation = shares(&its_own, &requests);
    assert_eq!(share(&allocation, "new"), given("b1", "203.0.113.12"));
    assert!(matches!(share(&allocation, "asks"), Assignment::Refused(_)));
    assert_eq!(share(&allocation, "shown"), given("b3", "203.0.113.14"));
}
