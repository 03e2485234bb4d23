//! Which blocks of the cluster CIDR are free. Pure.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// A cluster CIDR, cut into blocks of one size, and which of them are taken.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    cluster: Ipv4Net,
    mask: u8,
    /// Runs of taken blocks: the first of each, and the one after its last. They do not touch each other.
    taken: BTreeMap<u64, u64>,
}

impl Pool {
    /// All are free. `mask` is not shorter than the prefix of `cluster`.
    pub(super) fn new(cluster: Ipv4Net, mask: u8) -> Self {
        Self {
            cluster: cluster.trunc(),
            mask,
            taken: BTreeMap::new(),
        }
    }

    /// How many blocks there are.
    pub(super) fn size(&self) -> u64 {
        1 << u32::from(self.mask.saturating_sub(self.cluster.prefix_len()))
    }

    /// How many of them are taken.
    pub(super) fn used(&self) -> u64 {
        self.taken.iter().map(|(first, end)| end - first).sum()
    }

    /// Takes the last block.
    pub(super) fn take_last(&mut self) {
        self.take(self.size() - 1, self.size());
    }

    /// Takes all blocks that share an address with this range, which may lie elsewhere.
    pub(super) fn occupy(&mut self, range: Ipv4Net) {
        let block = u64::from(32 - self.mask);
        let first = u64::from(u32::from(self.cluster.network()));
        let last = u64::from(u32::from(self.cluster.broadcast()));
        let from = u64::from(u32::from(range.network())).max(first);
        let to = u64::from(u32::from(range.broadcast())).min(last);
        if from <= to {
            self.take((from - first) >> block, ((to - first) >> block) + 1);
        }
    }

    /// Takes the next free block after `cursor` blocks, going around, so that a block that has just become
    /// free is given away last. Gives the block, and the cursor after it.
    pub(super) fn next(&mut self, cursor: u64) -> Option<(Ipv4Net, u64)> {
        let index = self
            .free_from(cursor % self.size())
            .or_else(|| self.free_from(0))?;
        self.take(index, index + 1);
        let offset = index << u32::from(32 - self.mask);
        let address = u64::from(u32::from(self.cluster.network())) + offset;
        let address = Ipv4Addr::from(u32::try_from(address).ok()?);
        Some((Ipv4Net::new(address, self.mask).ok()?, index + 1))
    }

    fn free_from(&self, index: u64) -> Option<u64> {
        let before = self.taken.range(..=index).next_back();
        let free = before.map_or(index, |(_, end)| index.max(*end));
        (free < self.size()).then_some(free)
    }

    fn take(&mut self, mut first: u64, mut end: u64) {
        while let Some((start, stop)) = self.taken.range(..=end).next_back().map(|(a, b)| (*a, *b))
        {
            if stop < first {
                break;
            }
            self.taken.remove(&start);
            (first, end) = (first.min(start), end.max(stop));
        }
        self.taken.insert(first, end);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn pool(cluster: &str, mask: u8) -> Pool {
        Pool::new(cluster.parse().unwrap(), mask)
    }

    fn next(pool: &mut Pool, cursor: u64) -> String {
        pool.next(cursor)
            .map_or("none".to_owned(), |(block, _)| block.to_string())
    }

    #[test]
    fn gives_every_block_once_and_no_other() {
        let mut pool = pool("10.0.0.0/22", 24);
        let mut cursor = 3;
        let mut given = Vec::new();
        while let Some((block, after)) = pool.next(cursor) {
            given.push(block.to_string());
            cursor = after;
        }
        assert_eq!(
            given,
            ["10.0.3.0/24", "10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]
        );
        assert_eq!((pool.used(), pool.size()), (4, 4));
    }

    #[test]
    fn occupied_ranges_of_any_size_take_what_they_touch() {
        let mut pool = pool("10.0.0.0/21", 24);
        for range in [
            "10.0.0.128/25",
            "10.0.1.0/24",
            "10.0.2.0/23",
            "10.1.0.0/16",
            "192.0.2.0/24",
        ] {
            pool.occupy(range.parse().unwrap());
        }
        assert_eq!(pool.used(), 4);
        assert_eq!(next(&mut pool, 0), "10.0.4.0/24");
        pool.occupy("10.0.0.0/8".parse().unwrap());
        assert_eq!((pool.used(), next(&mut pool, 0)), (8, "none".to_owned()));
    }

    #[test]
    fn last_block_can_be_kept() {
        let mut pool = pool("10.0.0.0/23", 24);
        pool.take_last();
        assert_eq!(next(&mut pool, 1), "10.0.0.0/24");
        assert_eq!(next(&mut pool, 1), "none");
    }

    #[test]
    fn ends_of_the_address_space_are_no_exception() {
        let mut all = pool("0.0.0.0/0", 32);
        assert_eq!(all.size(), 1 << 32);
        assert_eq!(next(&mut all, u64::from(u32::MAX)), "255.255.255.255/32");
        assert_eq!(next(&mut all, u64::from(u32::MAX)), "0.0.0.0/32");
        let mut one = pool("255.255.255.0/24", 24);
        assert_eq!(next(&mut one, 7), "255.255.255.0/24");
    }

    proptest::proptest! {
        /// The runs are what a plain set of blocks would be.
        #[test]
        fn runs_are_a_set(ranges in proptest::collection::vec((0u32..256, 0u32..6), 0..40)) {
            let mut pool = pool("10.0.0.0/16", 24);
            let mut set = BTreeSet::new();
            for (block, size) in ranges {
                let range = Ipv4Net::new(Ipv4Addr::from((10 << 24) | (block << 8)), 24 - u8::try_from(size).unwrap());
                let range = range.unwrap().trunc();
                pool.occupy(range);
                let first = (u32::from(range.network()) >> 8) & 0xff;
                set.extend(first..first + (1 << size));
            }
            proptest::prop_assert_eq!(pool.used(), u64::try_from(set.len()).unwrap());
            let free = (0..256u32).find(|block| !set.contains(block));
            let free = free.map_or("none".to_owned(), |block| format!("10.0.{block}.0/24"));
            proptest::prop_assert_eq!(next(&mut pool, 0), free);
        }
    }
}
