//! Which addresses were never given out: what is before the first of them is not looked at again, so that
//! an address costs the same whether many or few have one.

use std::net::IpAddr;

use mooring_common::address_range::AddressRange;

use super::{Pool, State};

/// The part of a range that was never given out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    /// Its first address; whatever is before it is given out, or was, or cannot be.
    next: Option<IpAddr>,
    /// How many addresses were looked at for that.
    #[cfg(test)]
    pub(super) looks: usize,
}

impl Fresh {
    pub(super) const fn next(&self) -> Option<IpAddr> {
        self.next
    }
}

impl State {
    /// The pools are others than before, or what of them can be given out.
    pub(super) fn look_for_fresh(&mut self) {
        let pools = self.pools.iter();
        let ranges = pools.flat_map(|pool| pool.ranges.iter().map(move |range| (pool, range)));
        let fresh = ranges.map(|(pool, range)| {
            let fresh = Fresh {
                next: Some(range.first()),
                #[cfg(test)]
                looks: 0,
            };
            (*range, self.advanced(fresh, pool, range))
        });
        self.fresh = fresh.collect();
    }

    /// This address is given out now.
    pub(super) fn is_given(&mut self, address: IpAddr) {
        let mut advanced = Vec::new();
        for pool in &self.pools {
            for range in &pool.ranges {
                let fresh = self.fresh.get(range).copied();
                if let Some(fresh) = fresh.filter(|fresh| fresh.next == Some(address)) {
                    advanced.push((*range, self.advanced(fresh, pool, range)));
                }
            }
        }
        self.fresh.extend(advanced);
    }

    fn advanced(&self, fresh: Fresh, pool: &Pool, range: &AddressRange) -> Fresh {
        let Some(from) = fresh.next else {
            return fresh;
        };
        let is_fresh = |address: &IpAddr| {
            !self.is_reserved(*address)
                && !pool.leaves_out(*address)
                && !self.by_address.contains_key(address)
                && !self.released.contains_key(address)
        };
        #[cfg(test)]
        let looks = {
            let mut all = range.iter_from(from);
            fresh.looks + all.position(|a| is_fresh(&a)).map_or(1, |at| at + 1)
        };
        Fresh {
            next: range.iter_from(from).find(is_fresh),
            #[cfg(test)]
            looks,
        }
    }
}
