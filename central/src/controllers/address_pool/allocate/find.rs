//! Which addresses a Service gets that has none yet, or not those that it wants.

use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;

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
                Err(Lack::Room(max)) => full = full.or(Some((pool.name.clone(), max))),
            }
        }
        if let Some((pool, max)) = full {
            return Err(Unavailable::NamespaceFull {
                namespace: key.namespace.clone(),
                pool,
                max,
            });
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
        let fit: Vec<&Pool> = named
            .into_iter()
            .filter(|pool| pool.has_all(&request.addresses))
            .collect();
        let (allowed, refused): (Vec<&Pool>, Vec<&Pool>) = fit
            .into_iter()
            .partition(|pool| pool.allows(&request.namespace));
        if allowed.is_empty() && !refused.is_empty() {
            return Err(not_allowed(key, &request.namespace, &refused));
        }
        Ok(allowed)
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
                .filter(|held| held.pool == pool.name)
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
                pool: pool.name.clone(),
                addresses,
            }),
        }
    }

    /// The greatest number of addresses of the pool that the namespace may have, if the Service would
    /// exceed it with so many.
    pub(super) fn exceeded(&self, pool: &Pool, key: &ObjectKey, wanted: usize) -> Option<u32> {
        let max = pool.max_per_namespace?;
        let others = self.held.iter().filter(|(other, held)| {
            other.namespace == key.namespace && *other != key && held.pool == pool.name
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

fn not_allowed(key: &ObjectKey, namespace: &Namespace, refused: &[&Pool]) -> Unavailable {
    let pools = refused.iter().map(|pool| pool.name.clone()).collect();
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
