//! Which VLAN interfaces this Node is to have: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mooring_common::l2_network::Segment;

use crate::wire::links::{Link, Vlan, choose_parent};

/// One VLAN interface that is to be there, for one L2Network or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedVlan {
    /// The interface below, already chosen, and the id.
    pub vlan: Vlan,
    /// The MTU in bytes: the least that an L2Network asks for, and no more than the parent's.
    pub mtu: u32,
    /// The L2Networks that need it, by name.
    pub segments: BTreeSet<String>,
    /// The subnets, each with its router, if it has one.
    pub subnets: BTreeMap<IpNet, Option<IpAddr>>,
    /// Whether an IPv6 subnet is among those of the L2Networks.
    pub ipv6: bool,
}

/// What is wanted, and of which L2Networks nothing can be, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The interfaces.
    pub vlans: BTreeMap<Vlan, WantedVlan>,
    /// By L2Network, what is wrong and what to do.
    pub faults: BTreeMap<String, String>,
}

/// Finds the parents of the segments that have a VLAN, and joins those that share an interface.
#[must_use]
pub fn resolve<'a>(segments: impl IntoIterator<Item = &'a Segment>, links: &[Link]) -> Wanted {
    let mut wanted = Wanted::default();
    for segment in segments {
        let Some(id) = segment.vlan else { continue };
        let parent = match choose_parent(segment, links) {
            Ok(parent) => parent,
            Err(error) => {
                wanted
                    .faults
                    .insert(segment.name.clone(), error.to_string());
                continue;
            }
        };
        if !parent.stack.set_up {
            wanted.faults.insert(
                segment.name.clone(),
                format!(
                    "interface {:?}, which VLAN {id} is on, is down; set it up",
                    parent.name
                ),
            );
        }
        let vlan = Vlan {
            parent: parent.index,
            id,
        };
        let most = parent.stack.mtu;
        let mtu = segment.mtu.map_or(most, |mtu| most.min(mtu.into()));
        let entry = wanted.vlans.entry(vlan).or_insert_with(|| WantedVlan {
            vlan,
            mtu,
            segments: BTreeSet::new(),
            subnets: BTreeMap::new(),
            ipv6: false,
        });
        entry.mtu = entry.mtu.min(mtu);
        entry.segments.insert(segment.name.clone());
        for (subnet, router) in &segment.subnets {
            entry.ipv6 |= matches!(subnet, IpNet::V6(_));
            let known = entry.subnets.entry(subnet.trunc()).or_default();
            *known = known.or(*router);
        }
    }
    wanted
}
