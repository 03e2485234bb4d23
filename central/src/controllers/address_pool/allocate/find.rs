//! Which addresses a Service gets that has none yet, or not those that it wants.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::AddressCounts;
use mooring_common::names::annotations;

use super::{Family, Held, Namespace, Pool, Request, State, Unavailable};

/// How many addresses of an L2Network a namespace may have.
pub(super) struct Room {
    max: u32,
    /// Those that other Services of it have.
    taken: HashSet<IpAddr>,
}

impl Room {
    /// Whether a Service of it may have these addresses.
    pub(super) fn has_place(&self, addresses: &[IpAddr]) -> bool {
        self.has_place_beside(addresses, 0)
    }

    /// Whether it may have these, and so many that nobody has.
    fn has_place_beside(&self, addresses: &[IpAddr], more: usize) -> bool {
        let mut all = self.taken.clone();
        all.extend(addresses);
        all.len() + more <= usize::try_from(self.max).unwrap_or(usize::MAX)
    }
}

/// What a pool lacks.
#[derive(Clone, Copy)]
enum Lack {
    /// A free address of this family.
    Address(Family),
    /// Room for the namespace, which may have so many.
    Room(u32),
}

impl State {
    pub(super) fn find(
        &self,
        key: &ObjectKey,
        request: &Request,
        current: Option<&Held>,
    ) -> Result<Held, Unavailable> {
        if self.pools.is_empty() {
            return Err(Unavailable::NoPools);
        }
        let pools = self.candidates(key, request)?;
        if pools.is_empty() {
            return Err(Unavailable::Apart {
                addresses: request.addresses.clone(),
            });
        }
        let mut lacking = Family::V4;
        let mut full = None;
        for pool in self.shared_first(&pools, key, request, current) {
            match self.find_in(pool, key, request, current) {
                Ok(held) => return Ok(held),
                Err(Lack::Address(family)) => lacking = family,
                Err(Lack::Room(max)) => full = full.or(Some((pool.network.clone(), max))),
            }
        }
        if let Some((network, max)) = full {
            return Err(Unavailable::NamespaceFull {
                namespace: key.namespace.clone(),
                network,
                max,
            });
        }
        Err(Unavailable::Exhausted {
            family: match lacking {
                Family::V4 => "IPv4",
                Family::V6 => "IPv6",
            },
            pools: pools
                .iter()
                .map(|pool| self.figures(pool, lacking))
                .collect(),
        })
    }

    /// Pools in the order in which they are tried: where a Service without an address could share one, it is
    /// to do that.
    fn shared_first<'a>(
        &self,
        pools: &[&'a Pool],
        key: &ObjectKey,
        request: &Request,
        current: Option<&Held>,
    ) -> Vec<&'a Pool> {
        let (mut first, others): (Vec<&Pool>, Vec<&Pool>) =
            pools.iter().copied().partition(|pool| {
                current.is_none()
                    && !self
                        .shareable(pool, key, request, &request.addresses)
                        .is_empty()
            });
        first.extend(others);
        first
    }

    /// `lan/gold (4 in all, 4 held)`
    fn figures(&self, pool: &Pool, family: Family) -> String {
        let AddressCounts { total, used, .. } = self.count(&[pool], family);
        format!("{pool} ({total} in all, {used} held)")
    }

    /// The pools that could serve the request.
    fn candidates(&self, key: &ObjectKey, request: &Request) -> Result<Vec<&Pool>, Unavailable> {
        let all = self.pools.iter();
        let named: Vec<&Pool> = all.filter(|pool| pool.is_named_by(request)).collect();
        if named.is_empty() {
            return Err(self.no_such(request));
        }
        for address in &request.addresses {
            if let Some(why) = self.reserved(*address) {
                return Err(Unavailable::Reserved {
                    address: *address,
                    why,
                });
            }
            if !named.iter().any(|pool| pool.contains(*address)) {
                return Err(Unavailable::Outside { address: *address });
            }
            self.may_join(key, *address)?;
        }
        let fits = |pool: &&Pool| pool.has_all(&request.addresses);
        let fit: Vec<&Pool> = named.into_iter().filter(fits).collect();
        let (fit, kept): (Vec<&Pool>, Vec<&Pool>) =
            fit.into_iter().partition(|pool| pool.is_open_to(request));
        if fit.is_empty() && !kept.is_empty() {
            return Err(Unavailable::OnRequest {
                pools: shown(&kept),
            });
        }
        let (fit, others): (Vec<&Pool>, Vec<&Pool>) = fit
            .into_iter()
            .partition(|pool| pool.allows_service(&request.labels));
        if fit.is_empty() && !others.is_empty() {
            return Err(Unavailable::NotSelected {
                pools: shown(&others),
            });
        }
        let (allowed, refused): (Vec<&Pool>, Vec<&Pool>) = fit
            .into_iter()
            .partition(|pool| pool.allows(&request.namespace));
        if allowed.is_empty() && !refused.is_empty() {
            return Err(not_allowed(key, &request.namespace, &refused));
        }
        Ok(allowed)
    }

    /// Which network or pool the request names that is not there.
    fn no_such(&self, request: &Request) -> Unavailable {
        match (&request.network, &request.pool) {
            (Some(name), _) if !self.has_network(name) => {
                let known: BTreeSet<String> =
                    self.pools.iter().map(|pool| pool.network.clone()).collect();
                Unavailable::NoSuchNetwork {
                    name: name.clone(),
                    known: known.into_iter().collect(),
                }
            }
            (_, pool) => {
                let named = self.pools.iter().filter(|pool| !pool.name.is_empty());
                let own = annotations::ADDRESS_POOL_REQUEST;
                Unavailable::NoSuchPool {
                    annotation: request.pool_annotation.unwrap_or(own),
                    name: pool.clone().unwrap_or_default(),
                    known: named.map(ToString::to_string).collect(),
                }
            }
        }
    }

    /// How many addresses of a family there are in pools.
    pub(super) fn count(&self, pools: &[&Pool], family: Family) -> AddressCounts {
        let is_of =
            |pool: &Pool, address: IpAddr| Family::of(address) == family && pool.contains(address);
        let in_pools = |address: IpAddr| pools.iter().any(|pool| is_of(pool, address));
        let reserved = self.reserved.keys().chain(self.nodes.keys());
        let reserved: HashSet<&IpAddr> = reserved.filter(|one| in_pools(**one)).collect();
        let taken = self.by_address.keys().filter(|one| in_pools(**one));
        let (used, lost): (Vec<&IpAddr>, Vec<&IpAddr>) =
            taken.partition(|address| !reserved.contains(*address));
        let sizes = pools.iter().map(|pool| pool.size(family));
        let total = sizes.fold(0, i64::saturating_add);
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let total = total.saturating_sub(whole(reserved.len()));
        AddressCounts {
            total,
            used: whole(used.len() + lost.len()),
            free: total.saturating_sub(whole(used.len())),
        }
    }

    /// One address of each family, or what is lacking.
    fn find_in(
        &self,
        pool: &Pool,
        key: &ObjectKey,
        request: &Request,
        current: Option<&Held>,
    ) -> Result<Held, Lack> {
        let of_pool = |held: &&Held| held.network == pool.network && pool.has_all(&held.addresses);
        let kept = current
            .filter(of_pool)
            .map(|held| held.addresses.as_slice());
        let kept = kept.unwrap_or_default();
        let mut fixed = request.addresses.clone();
        let wanted = |a: &&IpAddr| request.families.contains(&Family::of(**a));
        fixed.extend(kept.iter().filter(wanted));
        let shared = self.shareable(pool, key, request, &fixed);
        let room = self.room(pool, key);
        let mut addresses = Vec::new();
        let mut lacking = None;
        for family in &request.families {
            let known = request.addresses.iter().chain(kept).chain(&shared);
            let known = known.copied().find(|a| Family::of(*a) == *family);
            let found = known.or_else(|| self.next_free(pool, *family));
            let with: Vec<IpAddr> = addresses.iter().copied().chain(found).collect();
            let more = usize::from(found.is_none());
            match (&room, found) {
                (Some(room), _) if !room.has_place_beside(&with, more) => {
                    lacking = lacking.or(Some(Lack::Room(room.max)));
                }
                (_, Some(_)) => addresses = with,
                (_, None) => lacking = Some(Lack::Address(*family)),
            }
        }
        match lacking {
            Some(lack) if request.all_families || addresses.is_empty() => Err(lack),
            _ => Ok(Held {
                network: pool.network.clone(),
                addresses,
            }),
        }
    }

    /// What the namespace of a Service may have of the pool's L2Network, without what the Service itself has;
    /// `None`: any number. What several of its Services share counts once.
    pub(super) fn room(&self, pool: &Pool, key: &ObjectKey) -> Option<Room> {
        let max = pool.max_per_namespace?;
        let others = self.held.iter().filter(|(other, held)| {
            other.namespace == key.namespace && *other != key && held.network == pool.network
        });
        let taken = others.flat_map(|(_, held)| held.addresses.iter().copied());
        let taken = taken.collect();
        Some(Room { max, taken })
    }

    /// The first address that was never given out, else the one that came back longest ago.
    fn next_free(&self, pool: &Pool, family: Family) -> Option<IpAddr> {
        let ranges = pool.ranges.iter();
        let mut ranges = ranges.filter(|range| Family::of(range.first()) == family);
        let fresh = ranges.find_map(|range| self.fresh.get(range)?.next());
        let is_free = |address: &&IpAddr| {
            Family::of(**address) == family
                && pool.contains(**address)
                && !self.is_reserved(**address)
        };
        fresh.or_else(|| self.by_release.values().find(is_free).copied())
    }
}

fn shown(pools: &[&Pool]) -> Vec<String> {
    pools.iter().map(ToString::to_string).collect()
}

fn not_allowed(key: &ObjectKey, namespace: &Namespace, refused: &[&Pool]) -> Unavailable {
    let pools = shown(refused);
    let name = key.namespace.clone();
    match namespace {
        Namespace::Known(_) => Unavailable::NotAllowed {
            namespace: name,
            pools,
        },
        Namespace::Absent => Unavailable::NamespaceAbsent { namespace: name },
        Namespace::NotListed => Unavailable::NamespacesNotListed { pools },
    }
}
