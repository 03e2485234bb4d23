//! Addresses that no Service can have, whatever range they are in.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use mooring_common::k8s::ObjectKey;
use mooring_common::l2_network;

use super::{Allocations, State};

/// Addresses of L2Networks that no Service can have: the network's name, and why.
pub type ReservedAddresses = HashMap<IpAddr, (String, l2_network::Reserved)>;

/// Whose an address is that no Service can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It has another use in an L2Network.
    Network {
        /// The L2Network's name.
        name: String,
        /// Which.
        why: l2_network::Reserved,
    },
    /// It is an address of a Node.
    Node {
        /// The Node's name.
        name: String,
    },
}

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { name, why } => write!(f, "{why} in L2Network {name}"),
            Self::Node { name } => write!(f, "an address of Node {name}"),
        }
    }
}

impl State {
    pub(super) fn is_reserved(&self, address: IpAddr) -> bool {
        self.reserved.contains_key(&address) || self.nodes.contains_key(&address)
    }

    pub(super) fn reserved(&self, address: IpAddr) -> Option<Reserved> {
        if let Some((name, why)) = self.reserved.get(&address) {
            let (name, why) = (name.clone(), *why);
            return Some(Reserved::Network { name, why });
        }
        let name = self.nodes.get(&address)?.first()?.clone();
        Some(Reserved::Node { name })
    }
}

impl Allocations {
    /// A Node has these addresses now, and had those before. Gives the Services that hold one of them.
    pub fn node_changed(&self, name: &str, old: &[IpAddr], new: &[IpAddr]) -> Vec<ObjectKey> {
        let mut state = self.lock();
        for address in old {
            if let Some(names) = state.nodes.get_mut(address) {
                names.retain(|known| known != name);
                if names.is_empty() {
                    state.nodes.remove(address);
                }
            }
        }
        for address in new {
            let names = state.nodes.entry(*address).or_default();
            names.push(name.to_owned());
        }
        let mut changed = old.iter().chain(new);
        if changed.any(|address| state.pools.iter().any(|pool| pool.contains(*address))) {
            state.look_for_fresh();
        }
        let holders = old.iter().chain(new);
        let holders = holders.filter_map(|address| state.by_address.get(address));
        holders.flatten().cloned().collect()
    }

    /// Whether all of these are addresses of Nodes.
    #[must_use]
    pub fn are_of_nodes(&self, addresses: &[IpAddr]) -> bool {
        let state = self.lock();
        let mut each = addresses.iter();
        !addresses.is_empty() && each.all(|address| state.nodes.contains_key(address))
    }

    /// An address of a Service that is somebody else's by now, and whose.
    #[must_use]
    pub fn conflict(&self, key: &ObjectKey) -> Option<(IpAddr, Reserved)> {
        let state = self.lock();
        let mut addresses = state.held.get(key)?.addresses.iter();
        addresses.find_map(|address| Some((*address, state.reserved(*address)?)))
    }
}
