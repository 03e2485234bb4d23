//! Gives out addresses: in memory, under one lock, so that no two Services get the same but by the rules
//! of [`sharing`].
//!
//! What is given out is written on the Service by the service controller. After a restart, and
//! whenever this process begins to lead, every Service is read from the API server before the
//! first address is given out ([`Allocations::seed`]).

mod find;
mod fresh;
mod pool;
mod reserved;
mod sharing;
mod unavailable;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooring_common::address_range::AddressRange;
use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::AddressCounts;
use tokio::sync::watch;

use fresh::Fresh;
pub use pool::Pool;
pub use reserved::{Reserved, ReservedAddresses};
pub use sharing::{Backends, Collision, Port, SharingTerms, Unshareable, Violation};
pub use unavailable::Unavailable;

/// What a Service has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The L2Network's name, or what a pool without one is called.
    pub network: String,
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
    /// From this L2Network only.
    pub network: Option<String>,
    /// From this pool of an L2Network only.
    pub pool: Option<String>,
    /// The annotation that says so, where it is not Mooring's own.
    pub pool_annotation: Option<&'static str>,
    /// These addresses and no others.
    pub addresses: Vec<IpAddr>,
    /// What is known of its namespace.
    pub namespace: Namespace,
    /// Its own labels.
    pub labels: BTreeMap<String, String>,
}

/// What is known of the namespace that a Service is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Namespace {
    /// Nothing: the API server has not listed the namespaces.
    #[default]
    NotListed,
    /// It is not among them (yet).
    Absent,
    /// Its labels.
    Known(BTreeMap<String, String>),
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

/// Who has which address.
#[derive(Debug, Default)]
pub struct Allocations {
    state: Mutex<State>,
    pools_known: watch::Sender<bool>,
    seeded: AtomicBool,
}

/// What is known of one Service at the start.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The Service.
    pub key: ObjectKey,
    /// What the annotations on it say that it holds, if it bears our finalizer too. A user can have
    /// written both.
    pub recorded: Option<Held>,
    /// The addresses in its status, which no user can write.
    pub status: Vec<IpAddr>,
    /// What is known of its namespace.
    pub namespace: Namespace,
    /// Its own labels.
    pub labels: BTreeMap<String, String>,
    /// With whom it can share addresses; `None`: it is another implementation's.
    pub terms: Option<SharingTerms>,
}

impl Claim {
    /// Whether central has given it what is recorded: the status says the same. Otherwise the record
    /// is a wish.
    fn is_proven(&self) -> bool {
        let recorded = self.recorded.as_ref();
        recorded.is_some_and(|held| held.addresses == self.status)
    }
}

#[derive(Debug, Default)]
struct State {
    pools: Vec<Pool>,
    /// The names of all L2Networks, ready or not.
    networks: HashSet<String>,
    /// What of them no Service can have.
    reserved: ReservedAddresses,
    /// The addresses of Nodes, which no Service can have either, each with the Nodes that have it.
    nodes: HashMap<IpAddr, Vec<String>>,
    /// What each Service is to have.
    held: HashMap<ObjectKey, Held>,
    /// Addresses that are not free, with the Services that have each, the first one in front: those held,
    /// those that a Service is about to give up but may still show in its status, and those that somebody
    /// else has put into a status.
    by_address: HashMap<IpAddr, Vec<ObjectKey>>,
    /// The same, by Service.
    occupied: HashMap<ObjectKey, HashSet<IpAddr>>,
    /// With whom each Service of ours can share addresses.
    terms: HashMap<ObjectKey, SharingTerms>,
    /// When an address came back, as a running number: those that came back last are given out
    /// last, so that a node that still announces one does not meet its new owner.
    released: HashMap<IpAddr, u64>,
    /// The same, in this order.
    by_release: BTreeMap<u64, IpAddr>,
    releases: u64,
    /// Of each range of a pool, what was never given out.
    fresh: HashMap<AddressRange, Fresh>,
}

impl Allocations {
    /// Replaces the pools, those to be allocated from first in front. `networks`: the names of all
    /// L2Networks, ready or not; `reserved`: their addresses that no Service can have. True if anything
    /// has changed.
    pub fn set_pools(
        &self,
        pools: Vec<Pool>,
        networks: HashSet<String>,
        reserved: ReservedAddresses,
    ) -> bool {
        let changed = {
            let mut state = self.lock();
            let changed =
                state.pools != pools || state.networks != networks || state.reserved != reserved;
            state.pools = pools;
            state.networks = networks;
            state.reserved = reserved;
            if changed {
                state.look_for_fresh();
            }
            changed
        };
        self.pools_known.send_replace(true);
        changed
    }

    /// Waits until [`Self::set_pools`] was called once.
    pub async fn pools_known(&self) {
        let mut known = self.pools_known.subscribe();
        // The sender lives in self, so it cannot be gone.
        let _ = known.wait_for(|known| *known).await;
    }

    /// Whether an L2Network may be used from some namespaces only.
    #[must_use]
    pub fn asks_for_namespaces(&self) -> bool {
        let state = self.lock();
        let mut pools = state.pools.iter();
        pools.any(|pool| !pool.allowed_namespaces.is_empty())
    }

    /// Takes note of what Services have according to the API server, the oldest first.
    ///
    /// What a status shows goes to nobody else. A record that the status confirms counts, whatever has
    /// become of the L2Network. Any other may have been written by whoever may write the Service: it
    /// gets the Service what that could have asked for. An address that two claim stays with the first, unless
    /// they share it.
    pub fn seed(&self, claims: &[Claim]) {
        let mut state = self.lock();
        for claim in claims {
            state.occupy(&claim.key, &claim.status);
            if let Some(terms) = claim.terms.clone() {
                state.terms.insert(claim.key.clone(), terms);
            }
        }
        let (proven, wished): (Vec<&Claim>, Vec<&Claim>) =
            claims.iter().partition(|claim| claim.is_proven());
        for Claim { key, recorded, .. } in proven {
            let may_stay = |held: &&Held| {
                let mut addresses = held.addresses.iter();
                addresses
                    .all(|address| state.may_keep(key, *address) && !state.is_reserved(*address))
            };
            if let Some(held) = recorded.as_ref().filter(may_stay).cloned() {
                state.hold(key.clone(), held);
            }
        }
        for claim in wished {
            let may_have =
                |held: &&Held| state.may_have(&claim.key, held, &claim.namespace, &claim.labels);
            if let Some(held) = claim.recorded.as_ref().filter(may_have).cloned() {
                state.hold(claim.key.clone(), held);
            }
        }
        self.seeded.store(true, Ordering::Release);
    }

    /// Whether [`Self::seed`] was called, so that counts are true.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        self.seeded.load(Ordering::Acquire)
    }

    /// Takes note that a Service which is not ours has these addresses, and holds nothing. True if it
    /// had any other, which others may have now.
    pub fn leave(&self, key: &ObjectKey, addresses: &[IpAddr]) -> bool {
        let mut state = self.lock();
        state.held.remove(key);
        state.occupy(key, addresses);
        state.vacate_all_but(key, addresses)
    }

    /// Lets a Service hold the addresses in its status, of which it has no record: if they are a pool's, and
    /// nobody else's with whom it cannot share them. Rules of the pool about namespaces and Services do not
    /// count, as for all that a Service has already; no user can write a status.
    #[must_use]
    pub fn adopt(&self, key: &ObjectKey, addresses: &[IpAddr]) -> Option<Held> {
        let mut state = self.lock();
        let families: HashSet<Family> = addresses.iter().map(|a| Family::of(*a)).collect();
        let mut each = addresses.iter();
        if families.len() != addresses.len() || !each.all(|one| state.may_keep(key, *one)) {
            return None;
        }
        let mut pools = state.pools.iter();
        let pool = pools.find(|pool| state.offers(pool, addresses))?;
        let held = Held {
            network: pool.network.clone(),
            addresses: addresses.to_vec(),
        };
        state.hold(key.clone(), held.clone());
        Some(held)
    }

    /// What a Service holds.
    #[must_use]
    pub fn held(&self, key: &ObjectKey) -> Option<Held> {
        self.lock().held.get(key).cloned()
    }

    /// Whether the addresses of an L2Network are announced by Nodes too that are excluded from load balancers.
    #[must_use]
    pub fn includes_excluded(&self, network: &str) -> bool {
        let state = self.lock();
        let mut pools = state.pools.iter().filter(|pool| pool.network == network);
        pools.any(|pool| pool.includes_excluded)
    }

    /// How many addresses of an L2Network are held.
    #[must_use]
    pub fn used(&self, network: &str) -> i64 {
        let state = self.lock();
        let held = state.held.values().filter(|held| held.network == network);
        let addresses: HashSet<&IpAddr> = held.flat_map(|held| &held.addresses).collect();
        i64::try_from(addresses.len()).unwrap_or(i64::MAX)
    }

    /// How many addresses of a family an L2Network has; `None`: none.
    #[must_use]
    pub fn counts(&self, network: &str, family: Family) -> Option<AddressCounts> {
        let state = self.lock();
        let pools = state.pools.iter().filter(|pool| pool.network == network);
        let counts = state.count(&pools.collect::<Vec<_>>(), family);
        (counts != AddressCounts::default()).then_some(counts)
    }

    /// Gives a Service what it wants. What it holds stays its own as long as it fits the request; so
    /// does what `recorded` says that it held, if it can be had.
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
        let recorded = recorded.map(|held| state.at_home(held));
        let current = match state.held.get(key) {
            Some(held) => Some(state.at_home(held)),
            None => recorded
                .filter(|held| state.may_have(key, held, &request.namespace, &request.labels)),
        };
        if let Some(current) = &current
            && fits(current, request)
            && state.is_of_pool(current, request)
        {
            state.hold(key.clone(), current.clone());
            return Ok(current.clone());
        }
        let found = state.find(key, request, current.as_ref())?;
        state.hold(key.clone(), found.clone());
        Ok(found)
    }

    /// The Service's status says what it holds. Only now may others have the addresses that it had
    /// before. True if it had any.
    pub fn settle(&self, key: &ObjectKey) -> bool {
        let mut state = self.lock();
        let keep = state.held.get(key).map(|held| held.addresses.clone());
        state.vacate_all_but(key, &keep.unwrap_or_default())
    }

    /// Takes back what a Service holds. True if it had any address.
    pub fn release(&self, key: &ObjectKey) -> bool {
        self.set_terms(key, None);
        self.leave(key, &[])
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
        && request
            .network
            .as_ref()
            .is_none_or(|pool| *pool == held.network)
        && request
            .addresses
            .iter()
            .all(|address| held.addresses.contains(address))
}

impl State {
    /// Whether a Service that holds nothing could be given this.
    fn may_have(
        &self,
        key: &ObjectKey,
        held: &Held,
        namespace: &Namespace,
        labels: &BTreeMap<String, String>,
    ) -> bool {
        let mut pools = self.pools.iter();
        pools
            .find(|pool| pool.network == held.network && pool.has_all(&held.addresses))
            .is_some_and(|pool| {
                let mut addresses = held.addresses.iter();
                addresses.all(|address| self.may_keep_or_join(key, *address))
                    && self.offers(pool, &held.addresses)
                    && pool.allows(namespace)
                    && pool.allows_service(labels)
                    && self
                        .room(pool, key)
                        .is_none_or(|room| room.has_place(&held.addresses))
            })
    }

    /// Whether what is held is of the pool that is asked for, if one is.
    fn is_of_pool(&self, held: &Held, request: &Request) -> bool {
        let mut named = self.pools.iter().filter(|pool| pool.is_named_by(request));
        request.pool.is_none() || named.any(|pool| pool.has_all(&held.addresses))
    }

    /// Whether all of these can be had of the pool, by whoever may.
    fn offers(&self, pool: &Pool, addresses: &[IpAddr]) -> bool {
        let mut each = addresses.iter();
        pool.has_all(addresses) && !each.any(|address| self.is_reserved(*address))
    }

    fn occupy(&mut self, key: &ObjectKey, addresses: &[IpAddr]) {
        for address in addresses {
            let own = self.occupied.entry(key.clone()).or_default();
            if !own.insert(*address) {
                continue;
            }
            if let Some(release) = self.released.remove(address) {
                self.by_release.remove(&release);
            }
            let occupants = self.by_address.entry(*address).or_default();
            occupants.push(key.clone());
            self.is_given(*address);
        }
    }

    fn hold(&mut self, key: ObjectKey, held: Held) {
        self.occupy(&key, &held.addresses);
        self.held.insert(key, held);
    }

    fn vacate_all_but(&mut self, key: &ObjectKey, keep: &[IpAddr]) -> bool {
        let mut own = self.occupied.remove(key).unwrap_or_default();
        let gone: Vec<IpAddr> = own.extract_if(|address| !keep.contains(address)).collect();
        if !own.is_empty() {
            self.occupied.insert(key.clone(), own);
        }
        for address in &gone {
            if let Some(occupants) = self.by_address.get_mut(address) {
                occupants.retain(|occupant| occupant != key);
                if !occupants.is_empty() {
                    continue;
                }
            }
            self.by_address.remove(address);
            self.releases += 1;
            self.released.insert(*address, self.releases);
            self.by_release.insert(self.releases, *address);
        }
        !gone.is_empty()
    }

    /// The same addresses, but of the pool that has them now, if their L2Network is gone: it may
    /// have been given another name.
    fn at_home(&self, held: &Held) -> Held {
        let mut held = held.clone();
        let gone = !self.networks.contains(&held.network) && !self.has_network(&held.network);
        let heir = self.pools.iter().find(|pool| pool.has_all(&held.addresses));
        if let (true, Some(heir)) = (gone, heir) {
            held.network.clone_from(&heir.network);
        }
        held
    }

    fn has_network(&self, name: &str) -> bool {
        self.pools.iter().any(|pool| pool.network == name)
    }
}

#[cfg(test)]
mod tests;
