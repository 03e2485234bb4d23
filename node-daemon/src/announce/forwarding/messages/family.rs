//! What differs between IPv4 and IPv6.

use std::net::IpAddr;

/// The types of keys, which only `nft` looks at.
const TYPE_IPV4: u32 = 7;
const TYPE_IPV6: u32 = 8;
const TYPE_PROTOCOL: u32 = 12;
const TYPE_SERVICE: u32 = 13;

/// One family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub(super) const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    pub(super) const fn digit(self) -> char {
        match self {
            Self::V4 => '4',
            Self::V6 => '6',
        }
    }

    /// In network byte order, as `meta protocol` has it.
    pub(super) const fn ethertype(self) -> [u8; 2] {
        match self {
            Self::V4 => [0x08, 0x00],
            Self::V6 => [0x86, 0xdd],
        }
    }

    pub(super) const fn address_length(self) -> u32 {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Where source, destination and protocol are in the header.
    pub(super) const fn offsets(self) -> (u32, u32, u32) {
        match self {
            Self::V4 => (12, 16, 9),
            Self::V6 => (8, 24, 6),
        }
    }

    pub(super) const fn address_type(self) -> u32 {
        match self {
            Self::V4 => TYPE_IPV4,
            Self::V6 => TYPE_IPV6,
        }
    }

    /// Addresses, protocol, ports, each in whole registers.
    pub(super) const fn flow_length(self) -> u32 {
        2 * self.address_length() + 12
    }

    pub(super) fn flow_type(self) -> u32 {
        let address = self.address_type();
        let parts = [address, address, TYPE_PROTOCOL, TYPE_SERVICE, TYPE_SERVICE];
        parts.iter().fold(0, |all, part| all << 6 | part)
    }
}
