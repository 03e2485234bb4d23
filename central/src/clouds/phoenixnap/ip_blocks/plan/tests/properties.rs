//! Whatever there is and whatever is wanted: what holds for every plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::engine::ip_allocation::{is_usable, usable};

const STATUSES: [BlockStatus; 9] = [
    BlockStatus::Creating,
    BlockStatus::Subnetted,
    BlockStatus::Unassigned,
    BlockStatus::Assigning,
    BlockStatus::ErrorAssigning,
    BlockStatus::Assigned,
    BlockStatus::Unassigning,
    BlockStatus::ErrorUnassigning,
    BlockStatus::Unknown,
];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A block that a listing may hold: ours, another cluster's, or of nobody who is known.
fn any_block() -> impl Strategy<Value = Block> {
    let holder = prop_oneof![
        Just(None),
        Just(in_network(NETWORK)),
        Just(in_network("old")),
        Just(Some(Holder::Other("server 7".to_owned()))),
    ];
    let owner = prop_oneof![
        prop::sample::select(&NAMES).prop_map(|name| Owner::Service(key(name))),
        Just(Owner::Pool(NETWORK.to_owned())),
        Just(Owner::Pool("old".to_owned())),
        Just(Owner::Marked),
        Just(Owner::Unclear),
    ];
    let status = prop::sample::select(&STATUSES);
    let cluster = prop::sample::select(&[CLUSTER, CLUSTER, CLUSTER, "elsewhere"]);
    let location = prop::sample::select(&["PHX", "PHX", "ASH"]);
    (holder, owner, status, cluster, location).prop_map(
        |(holder, owner, status, cluster, location)| Block {
            holder,
            status,
            location: location.to_owned(),
            tags: match &owner {
                Owner::Marked => ownership::marked(&ownership::of_new(cluster, &owner)),
                owner => ownership::of_new(cluster, owner),
            },
            ..block("", "203.0.113.0/29")
        },
    )
}

fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
    prop::collection::vec(any_block(), 0..6).prop_map(|mut blocks| {
        for (number, block) in blocks.iter_mut().enumerate() {
            block.id = format!("b{number}");
            block.cidr = format!("203.0.113.{}/29", number * 8).parse().unwrap();
        }
        blocks
    })
}

/// An address of the blocks, or one of nobody's.
fn any_address() -> impl Strategy<Value = Option<Ipv4Addr>> {
    let ours = (0_u8..56).prop_map(|last| Some(Ipv4Addr::new(203, 0, 113, last)));
    prop_oneof![3 => Just(None), 2 => ours, 1 => Just(Some(Ipv4Addr::new(192, 0, 2, 1)))]
}

fn any_claimants() -> impl Strategy<Value = Vec<IpRequest>> {
    let one = (
        any_address(),
        any_address(),
        any_address(),
        any_address(),
        prop::sample::select(vec![None, Some("old".to_owned())]),
        any::<bool>(),
    );
    prop::collection::vec(one, 1..=4).prop_map(|all| {
        let named = all.into_iter().zip(NAMES);
        let ip_requests =
            named.map(
                |((given, recorded, published, asked, home, lost), name)| IpRequest {
                    key: key(name),
                    uid: name.to_owned(),
                    created: 0,
                    given,
                    recorded,
                    published,
                    asked,
                    home,
                    lost,
                    may_take_over: false,
                },
            );
        ip_requests.collect()
    })
}

struct Case {
    settings: Settings,
    network: Network,
    elsewhere: Elsewhere,
    blocks: Vec<Owned>,
    ip_requests: Vec<IpRequest>,
}

impl Case {
    fn of(all: Vec<Block>, ip_requests: Vec<IpRequest>, sharing: bool) -> Self {
        let mut network = network();
        for block in &all {
            if block.holder == in_network(NETWORK) {
                network.blocks.push((block.id.clone(), block.cidr));
            }
        }
        let ours = all
            .into_iter()
            .filter_map(|block| Owned::of(block, CLUSTER));
        Self {
            settings: settings(sharing),
            network,
            elsewhere: Elsewhere::default(),
            blocks: ours.collect(),
            ip_requests,
        }
    }

    fn observed(&self) -> Observed<'_> {
        Observed {
            settings: &self.settings,
            location: "PHX",
            network: Some(&self.network),
            blocks: &self.blocks,
            elsewhere: &self.elsewhere,
            ip_requests: &self.ip_requests,
        }
    }

    fn all_next(&self) -> Vec<(&IpRequest, Next)> {
        let observed = self.observed();
        let allocation = allocate(&observed);
        let next = |ip_request| (ip_request, next(&observed, ip_request, &allocation));
        self.ip_requests.iter().map(next).collect()
    }

    fn is_shared(&self, id: &str) -> bool {
        let mut blocks = self.blocks.iter();
        blocks.any(|owned| owned.block.id == id && matches!(owned.owner, Owner::Pool(_)))
    }

    /// Whether shared blocks that can be brought to work have addresses for all, of which nobody
    /// uses or asks for any.
    fn has_room(&self) -> bool {
        let spoken_for: BTreeSet<Ipv4Addr> = self
            .ip_requests
            .iter()
            .flat_map(|c| [c.given, c.recorded, c.published, c.asked])
            .flatten()
            .collect();
        let of_use = self.blocks.iter().filter(|owned| {
            let block = &owned.block;
            let is_lost = matches!(block.status, BlockStatus::Subnetted | BlockStatus::Unknown);
            let is_in_reach = match &block.holder {
                None => block.location == "PHX",
                holder => *holder == in_network(NETWORK),
            };
            matches!(owned.owner, Owner::Pool(_)) && !is_lost && is_in_reach
        });
        let free = of_use.map(|owned| {
            let free = usable(owned.block.cidr).filter(|a| !spoken_for.contains(a));
            free.count()
        });
        free.sum::<usize>() >= self.ip_requests.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn buys_nothing_while_a_block_fits(
        blocks in any_blocks(),
        ip_requests in any_claimants(),
        sharing in any::<bool>(),
    ) {
        let case = Case::of(blocks, ip_requests, sharing);
        for (ip_request, next) in case.all_next() {
            let Next::Take(Step::Buy { owner, .. }) = next else { continue };
            let its = Owner::Service(ip_request.key.clone());
            let has_own = case.blocks.iter().any(|owned| owned.owner == its);
            prop_assert!(!has_own, "{ip_request:?} has a block already");
            let could_share = sharing && case.has_room();
            prop_assert!(!could_share, "{ip_request:?} could have had an address");
            prop_assert_eq!(matches!(owner, Owner::Pool(_)), sharing);
            let brings_its_own = ip_request.asked.is_some_and(|asked| {
                ![ip_request.given, ip_request.recorded].contains(&Some(asked))
            });
            prop_assert!(!brings_its_own, "{ip_request:?} brings its own address");
        }
    }

    #[test]
    fn touches_only_own_blocks_where_they_are(
        blocks in any_blocks(),
        ip_requests in any_claimants(),
        sharing in any::<bool>(),
    ) {
        let all: BTreeMap<String, Block> =
            blocks.iter().map(|block| (block.id.clone(), block.clone())).collect();
        let case = Case::of(blocks, ip_requests, sharing);
        let mut steps: Vec<Step> = Vec::new();
        for (_, next) in case.all_next() {
            if let Next::Take(step) = next {
                steps.push(step);
            }
        }
        steps.extend(removal(&case.observed(), &web()));
        for owned in &case.blocks {
            if let Some(ReleaseStep::Take(step)) = dispose(owned, Some(&case.network)) {
                prop_assert_eq!(&owned.owner, &Owner::Marked);
                steps.push(step);
            }
        }
        for step in steps {
            let (id, from) = match &step {
                Step::Attach { block, .. }
                | Step::Mark { block, .. }
                | Step::Release { block, .. } => (block, None),
                Step::Detach { block, network, .. } => (block, Some(network.as_str())),
                Step::Buy { .. } | Step::EnsureTags(_) => continue,
            };
            let block = &all[id];
            let cluster = block.tags.iter().find(|tag| tag.name == "cluster").unwrap();
            prop_assert_eq!(cluster.value.as_deref(), Some(CLUSTER));
            prop_assert!(block.status != BlockStatus::Subnetted);
            if from.is_some() {
                prop_assert_eq!(block.holder.as_ref().and_then(Holder::network), from);
            }
            if let Step::Release { .. } = step {
                let is_free = block.status == BlockStatus::Unassigned || block.holder.is_none();
                prop_assert!(is_free, "{block:?} is in use");
            }
        }
    }

    #[test]
    fn provides_working_address_to_one_service(
        blocks in any_blocks(),
        ip_requests in any_claimants(),
        sharing in any::<bool>(),
    ) {
        let case = Case::of(blocks, ip_requests, sharing);
        let mut provided = BTreeSet::new();
        for (ip_request, next) in case.all_next() {
            let Next::Provide { block, address } = next else { continue };
            let owned = case.blocks.iter().find(|owned| owned.block.id == block).unwrap();
            prop_assert_eq!(owned.block.status, BlockStatus::Assigned);
            prop_assert_eq!(&owned.block.holder, &in_network(NETWORK));
            prop_assert!(is_usable(owned.block.cidr, address));
            prop_assert!(provided.insert(address), "{address} is provided twice");
            match &owned.owner {
                Owner::Service(name) => prop_assert_eq!(name, &ip_request.key),
                Owner::Pool(_) => {}
                other => prop_assert!(false, "{other:?} serves nobody"),
            }
        }
    }

    #[test]
    fn ignores_order_of_listing(
        blocks in any_blocks(),
        ip_requests in any_claimants(),
        sharing in any::<bool>(),
    ) {
        let case = Case::of(blocks.clone(), ip_requests.clone(), sharing);
        let mut turned = Case::of(blocks, ip_requests, sharing);
        turned.blocks.reverse();
        turned.ip_requests.reverse();
        prop_assert_eq!(allocate(&case.observed()), allocate(&turned.observed()));
    }

    #[test]
    fn published_address_is_reserved_and_its_block_stays(
        blocks in any_blocks(),
        ip_requests in any_claimants(),
        sharing in any::<bool>(),
    ) {
        let case = Case::of(blocks, ip_requests, sharing);
        let allocation = allocate(&case.observed());
        for ip_request in &case.ip_requests {
            let address = match &allocation.shares[&ip_request.key] {
                Assignment::Address { address, block } if case.is_shared(block) => *address,
                Assignment::Untagged { address, .. } => *address,
                _ => continue,
            };
            let mut others = case.ip_requests.iter().filter(|other| other.key != ip_request.key);
            let is_shown = others.any(|other| other.published == Some(address));
            let has = [ip_request.given, ip_request.published].contains(&Some(address));
            prop_assert!(!is_shown || has, "{ip_request:?} gets {address}, which another shows");
        }
        let idle: Vec<&String> = allocation.unused.iter().chain(allocation.doubles.keys()).collect();
        for owned in case.blocks.iter().filter(|owned| idle.contains(&&owned.block.id)) {
            let mut shown = case.ip_requests.iter().filter_map(|ip_request| ip_request.published);
            let is_shown = shown.any(|address| owned.block.cidr.contains(&address));
            prop_assert!(!is_shown, "{owned:?} is to go");
        }
    }

    #[test]
    fn uncontested_address_stays(
        blocks in any_blocks(),
        mut ip_requests in any_claimants(),
    ) {
        for (number, ip_request) in ip_requests.iter_mut().enumerate() {
            let number = u8::try_from(number).unwrap();
            let own = Some(Ipv4Addr::new(203, 0, 113, 2 + number));
            (ip_request.given, ip_request.recorded) = (None, own);
            (ip_request.published, ip_request.asked, ip_request.lost) = (own, own, false);
        }
        let case = Case::of(blocks, ip_requests, true);
        let allocation = allocate(&case.observed());
        let is_shared = case.blocks.iter().any(|owned| {
            owned.block.id == "b0" && matches!(owned.owner, Owner::Pool(_))
        });
        for ip_request in case.ip_requests.iter().filter(|_| is_shared) {
            let kept = Assignment::Address {
                block: "b0".to_owned(),
                address: ip_request.recorded.unwrap(),
            };
            prop_assert_eq!(&allocation.shares[&ip_request.key], &kept);
        }
    }
}
