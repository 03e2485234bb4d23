//! Gives out addresses: in memory, under one lock, so that no two Services get the same.
//!
//! What is given out is written on the Service by the service controller. After a restart, and
//! whenever this process begins to lead, every Service is read from the API server before the
//! first address is given out ([`Allocations::seed`]).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use mooring_common::address_range::AddressRange;
use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::Segment;

/// Where addresses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The L2Network's name, or what a pool without one is called.
    pub name: String,
    /// Its addresses.
    pub ranges: Vec<AddressRange>,
    /// Those that no Service can have: routers, and the first and last address of an IPv4 subnet.
    pub unusable: HashSet<IpAddr>,
}

impl Pool {
    /// The addresses of an L2Network.
    #[must_use]
    pub fn of(segment: &Segment) -> Self {
        let mut unusable = HashSet::new();
        for (subnet, gateway) in &segment.subnets {
            unusable.extend(gateway);
            match subnet {
                IpNet::V4(v4) if v4.prefix_len() < 31 => {
                    unusable.insert(v4.network().into());
                    unusable.insert(v4.broadcast().into());
                }
                IpNet::V4(_) => {}
                IpNet::V6(v6) => {
                    unusable.insert(v6.network().into());
                }
            }
        }
        Self {
            name: segment.name.clone(),
            ranges: segment.ranges.clone(),
            unusable,
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address)) && !self.unusable.contains(&address)
    }
}

/// What a Service has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The pool's name.
    pub pool: String,
    /// At most one address of each family, in the order of the Service's families.
    pub addresses: Vec<IpAddr>,
}

/// What a Service wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether an IPv4 address is wanted, then whether an IPv6 one; in the Service's order.
    pub families: Vec<Family>,
    /// Whether all families must be had, or one of them will do.
    pub all_families: bool,
    /// From this pool only.
    pub pool: Option<String>,
    /// These addresses and no others.
    pub addresses: Vec<IpAddr>,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }
}

/// Why a Service gets no address, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// There is nothing to allocate from.
    #[error(
        "this cluster has no L2Network that is ready, so there are no addresses; create one \
         (kubectl explain l2networks.spec), or look at kubectl get l2networks"
    )]
    NoPools,
    /// The pool asked for is not there, or not ready.
    #[error(
        "there is no L2Network {name:?} that is ready; choose one of {} in the annotation \
         mooring.dev/l2-network, or leave it out", known.join(", ")
    )]
    NoSuchPool {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// An address asked for is in no pool.
    #[error(
        "the requested address {address} is in no range of an L2Network that is ready; ask for \
         another, or add it to the ranges"
    )]
    Outside {
        /// The address.
        address: IpAddr,
    },
    /// An address asked for is another Service's.
    #[error("the requested address {address} is held by Service {by}; ask for another one")]
    Taken {
        /// The address.
        address: IpAddr,
        /// Who has it.
        by: ObjectKey,
    },
    /// All addresses are held.
    #[error(
        "no free {family} address is left in {}; add a range to an L2Network, or delete a \
         Service that needs none", pools.join(", ")
    )]
    Exhausted {
        /// The family that is lacking.
        family: &'static str,
        /// Where was looked.
        pools: Vec<String>,
    },
}

impl Unavailable {
    /// Whether another Service's deletion can change it.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Taken { .. } | Self::Exhausted { .. })
    }
}

/// Who has which address.
#[derive(Debug, Default)]
pub struct Allocations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pools: Vec<Pool>,
    held: HashMap<ObjectKey, Held>,
    by_address: HashMap<IpAddr, ObjectKey>,
    /// When an address came back, as a running number: those that came back last are given out
    /// last, so that a node that still announces one does not meet its new owner.
    released: HashMap<IpAddr, u64>,
    releases: u64,
}

impl Allocations {
    /// Replaces the pools. True if they have changed.
    pub fn set_pools(&self, mut pools: Vec<Pool>) -> bool {
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        let mut state = self.lock();
        let changed = state.pools != pools;
        state.pools = pools;
        changed
    }

    /// Takes note of what Services hold according to the API server, the oldest first. An address
    /// that two claim stays with the first.
    pub fn seed(&self, services: impl IntoIterator<Item = (ObjectKey, Held)>) {
        let mut state = self.lock();
        for (key, held) in services {
            if held
                .addresses
                .iter()
                .all(|address| !state.by_address.contains_key(address))
            {
                state.hold(key, held);
            }
        }
    }

    /// What a Service holds.
    #[must_use]
    pub fn held(&self, key: &ObjectKey) -> Option<Held> {
        self.lock().held.get(key).cloned()
    }

    /// How many addresses of a pool are held.
    #[must_use]
    pub fn used(&self, pool: &str) -> i64 {
        let state = self.lock();
        let held = state.held.values().filter(|held| held.pool == pool);
        i64::try_from(held.map(|held| held.addresses.len()).sum::<usize>()).unwrap_or(i64::MAX)
    }

    /// Gives a Service what it wants. What it holds, or what `recorded` says that it held, stays
    /// its own as long as it fits the request.
    ///
    /// # Errors
    /// [`Unavailable`]; the Service then keeps what it holds.
    pub fn allocate(
        &self,
        key: &ObjectKey,
        request: &Request,
        recorded: Option<&Held>,
    ) -> Result<Held, Unavailable> {
        let mut state = self.lock();
        let free = |held: &&Held| {
            held.addresses
                .iter()
                .all(|a| state.by_address.get(a).is_none_or(|by| by == key))
        };
        let known = |held: &&Held| {
            state.pools.iter().any(|pool| {
                pool.name == held.pool && held.addresses.iter().all(|a| pool.contains(*a))
            })
        };
        let current = state
            .held
            .get(key)
            .or(recorded.filter(free).filter(known))
            .cloned();
        if let Some(current) = &current
            && fits(current, request)
        {
            state.hold(key.clone(), current.clone());
            return Ok(current.clone());
        }
        let found = state.find(key, request, current.as_ref())?;
        state.release(key);
        state.hold(key.clone(), found.clone());
        Ok(found)
    }

    /// Takes back what a Service holds. True if it held anything.
    pub fn release(&self, key: &ObjectKey) -> bool {
        self.lock().release(key)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fits(held: &Held, request: &Request) -> bool {
    let families: Vec<Family> = held.addresses.iter().map(|a| Family::of(*a)).collect();
    let enough = if request.all_families {
        families == request.families
    } else {
        !families.is_empty()
            && families
                .iter()
                .all(|family| request.families.contains(family))
    };
    enough
        && request.pool.as_ref().is_none_or(|pool| *pool == held.pool)
        && request
            .addresses
            .iter()
            .all(|address| held.addresses.contains(address))
}

impl State {
    fn hold(&mut self, key: ObjectKey, held: Held) {
        for address in &held.addresses {
            self.released.remove(address);
            self.by_address.insert(*address, key.clone());
        }
        self.held.insert(key, held);
    }

    fn release(&mut self, key: &ObjectKey) -> bool {
        let Some(held) = self.held.remove(key) else {
            return false;
        };
        for address in held.addresses {
            self.by_address.remove(&address);
            self.releases += 1;
            self.released.insert(address, self.releases);
        }
        true
    }

    fn find(
        &self,
        key: &ObjectKey,
        request: &Request,
        current: Option<&Held>,
    ) -> Result<Held, Unavailable> {
        if self.pools.is_empty() {
            return Err(Unavailable::NoPools);
        }
        let pools = self.candidates(key, request)?;
        let mut lacking = Family::V4;
        for pool in &pools {
            match self.find_in(pool, key, request, current) {
                Ok(held) => return Ok(held),
                Err(family) => lacking = family,
            }
        }
        Err(Unavailable::Exhausted {
            family: match lacking {
                Family::V4 => "IPv4",
                Family::V6 => "IPv6",
            },
            pools: pools.iter().map(|pool| pool.name.clone()).collect(),
        })
    }

    /// The pools that could serve the request.
    fn candidates(&self, key: &ObjectKey, request: &Request) -> Result<Vec<&Pool>, Unavailable> {
        let named: Vec<&Pool> = match &request.pool {
            None => self.pools.iter().collect(),
            Some(name) => self
                .pools
                .iter()
                .filter(|pool| pool.name == *name)
                .collect(),
        };
        if let (true, Some(name)) = (named.is_empty(), &request.pool) {
            let known = self.pools.iter().map(|pool| pool.name.clone()).collect();
            return Err(Unavailable::NoSuchPool {
                name: name.clone(),
                known,
            });
        }
        for address in &request.addresses {
            if !named.iter().any(|pool| pool.contains(*address)) {
                return Err(Unavailable::Outside { address: *address });
            }
            match self.by_address.get(address) {
                Some(by) if by != key => {
                    return Err(Unavailable::Taken {
                        address: *address,
                        by: by.clone(),
                    });
                }
                _ => {}
            }
        }
        let all = |pool: &&Pool| request.addresses.iter().all(|a| pool.contains(*a));
        Ok(named.into_iter().filter(all).collect())
    }

    /// One address of each family, or the family that is lacking.
    fn find_in(
        &self,
        pool: &Pool,
        key: &ObjectKey,
        request: &Request,
        current: Option<&Held>,
    ) -> Result<Held, Family> {
        let mut addresses = Vec::new();
        let mut lacking = None;
        for family in &request.families {
            let of_family = |a: &&IpAddr| Family::of(**a) == *family;
            let asked = request.addresses.iter().find(of_family);
            let kept = current
                .filter(|held| held.pool == pool.name)
                .and_then(|held| held.addresses.iter().find(of_family))
                .filter(|address| self.by_address.get(*address).is_none_or(|by| by == key));
            match asked
                .or(kept)
                .copied()
                .or_else(|| self.next_free(pool, *family))
            {
                Some(address) => addresses.push(address),
                None => lacking = Some(*family),
            }
        }
        match lacking {
            Some(family) if request.all_families || addresses.is_empty() => Err(family),
            _ => Ok(Held {
                pool: pool.name.clone(),
                addresses,
            }),
        }
    }

    /// The first address that was never given out, else the one that came back longest ago.
    fn next_free(&self, pool: &Pool, family: Family) -> Option<IpAddr> {
        let mut oldest: Option<(u64, IpAddr)> = None;
        let ranges = pool
            .ranges
            .iter()
            .filter(|range| Family::of(range.first()) == family);
        for address in ranges.flat_map(AddressRange::iter) {
            if pool.unusable.contains(&address) || self.by_address.contains_key(&address) {
                continue;
            }
            match self.released.get(&address) {
                None => return Some(address),
                Some(at) if oldest.is_none_or(|(oldest, _)| *at < oldest) => {
                    oldest = Some((*at, address));
                }
                Some(_) => {}
            }
        }
        oldest.map(|(_, address)| address)
    }
}

#[cfg(test)]
mod tests;
