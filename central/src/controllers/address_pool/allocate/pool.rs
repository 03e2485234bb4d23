//! Where addresses come from.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use kube::core::{Selector, SelectorExt as _};
use mooring_common::address_range::AddressRange;
use mooring_common::l2_network::{Allocation, Segment};

use super::{Family, Namespace, Request};

/// Where addresses come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pool {
    /// The L2Network's name, or what a pool without one is called.
    pub network: String,
    /// Its name in the L2Network; empty: it has none.
    pub name: String,
    /// Its addresses.
    pub ranges: Vec<AddressRange>,
    /// Which pool is allocated from first: the lowest; `None`: last.
    pub priority: Option<u16>,
    /// Whether only those are given its addresses that ask for them.
    pub on_request: bool,
    /// Which namespaces may have some of them: those that all of these select.
    pub allowed_namespaces: Vec<Selector>,
    /// Which Services may, by their labels; `None`: all.
    pub allowed_services: Option<Selector>,
    /// Whether IPv4 addresses that end with .0 or .255 are left out.
    pub avoids_buggy: bool,
    /// Whether Nodes announce them that are excluded from load balancers by their label.
    pub includes_excluded: bool,
    /// How many of the addresses of its L2Network one namespace may have.
    pub max_per_namespace: Option<u32>,
    /// Whether Services of different namespaces may share one of them.
    pub shares_across_namespaces: bool,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.network)?;
        if self.name.is_empty() {
            return Ok(());
        }
        write!(f, "/{}", self.name)
    }
}

impl Pool {
    /// A pool for everybody.
    #[must_use]
    pub fn new(network: impl Into<String>, ranges: Vec<AddressRange>) -> Self {
        Self {
            network: network.into(),
            ranges,
            ..Self::default()
        }
    }

    /// The pools of an L2Network.
    pub fn of(segment: &Segment) -> impl Iterator<Item = Self> {
        segment.pools.iter().map(|pool| {
            let of_segment = segment.allowed_namespaces.iter();
            let namespaces = of_segment.chain(&pool.allowed_namespaces);
            Self {
                network: segment.name.clone(),
                name: pool.name.clone(),
                ranges: pool.ranges.clone(),
                priority: pool.priority,
                on_request: pool.allocation == Allocation::OnRequest,
                allowed_namespaces: namespaces.cloned().collect(),
                allowed_services: pool.allowed_services.clone(),
                avoids_buggy: pool.avoids_buggy,
                includes_excluded: segment.includes_excluded,
                max_per_namespace: segment.max_addresses_per_namespace,
                shares_across_namespaces: segment.shares_across_namespaces,
            }
        })
    }

    /// How many addresses of a family its ranges have, without those that are left out.
    pub(super) fn size(&self, family: Family) -> i64 {
        let of_family = self.ranges.iter();
        let of_family = of_family.filter(|range| Family::of(range.first()) == family);
        let sizes = of_family.map(|range| range.size() - self.left_out_of(range));
        sizes.fold(0, i64::saturating_add)
    }

    /// Of each 256 addresses, the first and the last.
    fn left_out_of(&self, range: &AddressRange) -> i64 {
        let (IpAddr::V4(first), IpAddr::V4(last)) = (range.first(), range.last()) else {
            return 0;
        };
        let before = |end: i64| end / 256 * 2 + i64::from(end % 256 > 0);
        let left_out = before(i64::from(last.to_bits()) + 1) - before(i64::from(first.to_bits()));
        if self.avoids_buggy { left_out } else { 0 }
    }

    /// What pools are sorted by: the first is allocated from first.
    #[must_use]
    pub fn order(&self) -> (u32, &str, &str) {
        let priority = self.priority.map_or(u32::MAX, u32::from);
        (priority, &self.network, &self.name)
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address)) && !self.leaves_out(address)
    }

    pub(super) fn has_all(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().all(|address| self.contains(*address))
    }

    /// Whether an address of its ranges is not given out for how it ends.
    pub(super) fn leaves_out(&self, address: IpAddr) -> bool {
        let ends = |v4: Ipv4Addr| matches!(v4.octets()[3], 0 | 255);
        self.avoids_buggy && matches!(address, IpAddr::V4(v4) if ends(v4))
    }

    /// Whether it is what a request asks for, as far as that names a network or a pool.
    pub(super) fn is_named_by(&self, request: &Request) -> bool {
        let is_or_none =
            |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|asked| asked == name);
        is_or_none(&request.network, &self.network) && is_or_none(&request.pool, &self.name)
    }

    /// Whether its addresses are given to whoever asks so.
    pub(super) fn is_open_to(&self, request: &Request) -> bool {
        !self.on_request || request.pool.is_some() || !request.addresses.is_empty()
    }

    /// Whether the namespace may have addresses of it; one whose labels are not known may not.
    pub(super) fn allows(&self, namespace: &Namespace) -> bool {
        let mut selectors = self.allowed_namespaces.iter();
        match namespace {
            Namespace::Known(labels) => selectors.all(|selector| selector.matches(labels)),
            Namespace::NotListed | Namespace::Absent => selectors.next().is_none(),
        }
    }

    /// Whether a Service with these labels may have addresses of it.
    pub(super) fn allows_service(&self, labels: &BTreeMap<String, String>) -> bool {
        let selector = self.allowed_services.as_ref();
        selector.is_none_or(|selector| selector.matches(labels))
    }
}

#[cfg(test)]
mod tests;
