//! Blocks that cost money and give no addresses: no further one is bought while there is one.

use super::*;

fn pool(status: BlockStatus, holder: Option<Holder>) -> Owned {
    of(Owner::Pool(NETWORK.to_owned()), status, holder)
}

fn located(location: &str) -> Owned {
    let mut owned = pool(BlockStatus::Unassigned, None);
    location.clone_into(&mut owned.block.location);
    owned
}

fn beside(owned: Owned) -> Next {
    planned(&settings(true), &network(), &[owned], &web())
}

fn is_purchase(next: &Next) -> bool {
    matches!(next, Next::Take(Step::Buy { .. }))
}

#[test]
fn unfit_block_of_pool_stops_purchases_and_says_why() {
    let server = Some(Holder::Other("server 7".to_owned()));
    for (owned, why, remedy) in [
        (
            pool(BlockStatus::Assigned, in_network("old")),
            "public network old",
            "assign it to that one",
        ),
        (
            pool(BlockStatus::Assigned, server),
            "server 7",
            "give it back",
        ),
        (
            pool(BlockStatus::Unknown, None),
            "does not know",
            "give it back",
        ),
        (
            located("ASH"),
            "the location \"ASH\"",
            "correct PNAP_LOCATION",
        ),
        (located(""), "the location \"\"", "give it back"),
    ] {
        let told = refusal(beside(owned));
        let named = "the IP block b (203.0.113.8/29)";
        let says_all = [named, why, remedy]
            .iter()
            .all(|words| told.contains(words));
        assert!(says_all, "{told}");
    }
}

#[test]
fn block_on_its_way_is_waited_for() {
    let mut nowhere = located("");
    nowhere.block.status = BlockStatus::Creating;
    for owned in [
        nowhere,
        pool(BlockStatus::Assigning, in_network("old")),
        pool(BlockStatus::Unassigning, in_network("old")),
    ] {
        let next = beside(owned);
        assert!(is_wait(&next), "{next:?}");
    }
}

#[test]
fn location_is_compared_without_case() {
    for location in ["phx", "Phx"] {
        assert_eq!(beside(located(location)), attach(), "{location}");
    }
}

#[test]
fn used_up_subnetted_and_other_owners_blocks_stop_no_purchase() {
    let mut full = pool(BlockStatus::Assigned, in_network(NETWORK));
    full.block.cidr = "203.0.113.8/31".parse().unwrap();
    let other = of(
        Owner::Pool("old".to_owned()),
        BlockStatus::Assigned,
        in_network("old"),
    );
    for owned in [full, pool(BlockStatus::Subnetted, None), other] {
        let next = beside(owned);
        assert!(is_purchase(&next), "{next:?}");
    }
}
