//! Which addresses a Service gets that has none yet, or not those that it wants.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::AddressCounts;

use super::{Family, Held, Namespace, Pool, Request, State, Unavailable};

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
        for pool in &pools {
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
                Unavailable::NoSuchPool {
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
        let mut addresses = Vec::new();
        let mut lacking = None;
        for family in &request.families {
            if let Some(max) = self.exceeded(pool, key, addresses.len() + 1) {
                lacking = lacking.or(Some(Lack::Room(max)));
                continue;
            }
            let of_family = |a: &&IpAddr| Family::of(**a) == *family;
            let asked = request.addresses.iter().find(of_family);
            let kept = current
                .filter(|held| held.network == pool.network && pool.has_all(&held.addresses))
                .and_then(|held| held.addresses.iter().find(of_family))
                .filter(|address| self.are_free(key, &[**address]));
            match asked
                .or(kept)
                .copied()
                .or_else(|| self.next_free(pool, *family))
            {
                Some(address) => addresses.push(address),
                None => lacking = Some(Lack::Address(*family)),
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

    /// The greatest number of addresses of the pool that the namespace may have, if the Service would
    /// exceed it with so many.
    pub(super) fn exceeded(&self, pool: &Pool, key: &ObjectKey, wanted: usize) -> Option<u32> {
        let max = pool.max_per_namespace?;
        let others = self.held.iter().filter(|(other, held)| {
            other.namespace == key.namespace && *other != key && held.network == pool.network
        });
        let held: usize = others.map(|(_, held)| held.addresses.len()).sum();
        (held + wanted > usize::try_from(max).unwrap_or(usize::MAX)).then_some(max)
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
