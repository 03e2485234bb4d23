//! The addresses of a Node, in order, and the kubelet's word on them.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// What an address of a Node is for (`status.addresses[].type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AddressType {
    /// An address that the other Nodes reach.
    InternalIP,
    /// An address that the outside reaches.
    ExternalIP,
    /// The machine's own name.
    Hostname,
    /// A DNS name that the other Nodes resolve.
    InternalDNS,
    /// A DNS name that the outside resolves.
    ExternalDNS,
}

/// One entry of `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeAddress {
    /// What it is for.
    #[serde(rename = "type")]
    pub kind: AddressType,
    /// The address or name itself.
    pub address: String,
}

impl NodeAddress {
    /// An entry of this type.
    #[must_use]
    pub fn new(kind: AddressType, address: impl Into<String>) -> Self {
        Self {
            kind,
            address: address.into(),
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.address)
    }
}

/// Whether it can be the address of one machine that others reach: neither unspecified nor loopback, multicast,
/// broadcast or link-local.
#[must_use]
pub const fn is_of_one_host(address: IpAddr) -> bool {
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    let local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !special && !local
}

/// Why the kubelet's `--node-ip` cannot be satisfied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProvidedNodeIpError {
    /// The annotation is neither an address nor one of each family.
    #[error(
        "annotation alpha.kubernetes.io/provided-node-ip: {value:?} is neither one IP address nor \
         one of each family; correct the kubelet's --node-ip"
    )]
    Malformed {
        /// The annotation's value.
        value: String,
    },
    /// The machine has no such address.
    #[error(
        "annotation alpha.kubernetes.io/provided-node-ip: {address} is none of the machine's \
         addresses ({known}); correct the kubelet's --node-ip or the machine's addresses"
    )]
    Unknown {
        /// The address asked for.
        address: IpAddr,
        /// What the machine has, for the message.
        known: String,
    },
}

/// The addresses that a Node should report: those of its machine, narrowed by the kubelet's
/// `--node-ip`, and with the Node's own host name kept where the machine gives none.
///
/// Matching addresses come first, in the annotation's order; of each type that matched only the
/// matching ones stay; those of other types follow as they are (KEP-3705).
///
/// # Errors
/// [`ProvidedNodeIpError`] if the annotation cannot be read or names an address that the machine
/// does not have.
pub fn wanted(
    machine: &[NodeAddress],
    current: &[NodeAddress],
    provided_node_ip: Option<&str>,
) -> Result<Vec<NodeAddress>, ProvidedNodeIpError> {
    let mut all: Vec<NodeAddress> = Vec::with_capacity(machine.len() + 1);
    for address in machine {
        if !all.contains(address) {
            all.push(address.clone());
        }
    }
    if !all.iter().any(|a| a.kind == AddressType::Hostname) {
        all.extend(
            current
                .iter()
                .find(|a| a.kind == AddressType::Hostname)
                .cloned(),
        );
    }
    match provided_node_ip {
        None => Ok(all),
        Some(value) => narrow(&all, value),
    }
}

fn narrow(all: &[NodeAddress], value: &str) -> Result<Vec<NodeAddress>, ProvidedNodeIpError> {
    let mut matching: Vec<NodeAddress> = Vec::new();
    for wanted in parse_provided(value)? {
        let found = all
            .iter()
            .filter(|a| a.address.parse::<IpAddr>().is_ok_and(|ip| ip == wanted));
        let before = matching.len();
        matching.extend(found.cloned());
        if matching.len() == before {
            // Host names apart: the Node's own may be written a moment later, and the same fault
            // would be told once more in other words.
            let known = all
                .iter()
                .filter(|a| a.address.parse::<IpAddr>().is_ok())
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(ProvidedNodeIpError::Unknown {
                address: wanted,
                known,
            });
        }
    }
    let others: Vec<_> = all
        .iter()
        .filter(|a| !matching.iter().any(|m| m.kind == a.kind))
        .cloned()
        .collect();
    matching.extend(others);
    Ok(matching)
}

fn parse_provided(value: &str) -> Result<Vec<IpAddr>, ProvidedNodeIpError> {
    let malformed = || ProvidedNodeIpError::Malformed {
        value: value.to_owned(),
    };
    let addresses: Vec<IpAddr> = value
        .split(',')
        .map(|part| part.trim().parse().map_err(|_| malformed()))
        .collect::<Result<_, _>>()?;
    match addresses.as_slice() {
        [_] => Ok(addresses),
        [first, second] if first.is_ipv4() != second.is_ipv4() => Ok(addresses),
        _ => Err(malformed()),
    }
}

/// Whether two lists hold the same, in whatever order: clouds list addresses as it comes, and a
/// list that comes in another order tells nothing new.
#[must_use]
pub fn same_in_any_order(a: &[NodeAddress], b: &[NodeAddress]) -> bool {
    let sorted = |list: &[NodeAddress]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    sorted(a) == sorted(b)
}

/// Whether two lists hold the same, and the first of each type, the primary address, is the same
/// one too: for lists of which somebody has chosen the order.
#[must_use]
pub fn same(a: &[NodeAddress], b: &[NodeAddress]) -> bool {
    let primary = |list: &[NodeAddress], kind: AddressType| {
        list.iter()
            .find(|x| x.kind == kind)
            .map(|x| x.address.clone())
    };
    same_in_any_order(a, b)
        && [AddressType::InternalIP, AddressType::ExternalIP]
            .into_iter()
            .all(|kind| primary(a, kind) == primary(b, kind))
}

#[cfg(test)]
mod tests;
