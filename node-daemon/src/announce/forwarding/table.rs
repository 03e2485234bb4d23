//! What the nftables table is to say: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::protocol::mac::Mac;

/// How long an address stays in the kernel's table without a renewal.
pub const KERNEL_LEASE: Duration = Duration::from_secs(60);
/// The most connections that are known as this node's own, of each family. An entry takes some 100 bytes
/// of the kernel's memory, and only while there are as many.
pub const MOST_FLOWS: u32 = 262_144;
/// A connection of which only the SYN was seen is forgotten after that: a flood of them leaves soon.
pub const HALF_OPEN: Duration = Duration::from_secs(30);
/// A UDP flow of the former speaker that is silent for so long is over: as conntrack's own
/// `nf_conntrack_udp_timeout_stream`.
pub const UDP_SILENCE: Duration = Duration::from_secs(120);

/// The whole table: what is passed on by which interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Addresses that are treated alike.
    pub groups: Vec<Group>,
    /// How long a connection of this node is known after its last segment.
    pub known_for: Duration,
}

/// Addresses with the same former speaker and the same successor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The interface's name.
    pub device: String,
    /// Its MAC address: the source of what is passed on, so that switches learn nothing wrong.
    pub own: Mac,
    /// The former speaker's.
    pub former: Mac,
    /// Frames from these are served here, whatever they belong to: all members but the successor.
    pub never_from: BTreeSet<Mac>,
    /// Whether a UDP flow that is not known is taken for one of the former speaker.
    pub learns: bool,
    /// The addresses, each with how long the kernel passes on for it without a renewal.
    pub addresses: BTreeMap<IpAddr, Duration>,
}

/// A connection by its addresses and ports, as the client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// The client.
    pub source: IpAddr,
    /// The service address.
    pub destination: IpAddr,
    /// `IPPROTO_TCP` or `IPPROTO_UDP`.
    pub protocol: u8,
    /// The client's port.
    pub source_port: u16,
    /// The Service's port.
    pub destination_port: u16,
}

impl Table {
    /// Whether there is nothing to pass on.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The same but for time-outs, which are renewed anyway.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        let without_times = |table: &Self| {
            let groups = table.groups.iter().map(|group| Group {
                addresses: group
                    .addresses
                    .keys()
                    .map(|a| (*a, Duration::ZERO))
                    .collect(),
                ..group.clone()
            });
            (groups.collect::<Vec<_>>(), table.known_for)
        };
        without_times(self) != without_times(other)
    }
}
