//! An address that a status shows is in use, whatever its Service asks for meanwhile.

use super::*;

/// It has this address by its record and its status, and asks for another.
fn asking(name: &str, has: &str, asks: &str) -> Claimant {
    Claimant {
        recorded: Some(address(has)),
        published: Some(address(has)),
        asked: Some(address(asks)),
        ..claimant(name)
    }
}

fn a_pool(id: &str) -> [Owned; 1] {
    [pool(id, "203.0.113.8/29")]
}

#[test]
fn an_address_that_a_status_shows_is_nobody_elses_while_its_service_asks_for_a_foreign_one() {
    let blocks = a_pool("b");
    let web = asking("web", "203.0.113.10", "192.0.2.1");
    let wishing = Claimant {
        asked: Some(address("203.0.113.10")),
        ..claimant("wishing")
    };
    let all = [web.clone(), wishing, claimant("new")];
    let allotment = allotted(&blocks, &all);
    assert_eq!(
        share(&allotment, "web"),
        Share::Foreign(address("192.0.2.1"))
    );
    assert!(matches!(share(&allotment, "wishing"), Share::Refused(_)));
    assert_eq!(share(&allotment, "new"), given("b", "203.0.113.11"));
    let alone = allotted(&blocks, &[web]);
    assert!(alone.unused.is_empty(), "{alone:?}");
}

#[test]
fn an_address_that_a_status_shows_no_more_is_free_for_others() {
    let blocks = a_pool("b");
    let web = Claimant {
        published: Some(address("192.0.2.1")),
        ..asking("web", "203.0.113.10", "192.0.2.1")
    };
    let allotment = allotted(&blocks, &[web, claimant("new")]);
    assert_eq!(share(&allotment, "new"), given("b", "203.0.113.10"));
}

#[test]
fn an_address_that_a_service_moves_from_is_its_own_until_its_status_shows_the_new_one() {
    let blocks = a_pool("b");
    let moving = Claimant {
        given: Some(address("203.0.113.13")),
        ..asking("moving", "203.0.113.10", "203.0.113.13")
    };
    let copy = Claimant {
        recorded: Some(address("203.0.113.10")),
        created: -1,
        ..claimant("copy")
    };
    let allotment = allotted(&blocks, &[moving, copy, claimant("new")]);
    assert_eq!(share(&allotment, "moving"), given("b", "203.0.113.13"));
    assert_eq!(share(&allotment, "copy"), given("b", "203.0.113.11"));
    assert_eq!(share(&allotment, "new"), given("b", "203.0.113.12"));
}

#[test]
fn an_address_without_our_tags_that_a_status_shows_is_given_to_one_service_alone() {
    let mut network = network();
    let cidr = "203.0.113.64/29".parse().unwrap();
    network.blocks.push(("bare".to_owned(), cidr));
    let permitted = Claimant {
        recorded: Some(address("203.0.113.66")),
        may_take_over: true,
        ..claimant("a-copy")
    };
    let blocks = a_pool("b");
    let settings = settings(true);
    let share_of_copy = |other: Claimant| {
        let claimants = [other, permitted.clone()];
        let allotment = allot(&World {
            settings: &settings,
            location: "PHX",
            network: Some(&network),
            blocks: &blocks,
            claimants: &claimants,
        });
        share(&allotment, "a-copy")
    };
    let refused = asking("web", "203.0.113.66", "203.0.113.9");
    assert_eq!(share_of_copy(refused), given("b", "203.0.113.10"));
    let content = asking("web", "203.0.113.66", "203.0.113.66");
    assert_eq!(share_of_copy(content), given("b", "203.0.113.10"));
}

#[test]
fn a_block_of_its_own_stays_while_the_status_shows_an_address_of_it() {
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
        let allotment = allotted(&blocks, &[web]);
        assert!(!allotment.doubles.contains_key("own"), "{allotment:?}");
    }
    let moved = asking("web", "203.0.113.26", "203.0.113.26");
    let allotment = allotted(&blocks, &[moved]);
    assert_eq!(allotment.doubles.keys().collect::<Vec<_>>(), ["own"]);
}
