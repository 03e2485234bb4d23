//! Which Service has which address. Pure.
//!
//! A Service keeps what it has; whoever has nothing gets a free address of a block that is there, and
//! only if there is none, one is to be bought.
//!
//! **Guarantee.** An address that the status of a Service shows is in use: no other Service gets it, and
//! its block stays, whatever the Service asks for and however that is answered. The status changes only
//! after another address has been provided, or by the hand of whoever announces a foreign one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use mooring_common::k8s::ObjectKey;
use mooring_common::names::annotations;

use super::super::model::{Block, BlockStatus, Holder, Network};
use super::ip_request::IpRequest;
use super::layout;
use super::ownership::{Owned, Owner};
use super::settings::Settings;
use crate::cloud_provider::load_balancers::TakeOver;

/// All that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) settings: &'a Settings,
    /// Where blocks are bought.
    pub(super) location: &'a str,
    /// The public network that blocks are assigned to. `None`: they are assigned to none.
    pub(super) network: Option<&'a Network>,
    /// The blocks of this cluster.
    pub(super) blocks: &'a [Owned],
    pub(super) ip_requests: &'a [IpRequest],
}

/// What a Service shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Assignment {
    /// This address of the block of this id.
    Address { block: String, address: Ipv4Addr },
    /// This address, whose block is in the network and does not bear our tags any more.
    Untagged { block: String, address: Ipv4Addr },
    /// It had this address, whose block is not there.
    Missing(Ipv4Addr),
    /// This address, which is its user's own affair.
    Foreign(Ipv4Addr),
    /// No block that is there has an address for it.
    Nothing,
    /// It asks for what it cannot have.
    Refused(String),
}

/// Who has what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) shares: BTreeMap<ObjectKey, Assignment>,
    /// Shared blocks of which nobody has an address, by id.
    pub(super) unused: BTreeSet<String>,
    /// Blocks of one Service beside the one that it uses, by id.
    pub(super) doubles: BTreeMap<String, ObjectKey>,
}

impl Observed<'_> {
    /// One of the blocks.
    pub(super) fn block(&self, id: &str) -> Option<&Owned> {
        self.blocks.iter().find(|owned| owned.block.id == id)
    }

    fn shared(&self) -> impl Iterator<Item = &Block> {
        let of_pool = |owned: &&Owned| matches!(owned.owner, Owner::Pool(_));
        self.blocks.iter().filter(of_pool).map(|owned| &owned.block)
    }

    /// Whether addresses of a shared block can be given out.
    fn is_fit(&self, block: &Block) -> bool {
        let is_in_reach = match (&block.holder, self.network) {
            (None, _) => block.location == self.location,
            (Some(Holder::PublicNetwork(id)), Some(network)) => *id == network.id,
            (Some(_), None) => true,
            (Some(Holder::Other(_)), Some(_)) => false,
        };
        is_in_reach && !matches!(block.status, BlockStatus::Subnetted | BlockStatus::Unknown)
    }

    fn is_in_place(&self, block: &Block) -> bool {
        let network = self.network.map(|network| network.id.as_str());
        block.holder.as_ref().and_then(Holder::network) == network
    }
}

/// Decides who has what. The same input gives the same answer, whatever the order that it is
/// described in.
pub(super) fn allocate(observed: &Observed<'_>) -> Allocation {
    let mut order: Vec<&IpRequest> = observed.ip_requests.iter().collect();
    order.sort_by(|a, b| (a.rank(), a.created, &a.key).cmp(&(b.rank(), b.created, &b.key)));
    let mut work = Work::new(observed);
    for ip_request in &order {
        if let Some(proven) = ip_request.proven() {
            work.keep_shared(ip_request, proven);
        }
    }
    for ip_request in &order {
        work.hold(ip_request);
    }
    for ip_request in &order {
        work.keep(ip_request);
    }
    for ip_request in &order {
        work.grant_wish(ip_request);
    }
    for ip_request in &order {
        work.provide(ip_request);
    }
    work.end()
}

struct Work<'a> {
    observed: &'a Observed<'a>,
    /// The one that each Service uses of those that bear its name.
    own: BTreeMap<&'a ObjectKey, &'a Block>,
    /// Whose an address is: what each Service is to have, and what is in use.
    taken: BTreeMap<Ipv4Addr, &'a ObjectKey>,
    result: Allocation,
}

impl<'a> Work<'a> {
    fn new(observed: &'a Observed<'a>) -> Self {
        let mut work = Self {
            observed,
            own: BTreeMap::new(),
            taken: BTreeMap::new(),
            result: Allocation::default(),
        };
        for ip_request in observed.ip_requests {
            work.choose_own(ip_request);
        }
        work
    }

    /// Of several blocks that bear its name, the one that it uses, else the oldest.
    fn choose_own(&mut self, ip_request: &'a IpRequest) {
        let bears_name = |owned: &&Owned| match &owned.owner {
            Owner::Service(key) => *key == ip_request.key,
            _ => false,
        };
        let named = self.observed.blocks.iter().filter(bears_name);
        let mut blocks: Vec<&Block> = named.map(|owned| &owned.block).collect();
        blocks.sort_by_cached_key(|block| {
            let has = |address: Option<Ipv4Addr>| {
                address.is_some_and(|address| block.cidr.contains(&address))
            };
            let is_used =
                has(ip_request.published) || has(ip_request.ours()) || has(ip_request.asked);
            let is_in_place = self.observed.is_in_place(block);
            (
                !(is_used && is_in_place),
                !is_in_place,
                !is_used,
                block.created.is_none(),
                block.created,
                block.id.clone(),
            )
        });
        let mut blocks = blocks.into_iter();
        if let Some(used) = blocks.next() {
            self.own.insert(&ip_request.key, used);
        }
        let doubles = blocks.map(|block| (block.id.clone(), ip_request.key.clone()));
        self.result.doubles.extend(doubles);
    }

    /// The shared block that has this address to give.
    fn shared_with(&self, address: Ipv4Addr) -> Option<&'a Block> {
        let mut all = self
            .observed
            .blocks
            .iter()
            .filter_map(|owned| matches!(owned.owner, Owner::Pool(_)).then_some(&owned.block));
        all.find(|block| layout::is_usable(block.cidr, address))
    }

    fn take(&mut self, ip_request: &'a IpRequest, block: &Block, address: Ipv4Addr) {
        self.taken.insert(address, &ip_request.key);
        let share = Assignment::Address {
            block: block.id.clone(),
            address,
        };
        self.result.shares.insert(ip_request.key.clone(), share);
    }

    fn set(&mut self, ip_request: &IpRequest, share: Assignment) {
        self.result.shares.insert(ip_request.key.clone(), share);
    }

    /// What it has stays its own, unless another has a better right to it.
    fn keep(&mut self, ip_request: &'a IpRequest) {
        let had = [ip_request.given, ip_request.recorded, ip_request.published];
        for address in had.into_iter().flatten() {
            if self.result.shares.contains_key(&ip_request.key) {
                return;
            }
            self.keep_shared(ip_request, address);
        }
        if !self.result.shares.contains_key(&ip_request.key)
            && let Some(block) = self.own.get(&ip_request.key).copied()
        {
            let share = of_own(ip_request, block);
            self.set(ip_request, share);
        }
    }

    /// The same of an address of a shared block.
    fn keep_shared(&mut self, ip_request: &'a IpRequest, address: Ipv4Addr) {
        if let Some(block) = self.shared_with(address)
            && !self.is_anothers(address, ip_request)
        {
            self.take(ip_request, block, address);
        }
    }

    /// What is in use is nobody else's, even if its Service is to have another.
    fn hold(&mut self, ip_request: &'a IpRequest) {
        for address in ip_request.in_use().into_iter().flatten() {
            self.taken.entry(address).or_insert(&ip_request.key);
        }
    }

    fn is_anothers(&self, address: Ipv4Addr, ip_request: &IpRequest) -> bool {
        let holder = self.taken.get(&address);
        holder.is_some_and(|holder| **holder != ip_request.key)
    }

    /// What its user asks for, if it can be had.
    fn grant_wish(&mut self, ip_request: &'a IpRequest) {
        let Some(wish) = ip_request.wish() else {
            return;
        };
        if self.own.contains_key(&ip_request.key) && !self.holds_shared(ip_request) {
            return;
        }
        if let Some(block) = self.shared_with(wish) {
            match self.taken.get(&wish) {
                Some(other) if **other != ip_request.key => {
                    let refusal = format!(
                        "spec.loadBalancerIP: {wish} is the Service {other}'s; ask for another \
                         address, or for none"
                    );
                    self.set(ip_request, Assignment::Refused(refusal));
                }
                _ => self.take(ip_request, block, wish),
            }
            return;
        }
        let mut others = self.observed.blocks.iter();
        let share = match others.find(|owned| owned.block.cidr.contains(&wish)) {
            None => {
                // What it had here can be another's once its status does not show it any more.
                let in_use = ip_request.in_use();
                self.taken.retain(|address, holder| {
                    **holder != ip_request.key || in_use.contains(&Some(*address))
                });
                Assignment::Foreign(wish)
            }
            Some(Owned { block, owner }) => Assignment::Refused(match owner {
                Owner::Service(other) => format!(
                    "spec.loadBalancerIP: {wish} is in the IP block {} ({}), which the Service \
                     {other} has for itself; ask for another address, or for none",
                    block.id, block.cidr
                ),
                Owner::Pool(_) => format!(
                    "spec.loadBalancerIP: {wish} is the network's own, its router's or the \
                     broadcast address of the IP block {} ({}); ask for one between them, or for \
                     none",
                    block.id, block.cidr
                ),
                Owner::Marked | Owner::Unclear => format!(
                    "spec.loadBalancerIP: {wish} is in the IP block {} ({}), which is given to \
                     nobody, by its tags; ask for another address, or for none",
                    block.id, block.cidr
                ),
            }),
        };
        self.set(ip_request, share);
    }

    fn holds_shared(&self, ip_request: &IpRequest) -> bool {
        match self.result.shares.get(&ip_request.key) {
            Some(Assignment::Address { address, .. }) => self.shared_with(*address).is_some(),
            _ => false,
        }
    }

    /// Whoever has nothing yet gets something.
    fn provide(&mut self, ip_request: &'a IpRequest) {
        if self.result.shares.contains_key(&ip_request.key) {
            return;
        }
        if let Some(address) = ip_request.ours().filter(|_| !ip_request.lost)
            && !self.is_anothers(address, ip_request)
            && let Some(share) = self.gone(address)
        {
            self.taken.insert(address, &ip_request.key);
            let share = match share {
                Assignment::Untagged { block, .. }
                    if ip_request.proven() != Some(address) && !ip_request.may_take_over =>
                {
                    Assignment::Refused(unproven(&ip_request.key, address, &block))
                }
                share => share,
            };
            return self.set(ip_request, share);
        }
        match self.free() {
            Some((block, address)) if self.observed.settings.sharing => {
                self.take(ip_request, block, address);
            }
            _ => self.set(ip_request, Assignment::Nothing),
        }
    }

    /// What is known of an address of ours that is in none of our blocks. `None`: its block is being
    /// given back.
    fn gone(&self, address: Ipv4Addr) -> Option<Assignment> {
        let mut all = self.observed.blocks.iter();
        match all.find(|owned| owned.block.cidr.contains(&address)) {
            Some(owned) if owned.owner == Owner::Unclear => Some(Assignment::Untagged {
                block: owned.block.id.clone(),
                address,
            }),
            Some(_) => None,
            None => Some(
                match self.observed.network.and_then(|n| n.block_of(address)) {
                    Some(block) => Assignment::Untagged {
                        block: block.to_owned(),
                        address,
                    },
                    None => Assignment::Missing(address),
                },
            ),
        }
    }

    /// A free address: of a block that works before one that does not yet, and of the fullest of
    /// them, so that the others can be given back when their Services go.
    fn free(&self) -> Option<(&'a Block, Ipv4Addr)> {
        let observed = self.observed;
        let fit = observed.blocks.iter().filter_map(|owned| {
            let is_shared = matches!(owned.owner, Owner::Pool(_));
            (is_shared && observed.is_fit(&owned.block)).then_some(&owned.block)
        });
        let with_room = fit.filter_map(|block| {
            let is_free = |address: &Ipv4Addr| !self.taken.contains_key(address);
            let mut free = layout::usable(block.cidr).filter(is_free);
            let address = free.next()?;
            let left = free.count();
            let works = observed.network.is_none()
                || (observed.is_in_place(block) && block.status == BlockStatus::Assigned);
            Some(((!works, left, block.created, &block.id), block, address))
        });
        let best = with_room.min_by(|(a, ..), (b, ..)| a.cmp(b));
        best.map(|(_, block, address)| (block, address))
    }

    fn end(mut self) -> Allocation {
        let used: BTreeSet<&String> = self
            .result
            .shares
            .values()
            .filter_map(|share| match share {
                Assignment::Address { block, .. } => Some(block),
                _ => None,
            })
            .collect();
        let is_held = |block: &Block| {
            let mut taken = self.taken.keys();
            taken.any(|address| block.cidr.contains(address))
        };
        let unused = self.observed.shared();
        let unused = unused.filter(|block| !used.contains(&block.id) && !is_held(block));
        self.result.unused = unused.map(|block| block.id.clone()).collect();
        let idle = self
            .own
            .iter()
            .filter(|(_, block)| !used.contains(&block.id));
        let idle = idle.filter(|(key, _)| {
            // Who is refused keeps what it has.
            !matches!(self.result.shares.get(**key), Some(Assignment::Refused(_)))
        });
        let idle: Vec<_> = idle
            .map(|(key, block)| (block.id.clone(), (*key).clone()))
            .collect();
        self.result.doubles.extend(idle);
        let observed = self.observed;
        let in_use: Vec<Ipv4Addr> = observed
            .ip_requests
            .iter()
            .filter_map(|ip_request| ip_request.published)
            .collect();
        self.result.doubles.retain(|id, _| {
            let block = observed.block(id).map(|owned| &owned.block);
            !block.is_some_and(|block| in_use.iter().any(|address| block.cidr.contains(address)))
        });
        self.result
    }
}

/// Why an address is not a Service's that nothing but an annotation says it has.
fn unproven(key: &ObjectKey, address: Ipv4Addr, block: &str) -> String {
    format!(
        "the annotation {} says {address}, which is in the IP block {block}; that one does not bear the \
         tags of this cluster, and the status of the Service does not show the address; take the \
         annotation off, or {}",
        annotations::ALLOCATED_ADDRESSES,
        TakeOver::remedy(&key.namespace),
    )
}

/// What a Service has of a block that is its own: what it has or asks for, else the third.
fn of_own(ip_request: &IpRequest, block: &Block) -> Assignment {
    let is_usable = |address: &Ipv4Addr| layout::is_usable(block.cidr, *address);
    let Block { id, cidr, .. } = block;
    if let Some(wish) = ip_request.wish().filter(|wish| !is_usable(wish)) {
        let why = if cidr.contains(&wish) {
            "is the network's own, its router's or the broadcast address of"
        } else {
            "is not in"
        };
        return Assignment::Refused(format!(
            "spec.loadBalancerIP: {wish} {why} the IP block {id} ({cidr}) that the Service has; ask \
             for an address of it, or for none"
        ));
    }
    let known = [
        ip_request.asked,
        ip_request.given,
        ip_request.recorded,
        ip_request.published,
    ];
    let known = known.into_iter().flatten().find(is_usable);
    match known.or_else(|| layout::third(*cidr)) {
        Some(address) => Assignment::Address {
            block: id.clone(),
            address,
        },
        None => Assignment::Refused(format!(
            "the IP block {id} ({cidr}) has no address for a Service"
        )),
    }
}

#[cfg(test)]
mod tests;
