//! An address that a status shows is in use, whatever its Service asks for meanwhile.

use super::*;

/// It has this address by its record and its status, and asks for another.
fn asking(name: &str, has: &str, asks: &str) -> IpRequest {
    IpRequest {
        recorded: Some(address(has)),
        published: Some(address(has)),
        asked: Some(address(asks)),
        ..ip_request(name)
    }
}

fn a_pool(id: &str) -> [Owned; 1] {
    [pool(id, "203.0.113.8/29")]
}

#[test]
fn published_address_is_reserved_during_foreign_request() {
    let blocks = a_pool("b");
    let web = asking("web", "203.0.113.10", "192.0.2.1");
    let wishing = IpRequest {
        asked: Some(address("203.0.113.10")),
        ..ip_request("wishing")
    };
    let all = [web.clone(), wishing, ip_request("new")];
    let allocation = allocated(&blocks, &all);
    assert_eq!(
        share(&allocation, "web"),
        Assignment::Foreign(address("192.0.2.1"))
    );
    assert!(matches!(
        share(&allocation, "wishing"),
        Assignment::Refused(_)
    ));
    assert_eq!(share(&allocation, "new"), given("b", "203.0.113.11"));
    let alone = allocated(&blocks, &[web]);
    assert!(alone.unused.is_empty(), "{alone:?}");
}

#[test]
fn unpublished_address_is_free() {
    let blocks = a_pool("b");
    let web = IpRequest {
        published: Some(address("192.0.2.1")),
        ..asking("web", "203.0.113.10", "192.0.2.1")
    };
    let allocation = allocated(&blocks, &[web, ip_request("new")]);
    assert_eq!(share(&allocation, "new"), given("b", "203.0.113.10"));
}

#[test]
fn keeps_former_address_until_status_shows_new_one() {
    let blocks = a_pool("b");
    let moving = IpRequest {
        given: Some(address("203.0.113.13")),
        ..asking("moving", "203.0.113.10", "203.0.113.13")
    };
    let copy = IpRequest {
        recorded: Some(address("203.0.113.10")),
        created: -1,
        ..ip_request("copy")
    };
    let allocation = allocated(&blocks, &[moving, copy, ip_request("new")]);
    assert_eq!(share(&allocation, "moving"), given("b", "203.0.113.13"));
    assert_eq!(share(&allocation, "copy"), given("b", "203.0.113.11"));
    assert_eq!(share(&allocation, "new"), given("b", "203.0.113.12"));
}

#[test]
fn untagged_published_address_serves_one_service() {
    let mut network = network();
    let cidr = "203.0.113.64/29".parse().unwrap();
    network.blocks.push(("bare".to_owned(), cidr));
    let permitted = IpRequest {
        recorded: Some(address("203.0.113.66")),
        may_take_over: true,
        ..ip_request("a-copy")
    };
    let blocks = a_pool("b");
    let settings = settings(true);
    let share_of_copy = |other: IpRequest| {
        let ip_requests = [other, permitted.clone()];
        let allocation = allocate(&Observed {
            settings: &settings,
            location: "PHX",
            network: Some(&network),
            blocks: &blocks,
            elsewhere: &Elsewhere::default(),
            ip_requests: &ip_requests,
        });
        share(&allocation, "a-copy")
    };
    let refused = asking("web", "203.0.113.66", "203.0.113.9");
    assert_eq!(share_of_copy(refused), given("b", "203.0.113.10"));
    let content = asking("web", "203.0.113.66", "203.0.113.66");
    assert_eq!(share_of_copy(content), given("b", "203.0.113.10"));
}

#[test]
fn own_block_stays_while_status_shows_it() {
    let mut own = own("own", "203.0.113.16/29", "web");
    // Somebody has taken it from the network, and two others have its name.
    (own.block.status, own.block.holder) = (BlockStatus::Unassigned, None);
    let blocks = [
        own,
        super::own("second", "203.0.113.24/29", "web"),
        pool("b", "203.0.113.8/29"),
    ];
    for asked in ["203.0.113.9", "192.0.2.1", "203.0.113.10"] {
        let web = asking("web", "203.0.113.18", asked);
        let allocation = allocated(&blocks, &[web]);
        assert!(!allocation.doubles.contains_key("own"), "{allocation:?}");
    }
    let moved = asking("web", "203.0.113.26", "203.0.113.26");
    let allocation = allocated(&blocks, &[moved]);
    assert_eq!(allocation.doubles.keys().collect::<Vec<_>>(), ["own"]);
}
