//! Where addresses come from.

use std::net::IpAddr;

use kube::core::{Selector, SelectorExt as _};
use mooring_common::address_range::AddressRange;
use mooring_common::l2_network::Segment;

use super::Namespace;

/// Where addresses come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// The L2Network's name, or what a pool without one is called.
    pub name: String,
    /// Its addresses.
    pub ranges: Vec<AddressRange>,
    /// Which namespaces may have some of them; `None`: all.
    pub allowed_namespaces: Option<Selector>,
    /// How many of them one namespace may have.
    pub max_per_namespace: Option<u32>,
}

impl Pool {
    /// A pool for everybody.
    #[must_use]
    pub fn new(name: impl Into<String>, ranges: Vec<AddressRange>) -> Self {
        Self {
            name: name.into(),
            ranges,
            allowed_namespaces: None,
            max_per_namespace: None,
        }
    }

    /// The addresses of an L2Network.
    #[must_use]
    pub fn of(segment: &Segment) -> Self {
        Self {
            allowed_namespaces: segment.allowed_namespaces.clone(),
            max_per_namespace: segment.max_addresses_per_namespace,
            ..Self::new(segment.name.as_str(), segment.ranges.clone())
        }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    pub(super) fn has_all(&self, addresses: &[IpAddr]) -> bool {
        addresses.iter().all(|address| self.contains(*address))
    }

    /// Whether the namespace may have addresses of it; one whose labels are not known may not.
    pub(super) fn allows(&self, namespace: &Namespace) -> bool {
        match (&self.allowed_namespaces, namespace) {
            (None, _) => true,
            (Some(selector), Namespace::Known(labels)) => selector.matches(labels),
            (Some(_), Namespace::NotListed | Namespace::Absent) => false,
        }
    }
}
