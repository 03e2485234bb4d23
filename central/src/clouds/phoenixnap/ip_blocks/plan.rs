//! What comes next for a Service, for one that goes, and for blocks that nobody needs. Pure.
//!
//! One step at a time: after each, everything is observed again.
//!
//! **Guarantees.** Nothing is bought for a Service for which there is a block. Nothing is done to a
//! block that is not this cluster's by its tags. No address is provided whose block is not assigned to
//! the network.

use std::net::Ipv4Addr;

use mooring_common::k8s::ObjectKey;

use super::super::api::ip_blocks::{Block, BlockStatus, Holder};
use super::super::api::public_networks::Network;
use super::super::setting::Setting;
use super::allocate::{Observed, allocate};
use super::ownership::{Owned, Owner};
use super::step::Step;
use crate::engine::address_blocks;
use crate::engine::ip_allocation::{Allocation, IpRequest, capacity};

/// How many IPv4 blocks a public network takes.
const MOST_PER_NETWORK: usize = 10;

/// How many subnets an L2Network takes.
const MOST_SUBNETS: usize = 8;

/// What comes next for a Service that is to have an address.
pub(super) type Next = address_blocks::Next<Step>;

/// What comes next for one of the ip_requests, whose share is known.
pub(super) fn next(
    observed: &Observed<'_>,
    ip_request: &IpRequest,
    allocation: &Allocation,
) -> Next {
    let leads = |block: &str, address| {
        let owned = observed.block(block)?;
        Some(lead(observed, ip_request, owned, address))
    };
    let share = allocation.shares.get(&ip_request.key);
    Next::of(share, leads, || buy(observed, &ip_request.key))
}

/// Leads a block to where its address works.
fn lead(observed: &Observed<'_>, ip_request: &IpRequest, owned: &Owned, address: Ipv4Addr) -> Next {
    let block = &owned.block;
    let wait = |what: &str| Next::Wait(format!("the {block} is {what}"));
    let provide = Next::Provide {
        block: block.id.clone(),
        address,
    };
    let Some(network) = observed.network else {
        return match &block.status {
            BlockStatus::Creating => wait("being bought"),
            BlockStatus::Subnetted | BlockStatus::Unknown => refuse(observed, block),
            _ => provide,
        };
    };
    let attach = || attach(observed, network, block);
    match (&block.status, &block.holder) {
        (BlockStatus::Subnetted | BlockStatus::Unknown, _) => refuse(observed, block),
        (BlockStatus::Creating, _) => wait("being bought"),
        (BlockStatus::Unassigning, _) => wait("being unassigned"),
        (BlockStatus::Unassigned, _) => attach(),
        (BlockStatus::Assigning, None) => wait("being assigned"),
        (BlockStatus::ErrorAssigning | BlockStatus::ErrorUnassigning, None) => attach(),
        (BlockStatus::Assigned, None) => Next::Wait(format!(
            "the {block} is assigned, and the cloud does not say to what"
        )),
        (status, Some(Holder::PublicNetwork(holder))) if *holder == network.id => match status {
            BlockStatus::Assigned => provide,
            BlockStatus::Assigning => wait("being assigned"),
            _ => attach(),
        },
        (status, Some(holder)) => {
            let moves = holder
                .network()
                .filter(|id| has_moved(ip_request, &owned.owner, id));
            match moves {
                Some(_) if *status == BlockStatus::Assigning => wait("being assigned"),
                Some(old) => Next::Take(Step::Detach {
                    block: block.id.clone(),
                    cidr: block.cidr,
                    network: old.to_owned(),
                    is_used: true,
                }),
                None => refuse(observed, block),
            }
        }
    }
}

/// Whether it is our own work that the block is in that network: the configuration named it before.
fn has_moved(ip_request: &IpRequest, owner: &Owner, network: &str) -> bool {
    match owner {
        Owner::Pool(bought_for) => {
            bought_for == network || ip_request.home.as_deref() == Some(network)
        }
        _ => ip_request.home.as_deref() == Some(network),
    }
}

/// A block of which its Services cannot have addresses.
fn refuse(observed: &Observed<'_>, block: &Block) -> Next {
    let why = observed.unfit(block).unwrap_or_default();
    Next::Refuse(format!("the {block} of the Service {why}"))
}

fn attach(observed: &Observed<'_>, network: &Network, block: &Block) -> Next {
    let id = &block.id;
    if block.holder.is_none() && observed.unfit(block).is_some() {
        return refuse(observed, block);
    }
    let others = network.blocks.iter().filter(|(other, _)| other != id);
    if others.count() >= MOST_PER_NETWORK {
        return Next::Refuse(full(observed));
    }
    Next::Take(Step::Attach {
        block: id.clone(),
        cidr: block.cidr,
        network: network.id.clone(),
    })
}

/// What there is no room for.
fn full(observed: &Observed<'_>) -> String {
    let network = observed.network.map(|n| n.id.as_str()).unwrap_or_default();
    let remedy = if observed.settings.flags.shares_blocks {
        "--ip-block-size=28 makes the next blocks larger; or name another public network"
    } else {
        "let Services share blocks (--ip-block-sharing=true), or name another public network"
    };
    format!(
        "the public network {network} has {MOST_PER_NETWORK} IP blocks, more than which it does not \
         take, so none is bought; delete a Service, or take a block of somebody else's from it; \
         {remedy}"
    )
}

/// For whom a block is bought that a Service needs.
pub(super) fn buyer(observed: &Observed<'_>, service: &ObjectKey) -> Owner {
    match (observed.settings.flags.shares_blocks, observed.network) {
        (false, _) => Owner::Service(service.clone()),
        (true, Some(network)) => Owner::Pool(network.id.clone()),
        (true, None) => Owner::Pool(BGP_POOL.to_owned()),
    }
}

/// A block for a Service that none has an address for.
fn buy(observed: &Observed<'_>, service: &ObjectKey) -> Next {
    let settings = observed.settings;
    let owner = buyer(observed, service);
    if let Some(next) = instead_of_another(observed, &owner) {
        return next;
    }
    let (most, there) = (settings.flags.max_blocks, observed.blocks.len());
    if there >= most {
        return Next::Refuse(format!(
            "this cluster has {there} IP blocks, and --max-ip-blocks={most} permits no further one, \
             so none is bought; raise it, or delete a Service"
        ));
    }
    let is_ours = |owned: &&Owned| matches!(owned.owner, Owner::Service(_) | Owner::Pool(_));
    if matches!(settings.setting, Setting::L2(_))
        && observed.blocks.iter().filter(is_ours).count() >= MOST_SUBNETS
    {
        return Next::Refuse(format!(
            "the L2Network of the public network has {MOST_SUBNETS} subnets, more than which it does \
             not take, so no IP block is bought; delete a Service; --ip-block-size=28 makes the next \
             blocks larger"
        ));
    }
    if let Some(network) = observed.network {
        let is_bound = |owned: &&Owned| {
            let is_elsewhere = network.blocks.iter().all(|(id, _)| *id != owned.block.id);
            is_elsewhere && !matches!(owned.owner, Owner::Marked | Owner::Unclear)
        };
        let bound = observed.blocks.iter().filter(is_bound).count();
        if network.blocks.len() + bound >= MOST_PER_NETWORK {
            return Next::Refuse(full(observed));
        }
    }
    Next::Take(Step::Buy {
        location: observed.location.to_owned(),
        prefix: settings.flags.block_size,
        owner,
    })
}

/// What comes next while one of the blocks of an owner may yet be of use to it: the next one that is
/// bought may come to the same end. One that was cut into smaller ones is of no use for ever.
pub(super) fn instead_of_another(observed: &Observed<'_>, owner: &Owner) -> Option<Next> {
    let mut its = observed.blocks.iter().filter(|it| it.owner == *owner);
    its.find_map(|Owned { block, .. }| {
        let why = observed.unfit(block);
        let is_empty = capacity(block.cidr.prefix_len()) == 0;
        match block.status {
            BlockStatus::Subnetted => None,
            status if status.is_transition() => {
                let is_to_come = why.is_some() || (status == BlockStatus::Creating && is_empty);
                is_to_come.then(|| Next::Wait(format!("the cloud is at work on the {block}")))
            }
            _ => why.map(|why| {
                Next::Refuse(format!(
                    "no IP block is bought while this cluster has one that is of no use: the {block} {why}"
                ))
            }),
        }
    })
}

/// What stands for the network in the tag of blocks that are bought to be announced by BGP.
pub(super) const BGP_POOL: &str = "bgp";

/// What is to be marked when a Service goes that is not among the ip_requests any more: all blocks that
/// are its own, and those shared ones that nobody needs then.
pub(super) fn removal(observed: &Observed<'_>, going: &IpRequest) -> Vec<Step> {
    let allocation = allocate(observed);
    let is_its = |owned: &&Owned| match &owned.owner {
        Owner::Service(key) => *key == going.key,
        Owner::Pool(_) => allocation.unused.contains(&owned.block.id),
        Owner::Marked | Owner::Unclear => false,
    };
    let is_whole = |owned: &&Owned| owned.block.status != BlockStatus::Subnetted;
    let all = observed.blocks.iter().filter(is_its).filter(is_whole);
    all.map(|owned| mark(&owned.block)).collect()
}

/// Makes a block nobody's.
pub(super) fn mark(block: &Block) -> Step {
    Step::Mark {
        block: block.id.clone(),
        cidr: block.cidr,
    }
}

/// What comes next for a block that is marked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReleaseStep {
    /// This is to be done.
    Take(Step),
    /// The cloud needs time.
    Wait,
    /// It stays: the text says why, and what to do.
    Stuck(String),
}

/// Whether the cloud has failed at a block that is marked and does not say where it is now: its network
/// may list it nevertheless.
pub(super) fn is_lost(owned: &Owned) -> bool {
    let block = &owned.block;
    owned.owner == Owner::Marked && block.status.is_error() && block.holder.is_none()
}

/// Leads a block that is nobody's any more out of the network that it is really in, and gives it back.
/// `None`: it is somebody's. `network` is the one to look at for what is [lost](is_lost).
pub(super) fn dispose(owned: &Owned, network: Option<&Network>) -> Option<ReleaseStep> {
    if owned.owner != Owner::Marked {
        return None;
    }
    let block = &owned.block;
    let listed = network.filter(|network| network.has(&block.id));
    let listed = listed.map(|network| Holder::PublicNetwork(network.id.clone()));
    let listed = listed.filter(|_| is_lost(owned));
    let holder = block.holder.clone().or(listed);
    let (id, cidr) = (block.id.clone(), block.cidr);
    Some(match (block.status, holder) {
        (status, _) if status.is_transition() => ReleaseStep::Wait,
        (BlockStatus::Unassigned, _)
        | (BlockStatus::ErrorAssigning | BlockStatus::ErrorUnassigning, None) => {
            ReleaseStep::Take(Step::Release { block: id, cidr })
        }
        (BlockStatus::Subnetted | BlockStatus::Unknown, _) => ReleaseStep::Stuck(format!(
            "the {block} is to be given back, and cannot be in its state; it is paid for until somebody \
             gives it back by hand"
        )),
        (_, Some(Holder::PublicNetwork(network))) => ReleaseStep::Take(Step::Detach {
            block: id,
            cidr,
            network,
            is_used: false,
        }),
        (_, Some(holder)) => ReleaseStep::Stuck(format!(
            "the {block} is to be given back, and is assigned to the {holder}, where Mooring has not put \
             it; it is paid for until somebody takes it from there"
        )),
        (_, None) => ReleaseStep::Wait,
    })
}

#[cfg(test)]
mod tests;
