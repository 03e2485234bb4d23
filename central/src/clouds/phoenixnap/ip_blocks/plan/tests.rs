mod properties;
mod unfit;

use super::*;
use crate::clouds::phoenixnap::ip_blocks::ownership;
use crate::clouds::phoenixnap::ip_blocks::testing::{
    CLUSTER, NETWORK, block, in_network, key, network, settings,
};
use crate::clouds::phoenixnap::setting::Settings;
use crate::engine::ip_allocation::{Assignment, Elsewhere};

fn web() -> IpRequest {
    IpRequest {
        key: key("web"),
        uid: "web".to_owned(),
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

fn of(owner: Owner, status: BlockStatus, holder: Option<Holder>) -> Owned {
    let tags = ownership::of_new(CLUSTER, &owner);
    let block = Block {
        tags,
        status,
        holder,
        ..block("b", "203.0.113.8/29")
    };
    Owned { block, owner }
}

fn own(status: BlockStatus, holder: Option<Holder>) -> Owned {
    of(Owner::Service(key("web")), status, holder)
}

fn planned(
    settings: &Settings,
    network: &Network,
    blocks: &[Owned],
    ip_request: &IpRequest,
) -> Next {
    let ip_requests = [ip_request.clone()];
    let observed = Observed {
        settings,
        location: "PHX",
        network: Some(network),
        blocks,
        elsewhere: &Elsewhere::default(),
        ip_requests: &ip_requests,
    };
    next(&observed, ip_request, &allocate(&observed))
}

fn after(owned: Owned) -> Next {
    planned(&settings(false), &network(), &[owned], &web())
}

fn attach() -> Next {
    Next::Take(Step::Attach {
        block: "b".to_owned(),
        cidr: "203.0.113.8/29".parse().unwrap(),
        network: NETWORK.to_owned(),
    })
}

fn is_wait(next: &Next) -> bool {
    matches!(next, Next::Wait(_))
}

fn refusal(next: Next) -> String {
    match next {
        Next::Refuse(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_block_state_has_next_step() {
    let ours = in_network(NETWORK);
    let provided = Next::Provide {
        block: "b".to_owned(),
        address: "203.0.113.10".parse().unwrap(),
    };
    assert!(is_wait(&after(own(BlockStatus::Creating, None))));
    assert_eq!(after(own(BlockStatus::Unassigned, None)), attach());
    assert!(is_wait(&after(own(BlockStatus::Assigning, ours.clone()))));
    assert!(is_wait(&after(own(BlockStatus::Assigning, None))));
    assert_eq!(after(own(BlockStatus::Assigned, ours.clone())), provided);
    assert!(is_wait(&after(own(BlockStatus::Assigned, None))));
    assert!(is_wait(&after(own(BlockStatus::Unassigning, ours.clone()))));
    assert_eq!(after(own(BlockStatus::ErrorAssigning, None)), attach());
    assert_eq!(
        after(own(BlockStatus::ErrorAssigning, ours.clone())),
        attach()
    );
    assert_eq!(
        after(own(BlockStatus::ErrorUnassigning, ours.clone())),
        attach()
    );
    refusal(after(own(BlockStatus::Subnetted, None)));
    refusal(after(own(BlockStatus::Unknown, ours)));
}

#[test]
fn moves_block_only_from_formerly_configured_network() {
    let elsewhere = || own(BlockStatus::Assigned, in_network("old"));
    let told = refusal(after(elsewhere()));
    assert!(told.contains("old") && told.contains(NETWORK), "{told}");
    let server = Some(Holder::Other("server 7".to_owned()));
    let told = refusal(after(own(BlockStatus::Assigned, server)));
    assert!(told.contains("server 7"), "{told}");
    let moved = IpRequest {
        home: Some("old".to_owned()),
        ..web()
    };
    let next = planned(&settings(false), &network(), &[elsewhere()], &moved);
    let detach = Step::Detach {
        block: "b".to_owned(),
        cidr: "203.0.113.8/29".parse().unwrap(),
        network: "old".to_owned(),
        is_used: true,
    };
    assert_eq!(next, Next::Take(detach));
}

#[test]
fn buys_own_or_shared_block() {
    let bought = |sharing| match planned(&settings(sharing), &network(), &[], &web()) {
        Next::Take(Step::Buy { owner, prefix, .. }) => (owner, prefix),
        other => panic!("{other:?}"),
    };
    assert_eq!(bought(false), (Owner::Service(key("web")), 29));
    assert_eq!(bought(true), (Owner::Pool(NETWORK.to_owned()), 29));
}

#[test]
fn block_limit_is_enforced() {
    let mut limited = settings(true);
    limited.flags.max_blocks = 0;
    let told = refusal(planned(&limited, &network(), &[], &web()));
    assert!(told.contains("--max-ip-blocks=0"), "{told}");
    let mut full = network();
    for number in 0..10 {
        let cidr = format!("198.51.100.{}/29", number * 8).parse().unwrap();
        full.blocks.push((format!("x{number}"), cidr));
    }
    let told = refusal(planned(&settings(true), &full, &[], &web()));
    assert!(told.contains("10 IP blocks"), "{told}");
    full.blocks.pop();
    let other = of(Owner::Service(key("other")), BlockStatus::Unassigned, None);
    let told = refusal(planned(&settings(true), &full, &[other], &web()));
    assert!(told.contains("10 IP blocks"), "{told}");
}

#[test]
fn does_not_assign_block_of_another_location() {
    let mut away = own(BlockStatus::Unassigned, None);
    away.block.location = "ASH".to_owned();
    let told = refusal(after(away));
    assert!(told.contains("ASH") && told.contains("PHX"), "{told}");
}

#[test]
fn bgp_block_needs_no_network() {
    let settings = Settings {
        setting: "bgp://".parse().unwrap(),
        location: Some("PHX".to_owned()),
        ..settings(true)
    };
    let pool = of(
        Owner::Pool(BGP_POOL.to_owned()),
        BlockStatus::Unassigned,
        None,
    );
    let (blocks, ip_requests) = ([pool], [web()]);
    let observed = Observed {
        settings: &settings,
        location: "PHX",
        network: None,
        blocks: &blocks,
        elsewhere: &Elsewhere::default(),
        ip_requests: &ip_requests,
    };
    let next = next(&observed, &ip_requests[0], &allocate(&observed));
    assert!(matches!(next, Next::Provide { .. }), "{next:?}");
}

#[test]
fn removal_marks_own_and_unused_shared_blocks() {
    let mut blocks = vec![
        own(BlockStatus::Assigned, in_network(NETWORK)),
        own(BlockStatus::Assigned, in_network("elsewhere")),
        of(
            Owner::Pool(NETWORK.to_owned()),
            BlockStatus::Assigned,
            in_network(NETWORK),
        ),
        of(
            Owner::Service(key("other")),
            BlockStatus::Assigned,
            in_network(NETWORK),
        ),
    ];
    for (number, owned) in blocks.iter_mut().enumerate() {
        owned.block.id = format!("b{number}");
        owned.block.cidr = format!("203.0.113.{}/29", number * 8).parse().unwrap();
    }
    let marked = |ip_requests: &[IpRequest]| -> Vec<String> {
        let (settings, network) = (settings(true), network());
        let observed = Observed {
            settings: &settings,
            location: "PHX",
            network: Some(&network),
            blocks: &blocks,
            elsewhere: &Elsewhere::default(),
            ip_requests,
        };
        let steps = removal(&observed, &web()).into_iter();
        let id = |step| match step {
            Step::Mark { block, .. } => block,
            other => panic!("{other}"),
        };
        steps.map(id).collect()
    };
    assert_eq!(marked(&[]), ["b0", "b1", "b2"]);
    let still = IpRequest {
        key: key("still"),
        recorded: Some("203.0.113.18".parse().unwrap()),
        ..web()
    };
    assert_eq!(marked(&[still]), ["b0", "b1"]);
}

#[test]
fn detaches_and_releases_marked_block() {
    let disposed = |status, holder| {
        let marked = of(Owner::Marked, status, holder);
        dispose(&marked, Some(&network())).unwrap()
    };
    let detach = |network: &str| {
        ReleaseStep::Take(Step::Detach {
            block: "b".to_owned(),
            cidr: "203.0.113.8/29".parse().unwrap(),
            network: network.to_owned(),
            is_used: false,
        })
    };
    let release = ReleaseStep::Take(Step::Release {
        block: "b".to_owned(),
        cidr: "203.0.113.8/29".parse().unwrap(),
    });
    let old = in_network("old");
    assert_eq!(disposed(BlockStatus::Assigned, old.clone()), detach("old"));
    assert_eq!(
        disposed(BlockStatus::ErrorUnassigning, old.clone()),
        detach("old")
    );
    assert_eq!(disposed(BlockStatus::Unassigned, None), release);
    for status in [
        BlockStatus::Creating,
        BlockStatus::Assigning,
        BlockStatus::Unassigning,
    ] {
        assert_eq!(
            disposed(status, old.clone()),
            ReleaseStep::Wait,
            "{status:?}"
        );
    }
    let server = Some(Holder::Other("server 7".to_owned()));
    assert!(matches!(
        disposed(BlockStatus::Assigned, server),
        ReleaseStep::Stuck(_)
    ));
    assert!(matches!(
        disposed(BlockStatus::Subnetted, None),
        ReleaseStep::Stuck(_)
    ));
    let kept = of(Owner::Unclear, BlockStatus::Unassigned, None);
    assert_eq!(dispose(&kept, None), None);
}

#[test]
fn detaches_marked_block_that_failed_to_arrive_or_to_leave() {
    for status in [BlockStatus::ErrorAssigning, BlockStatus::ErrorUnassigning] {
        let marked = of(Owner::Marked, status, None);
        let mut network = network();
        let step = |network: &Network| match dispose(&marked, Some(network)) {
            Some(ReleaseStep::Take(step)) => step,
            other => panic!("{other:?}"),
        };
        assert!(matches!(step(&network), Step::Release { .. }), "{status:?}");
        network.blocks.push(("b".to_owned(), marked.block.cidr));
        assert!(matches!(step(&network), Step::Detach { .. }), "{status:?}");
    }
}

#[test]
fn no_second_block_is_bought_while_the_state_of_one_is_not_known() {
    let unknown = of(Owner::Pool(NETWORK.to_owned()), BlockStatus::Unknown, None);
    let why = refusal(planned(&settings(true), &network(), &[unknown], &web()));
    assert!(why.contains("does not know"), "{why}");
    let why = refusal(after(own(BlockStatus::Unknown, None)));
    assert!(why.contains("does not know"), "{why}");
}
