//! Who has what, in order of how well founded each Service's hold on its address is. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use mooring_common::k8s::ObjectKey;
use mooring_common::names::annotations;

use super::layout::{is_usable, third, usable};
use super::{AddressBlock, Allocation, Assignment, BlockHolder, IpRequest, Pool};
use crate::cloud_provider::load_balancers::TakeOver;

/// Decides who has what. The same input gives the same answer, whatever the order that it is
/// described in.
#[must_use]
pub fn allocate<'a>(pool: &'a Pool<'a>) -> Allocation {
    let mut order: Vec<&IpRequest> = pool.requests.iter().collect();
    order.sort_by(|a, b| (a.rank(), a.created, &a.key).cmp(&(b.rank(), b.created, &b.key)));
    let mut work = Work::new(pool);
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
    pool: &'a Pool<'a>,
    /// The one that each Service uses of those that bear its name.
    own: BTreeMap<&'a ObjectKey, &'a AddressBlock<'a>>,
    /// Whose an address is: what each Service is to have, and what is in use.
    taken: BTreeMap<Ipv4Addr, &'a ObjectKey>,
    result: Allocation,
}

impl<'a> Work<'a> {
    fn new(pool: &'a Pool<'a>) -> Self {
        let mut work = Self {
            pool,
            own: BTreeMap::new(),
            taken: BTreeMap::new(),
            result: Allocation::default(),
        };
        for ip_request in pool.requests {
            work.choose_own(ip_request);
        }
        work
    }

    /// Of several blocks that bear its name, the one that it uses, else the oldest.
    fn choose_own(&mut self, ip_request: &'a IpRequest) {
        let its = BlockHolder::Service(&ip_request.key);
        let named = self.pool.blocks.iter();
        let mut blocks: Vec<_> = named.filter(|block| block.holder == its).collect();
        blocks.sort_by_cached_key(|block| {
            let has = |address: Option<Ipv4Addr>| {
                address.is_some_and(|address| block.cidr.contains(&address))
            };
            let is_used =
                has(ip_request.published) || has(ip_request.ours()) || has(ip_request.asked);
            (
                !(is_used && block.is_in_place),
                !block.is_in_place,
                !is_used,
                block.created.is_none(),
                block.created,
                block.id,
            )
        });
        let mut blocks = blocks.into_iter();
        if let Some(used) = blocks.next() {
            self.own.insert(&ip_request.key, used);
        }
        let doubles = blocks.map(|block| (block.id.to_owned(), ip_request.key.clone()));
        self.result.doubles.extend(doubles);
    }

    fn shared(&self) -> impl Iterator<Item = &'a AddressBlock<'a>> {
        let blocks = self.pool.blocks.iter();
        blocks.filter(|block| block.holder == BlockHolder::Shared)
    }

    /// The shared block that has this address to give.
    fn shared_with(&self, address: Ipv4Addr) -> Option<&'a AddressBlock<'a>> {
        let mut shared = self.shared();
        shared.find(|block| is_usable(block.cidr, address))
    }

    fn take(&mut self, ip_request: &'a IpRequest, block: &AddressBlock<'_>, address: Ipv4Addr) {
        self.taken.insert(address, &ip_request.key);
        let share = Assignment::Address {
            block: block.id.to_owned(),
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
            let share = of_own(ip_request, block, |address| {
                self.is_reserved(address, ip_request)
            });
            self.set(ip_request, share);
        }
    }

    /// The same of an address of a shared block.
    fn keep_shared(&mut self, ip_request: &'a IpRequest, address: Ipv4Addr) {
        if let Some(block) = self.shared_with(address)
            && !self.is_anothers(address, ip_request)
            && !self.is_reserved(address, ip_request)
        {
            self.take(ip_request, block, address);
        }
    }

    /// Whether a machine has an address that a Service does not show.
    fn is_reserved(&self, address: Ipv4Addr, ip_request: &IpRequest) -> bool {
        ip_request.published != Some(address) && (self.pool.reserved)(address)
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
                _ if self.is_reserved(wish, ip_request) => {
                    self.set(ip_request, Assignment::Refused(a_machines(wish)));
                }
                _ => self.take(ip_request, block, wish),
            }
            return;
        }
        let mut others = self.pool.blocks.iter();
        let share = match others.find(|block| block.cidr.contains(&wish)) {
            None => {
                // What it had here can be another's once its status does not show it any more.
                let in_use = ip_request.in_use();
                self.taken.retain(|address, holder| {
                    **holder != ip_request.key || in_use.contains(&Some(*address))
                });
                Assignment::Foreign(wish)
            }
            Some(block) => Assignment::Refused(not_to_be_had(wish, block)),
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
            Some((block, address)) if self.pool.shares => {
                self.take(ip_request, block, address);
            }
            _ => self.set(ip_request, Assignment::Nothing),
        }
    }

    /// What is known of an address of ours that is in none of our blocks. `None`: its block is being
    /// given back.
    fn gone(&self, address: Ipv4Addr) -> Option<Assignment> {
        let mut all = self.pool.blocks.iter();
        let block = match all.find(|block| block.cidr.contains(&address)) {
            Some(block) if block.holder == BlockHolder::Unclear => block.id,
            Some(_) => return None,
            None => match (self.pool.elsewhere)(address) {
                Some(block) => block,
                None => return Some(Assignment::Missing(address)),
            },
        };
        Some(Assignment::Untagged {
            block: block.to_owned(),
            address,
        })
    }

    /// A free address: of a block that works before one that does not yet, and of the fullest of
    /// them, so that the others can be given back when their Services go.
    fn free(&self) -> Option<(&'a AddressBlock<'a>, Ipv4Addr)> {
        let fit = self.shared().filter(|block| block.is_fit);
        let with_room = fit.filter_map(|block| {
            let is_free = |address: &Ipv4Addr| {
                !self.taken.contains_key(address) && !(self.pool.reserved)(*address)
            };
            let mut free = usable(block.cidr).filter(is_free);
            let address = free.next()?;
            let left = free.count();
            Some((
                (!block.works, left, block.created, block.id),
                block,
                address,
            ))
        });
        let best = with_room.min_by(|(a, ..), (b, ..)| a.cmp(b));
        best.map(|(_, block, address)| (block, address))
    }

    fn end(mut self) -> Allocation {
        let used: BTreeSet<&str> = self
            .result
            .shares
            .values()
            .filter_map(|share| match share {
                Assignment::Address { block, .. } => Some(&**block),
                _ => None,
            })
            .collect();
        let is_held = |block: &AddressBlock<'_>| {
            let mut taken = self.taken.keys();
            taken.any(|address| block.cidr.contains(address))
        };
        let unused = self.shared();
        let unused = unused.filter(|block| !used.contains(block.id) && !is_held(block));
        let unused = unused.map(|block| block.id.to_owned()).collect();
        let idle = self.own.iter().filter(|(key, block)| {
            // Who is refused keeps what it has.
            let share = self.result.shares.get(**key);
            !used.contains(block.id) && !matches!(share, Some(Assignment::Refused(_)))
        });
        let idle: Vec<_> = idle
            .map(|(key, block)| (block.id.to_owned(), (*key).clone()))
            .collect();
        self.result.unused = unused;
        self.result.doubles.extend(idle);
        let requests = self.pool.requests.iter();
        let in_use: Vec<_> = requests.filter_map(|request| request.published).collect();
        self.result.doubles.retain(|id, _| {
            let mut blocks = self.pool.blocks.iter();
            let block = blocks.find(|block| block.id == id);
            !block.is_some_and(|block| in_use.iter().any(|address| block.cidr.contains(address)))
        });
        self.result
    }
}

/// Why an address of a block is not given to a Service that asks for it.
fn not_to_be_had(wish: Ipv4Addr, block: &AddressBlock<'_>) -> String {
    let AddressBlock { id, cidr, .. } = block;
    match block.holder {
        BlockHolder::Service(other) => format!(
            "spec.loadBalancerIP: {wish} is in the IP block {id} ({cidr}), which the Service {other} has \
             for itself; ask for another address, or for none"
        ),
        BlockHolder::Shared => format!(
            "spec.loadBalancerIP: {wish} is the network's own, its router's or the broadcast address of \
             the IP block {id} ({cidr}); ask for one between them, or for none"
        ),
        BlockHolder::Released | BlockHolder::Unclear => format!(
            "spec.loadBalancerIP: {wish} is in the IP block {id} ({cidr}), which is given to nobody, by \
             its tags; ask for another address, or for none"
        ),
    }
}

/// Why an address that a machine has is not given to a Service that asks for it.
fn a_machines(wish: Ipv4Addr) -> String {
    format!(
        "spec.loadBalancerIP: {wish} is an address of a server; ask for another address, or for none"
    )
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

/// What a Service has of a block that is its own: what it has or asks for, else the third, else the first
/// that no machine has.
fn of_own(
    ip_request: &IpRequest,
    block: &AddressBlock<'_>,
    is_reserved: impl Fn(Ipv4Addr) -> bool,
) -> Assignment {
    let is_usable = |address: &Ipv4Addr| is_usable(block.cidr, *address);
    let is_free = |address: &Ipv4Addr| is_usable(address) && !is_reserved(*address);
    let AddressBlock { id, cidr, .. } = block;
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
    if let Some(wish) = ip_request.wish().filter(|wish| is_reserved(*wish)) {
        return Assignment::Refused(a_machines(wish));
    }
    let known = [
        ip_request.asked,
        ip_request.given,
        ip_request.recorded,
        ip_request.published,
    ];
    let known = known.into_iter().flatten().find(is_free);
    let third = third(*cidr).filter(is_free);
    match known.or(third).or_else(|| usable(*cidr).find(is_free)) {
        Some(address) => Assignment::Address {
            block: (*id).to_owned(),
            address,
        },
        None => Assignment::Refused(format!(
            "the IP block {id} ({cidr}) has no address for a Service"
        )),
    }
}
