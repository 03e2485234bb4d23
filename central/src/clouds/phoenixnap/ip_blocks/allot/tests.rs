mod shown;

use super::*;
use crate::clouds::phoenixnap::ip_blocks::testing::{
    CLUSTER, NETWORK, block, in_network, key, network, settings,
};
use crate::clouds::phoenixnap::ip_blocks::{ownership, settings::Settings};

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

fn claimant(name: &str) -> Claimant {
    Claimant {
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

fn allotted(blocks: &[Owned], claimants: &[Claimant]) -> Allotment {
    allotted_by(&settings(true), blocks, claimants)
}

fn allotted_by(settings: &Settings, blocks: &[Owned], claimants: &[Claimant]) -> Allotment {
    let network = network();
    allot(&World {
        settings,
        location: "PHX",
        network: Some(&network),
        blocks,
        claimants,
    })
}

fn share(allotment: &Allotment, name: &str) -> Share {
    allotment.shares[&key(name)].clone()
}

fn given(block: &str, text: &str) -> Share {
    Share::Address {
        block: block.to_owned(),
        address: address(text),
    }
}

#[test]
fn services_share_a_block_until_it_is_full() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let claimants: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(claimant).into();
    let allotment = allotted(&blocks, &claimants);
    for (name, text) in [
        ("a", "203.0.113.10"),
        ("c", "203.0.113.12"),
        ("e", "203.0.113.14"),
    ] {
        assert_eq!(share(&allotment, name), given("b", text));
    }
    assert_eq!(share(&allotment, "f"), Share::Nothing);
}

#[test]
fn without_sharing_a_free_address_is_given_to_nobody_and_a_held_one_is_kept() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let held = Claimant {
        recorded: Some(address("203.0.113.12")),
        ..claimant("held")
    };
    let allotment = allotted_by(&settings(false), &blocks, &[claimant("new"), held]);
    assert_eq!(share(&allotment, "new"), Share::Nothing);
    assert_eq!(share(&allotment, "held"), given("b", "203.0.113.12"));
}

#[test]
fn a_block_of_its_own_gives_a_service_what_it_asks_for_else_what_it_has_else_the_third() {
    let blocks = [own("b", "203.0.113.8/29", "web")];
    let with = |asked: Option<&str>, published: Option<&str>| {
        let web = Claimant {
            asked: asked.map(address),
            published: published.map(address),
            ..claimant("web")
        };
        share(&allotted(&blocks, &[web]), "web")
    };
    assert_eq!(with(None, None), given("b", "203.0.113.10"));
    assert_eq!(with(None, Some("203.0.113.13")), given("b", "203.0.113.13"));
    let both = with(Some("203.0.113.14"), Some("203.0.113.13"));
    assert_eq!(both, given("b", "203.0.113.14"));
    for wrong in ["203.0.113.8", "203.0.113.9", "203.0.113.15", "203.0.113.20"] {
        assert!(
            matches!(with(Some(wrong), None), Share::Refused(_)),
            "{wrong}"
        );
    }
}

#[test]
fn a_block_of_one_service_is_no_other_ones() {
    let blocks = [own("b", "203.0.113.8/29", "web")];
    let asking = Claimant {
        asked: Some(address("203.0.113.12")),
        ..claimant("other")
    };
    let allotment = allotted(&blocks, &[claimant("web"), asking, claimant("third")]);
    assert!(matches!(share(&allotment, "other"), Share::Refused(_)));
    assert_eq!(share(&allotment, "third"), Share::Nothing);
}

#[test]
fn of_two_blocks_of_one_service_the_used_one_stays_whichever_is_listed_first() {
    let mut blocks = [
        own("b1", "203.0.113.8/29", "web"),
        own("b2", "203.0.113.16/29", "web"),
    ];
    let web = Claimant {
        asked: Some(address("203.0.113.18")),
        recorded: Some(address("203.0.113.18")),
        ..claimant("web")
    };
    for _ in 0..2 {
        let allotment = allotted(&blocks, std::slice::from_ref(&web));
        assert_eq!(share(&allotment, "web"), given("b2", "203.0.113.18"));
        assert_eq!(allotment.doubles.keys().collect::<Vec<_>>(), ["b1"]);
        let unnamed = allotted(&blocks, &[claimant("web")]);
        assert_eq!(share(&unnamed, "web"), given("b1", "203.0.113.10"));
        blocks.reverse();
    }
}

#[test]
fn an_address_that_two_claim_is_the_one_ones_that_publishes_it() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let copy = Claimant {
        recorded: Some(address("203.0.113.10")),
        asked: Some(address("203.0.113.10")),
        ..claimant("a-copy")
    };
    let original = Claimant {
        recorded: Some(address("203.0.113.10")),
        published: Some(address("203.0.113.10")),
        ..claimant("web")
    };
    let allotment = allotted(&blocks, &[copy, original]);
    assert_eq!(share(&allotment, "web"), given("b", "203.0.113.10"));
    assert_eq!(share(&allotment, "a-copy"), given("b", "203.0.113.11"));
}

#[test]
fn a_wish_is_granted_if_it_is_free_and_is_left_alone_if_it_is_nowhere_here() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let wishing = |name, text| Claimant {
        asked: Some(address(text)),
        ..claimant(name)
    };
    let claimants = [
        wishing("free", "203.0.113.13"),
        wishing("foreign", "192.0.2.1"),
        wishing("router", "203.0.113.9"),
        Claimant {
            given: Some(address("203.0.113.12")),
            ..claimant("first")
        },
        wishing("taken", "203.0.113.12"),
    ];
    let allotment = allotted(&blocks, &claimants);
    assert_eq!(share(&allotment, "free"), given("b", "203.0.113.13"));
    assert_eq!(
        share(&allotment, "foreign"),
        Share::Foreign(address("192.0.2.1"))
    );
    assert!(matches!(share(&allotment, "router"), Share::Refused(_)));
    assert!(matches!(share(&allotment, "taken"), Share::Refused(_)));
}

#[test]
fn who_is_refused_another_address_keeps_the_one_that_it_has() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let refused = Claimant {
        recorded: Some(address("203.0.113.10")),
        published: Some(address("203.0.113.10")),
        asked: Some(address("203.0.113.9")),
        ..claimant("refused")
    };
    let allotment = allotted(&blocks, &[refused, claimant("new")]);
    assert!(matches!(share(&allotment, "refused"), Share::Refused(_)));
    assert_eq!(share(&allotment, "new"), given("b", "203.0.113.11"));
}

#[test]
fn an_address_whose_block_is_not_there_is_missing_and_when_it_is_lost_another_is_given() {
    let blocks = [pool("b", "203.0.113.8/29")];
    let missing = Claimant {
        recorded: Some(address("203.0.113.50")),
        published: Some(address("203.0.113.50")),
        asked: Some(address("203.0.113.50")),
        ..claimant("web")
    };
    let share_of =
        |claimant: &Claimant| share(&allotted(&blocks, std::slice::from_ref(claimant)), "web");
    assert_eq!(share_of(&missing), Share::Missing(address("203.0.113.50")));
    let lost = Claimant {
        lost: true,
        ..missing
    };
    assert_eq!(share_of(&lost), given("b", "203.0.113.10"));
}

#[test]
fn an_address_whose_block_lost_its_tags_is_kept_while_the_network_has_it() {
    let mut network = network();
    network
        .blocks
        .push(("bare".to_owned(), "203.0.113.48/29".parse().unwrap()));
    let web = Claimant {
        recorded: Some(address("203.0.113.50")),
        published: Some(address("203.0.113.50")),
        ..claimant("web")
    };
    let settings = settings(true);
    let allotment = allot(&World {
        settings: &settings,
        location: "PHX",
        network: Some(&network),
        blocks: &[],
        claimants: &[web],
    });
    let untagged = Share::Untagged {
        block: "bare".to_owned(),
        address: address("203.0.113.50"),
    };
    assert_eq!(share(&allotment, "web"), untagged);
}

#[test]
fn the_fullest_block_that_works_is_filled_first_so_that_others_can_be_given_back() {
    let blocks = [
        pool("b1", "203.0.113.8/29"),
        pool("b2", "203.0.113.16/29"),
        pool("b3", "203.0.113.24/29"),
    ];
    let held = Claimant {
        recorded: Some(address("203.0.113.20")),
        ..claimant("held")
    };
    let allotment = allotted(&blocks, &[held, claimant("new")]);
    assert_eq!(share(&allotment, "new"), given("b2", "203.0.113.18"));
    let unused: Vec<_> = allotment.unused.iter().collect();
    assert_eq!(unused, ["b1", "b3"]);
}

/// A2: only the status proves that an address of a block without our tags is the Service's.
#[test]
fn an_address_without_our_tags_is_kept_by_who_provably_has_it_and_given_to_nobody() {
    let untagged = |recorded: &str, published: Option<&str>, may_take_over: bool| {
        let claimant = Claimant {
            recorded: Some(address(recorded)),
            published: published.map(address),
            may_take_over,
            ..claimant("web")
        };
        let mut there = network();
        let cidr = "203.0.113.64/29".parse().unwrap();
        there.blocks.push(("theirs".to_owned(), cidr));
        let settings = settings(true);
        let allotment = allot(&World {
            settings: &settings,
            location: "PHX",
            network: Some(&there),
            blocks: &[],
            claimants: &[claimant],
        });
        allotment.shares[&key("web")].clone()
    };
    let theirs = Share::Untagged {
        block: "theirs".to_owned(),
        address: address("203.0.113.66"),
    };
    let shown = Some("203.0.113.66");
    assert_eq!(untagged("203.0.113.66", shown, false), theirs);
    assert_eq!(untagged("203.0.113.66", None, true), theirs);
    for published in [None, Some("203.0.113.67")] {
        let share = untagged("203.0.113.66", published, false);
        assert!(
            matches!(&share, Share::Refused(why) if why.contains("--take-over-namespaces")),
            "{share:?}"
        );
    }
}
