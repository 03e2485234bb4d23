//! Which addresses a Service gets that has none yet, or not those that it wants.

use std::net::IpAddr;

use mooring_common::address_range::AddressRange;
use mooring_common::k8s::ObjectKey;

use super::{Family, Held, Pool, Request, State, Unavailable};

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
        let all = |pool: &&Pool| pool.has_all(&request.addresses);
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
                .filter(|address| self.are_free(key, &[**address]));
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
