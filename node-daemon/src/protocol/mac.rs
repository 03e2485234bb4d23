//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smoltcp::wire::EthernetAddress;

/// The address of a network interface on its segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac([u8; 6]);

/// A text that is no Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no MAC address; write it like 02:00:00:00:0a:0a")]
pub struct InvalidMac(String);

impl Mac {
    /// Every station of the segment.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// What an ARP request says where it does not know.
    pub const UNKNOWN: Self = Self([0; 6]);

    /// Takes the six bytes as they are on the wire.
    #[must_use]
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The six bytes, if there are six.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The six bytes as they are on the wire.
    #[must_use]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// Whether it can be the address of one station: neither a group's nor all zero.
    #[must_use]
    pub const fn is_station(self) -> bool {
        let [first, ..] = self.0;
        first & 1 == 0 && !matches!(self.0, [0, 0, 0, 0, 0, 0])
    }
}

impl From<Mac> for EthernetAddress {
    fn from(mac: Mac) -> Self {
        Self(mac.0)
    }
}

impl From<EthernetAddress> for Mac {
    fn from(address: EthernetAddress) -> Self {
        Self(address.0)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = InvalidMac;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidMac(text.to_owned());
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| {
                let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
                digits.then(|| u8::from_str_radix(part, 16).ok()).flatten()
            })
            .collect();
        bytes
            .as_deref()
            .and_then(Self::from_slice)
            .ok_or_else(invalid)
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let mac: Mac = "02:00:00:00:0A:0a".parse().unwrap();
        assert_eq!(mac, Mac::new([2, 0, 0, 0, 10, 10]));
        assert_eq!(mac.to_string(), "02:00:00:00:0a:0a");
        assert!(mac.is_station());
    }

    #[test]
    fn rejects_multicast_and_zero_mac() {
        assert!(!Mac::BROADCAST.is_station() && !Mac::UNKNOWN.is_station());
        assert!(!"33:33:00:00:00:01".parse::<Mac>().unwrap().is_station());
    }

    #[test]
    fn rejects_malformed_mac() {
        for text in [
            "",
            "02:00:00:00:0a",
            "2:0:0:0:a:a",
            "02-00-00-00-0a-0a",
            "+2:00:00:00:0a:0a",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text:?}");
        }
    }
}
