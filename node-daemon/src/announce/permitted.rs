//! Whether an address that a Service's status claims may be announced: pure.
//!
//! Central checks what it gives. The daemons check once more, since whoever may write a Service's status
//! could otherwise have the address of any host on the segment answered for.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network::{self, Segment};

use crate::cluster::snapshot::{L2NetworkView, ServiceView, Snapshot};

/// Why an address is not announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is the router, or the end of a subnet.
    Reserved(l2_network::Reserved),
    /// It is an address of a Node.
    Node(String),
    /// It is in no subnet of the segment.
    OffSegment,
    /// It is in no range, and central has not recorded it.
    NotGiven,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(why) => write!(f, "it is {why} there"),
            Self::Node(name) => write!(f, "it is an address of Node {name}"),
            Self::OffSegment => f.write_str("it is in no subnet there"),
            Self::NotGiven => f.write_str("it is in no range there, and central has not given it"),
        }
    }
}

/// What the addresses on one segment are checked against.
pub struct Check<'a> {
    segment: &'a Segment,
    reserved: BTreeMap<IpAddr, l2_network::Reserved>,
    own_node: Option<&'a str>,
    own: Vec<IpAddr>,
    others: BTreeMap<IpAddr, &'a str>,
}

impl<'a> Check<'a> {
    /// What is known of a segment. The addresses of this daemon's own Node are known; of each other Node
    /// on the segment, where its daemon hears heartbeats.
    pub fn new(snapshot: &'a Snapshot, network: &'a L2NetworkView, segment: &'a Segment) -> Self {
        let node = snapshot.node.as_deref();
        let addresses = node.into_iter().flat_map(|node| &node.addresses);
        let others = network.others.iter();
        Self {
            segment,
            reserved: segment.reserved().collect(),
            own_node: node.map(|node| node.name.as_str()),
            own: addresses
                .filter_map(|address| address.address.parse().ok())
                .collect(),
            others: others
                .filter_map(|(name, other)| Some((other.address?, name.as_str())))
                .collect(),
        }
    }

    /// Why a Service may not have this address here.
    ///
    /// What central has recorded beside the status need not be in a range: a Service keeps what it has
    /// when a range is taken away. And if it is in a range, it counts before what another daemon says of
    /// its Node: the token of one daemon could silence every Service otherwise.
    #[must_use]
    pub fn refusal(&self, service: &ServiceView, address: IpAddr) -> Option<Refusal> {
        if let Some(why) = self.reserved.get(&address) {
            return Some(Refusal::Reserved(*why));
        }
        if self.own.contains(&address) {
            return Some(Refusal::Node(self.own_node.unwrap_or_default().to_owned()));
        }
        let mut subnets = self.segment.subnets.iter();
        if !subnets.any(|(subnet, _)| subnet.contains(&address)) {
            return Some(Refusal::OffSegment);
        }
        let recorded = service.recorded.contains(&address);
        let in_range = self.segment.contains(address);
        match self.others.get(&address) {
            Some(name) if !(recorded && in_range) => Some(Refusal::Node((*name).to_owned())),
            _ => (!recorded && !in_range).then_some(Refusal::NotGiven),
        }
    }
}

/// The addresses that are not announced, by segment and Service.
pub type RefusedAddresses = BTreeMap<(String, ObjectKey), BTreeMap<IpAddr, Refusal>>;

/// What is refused of what Services claim.
#[must_use]
pub fn refused(snapshot: &Snapshot) -> RefusedAddresses {
    let mut refused = RefusedAddresses::new();
    for (name, network) in snapshot.networks.iter() {
        let Ok(segment) = &network.segment else {
            continue;
        };
        let check = Check::new(snapshot, network, segment);
        for (key, service) in snapshot.services.iter() {
            if service.network.as_deref() != Some(name.name.as_str()) {
                continue;
            }
            let addresses = service.addresses.iter();
            let why: BTreeMap<_, _> = addresses
                .filter_map(|address| Some((*address, check.refusal(service, *address)?)))
                .collect();
            if !why.is_empty() {
                refused.insert((name.name.clone(), key.clone()), why);
            }
        }
    }
    refused
}

#[cfg(test)]
mod tests;
