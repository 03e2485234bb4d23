//! A range of IP addresses, as written in an `L2Network` or in the machines file.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// All addresses from a first to a last one of the same family, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

/// Why a text is no address range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address range; {remedy}")]
pub struct AddressRangeError {
    /// What was written.
    pub text: String,
    /// What to write instead.
    pub remedy: &'static str,
}

impl AddressRange {
    /// The first address.
    #[must_use]
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// The last address.
    #[must_use]
    pub const fn last(&self) -> IpAddr {
        self.last
    }

    /// Whether the address is in the range.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Whether an address is in both ranges.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.first <= other.last
            && other.first <= self.last
    }

    /// Whether the range holds IPv4 addresses.
    #[must_use]
    pub const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// How many addresses it has; the most that an `i64` can say, if there are more.
    #[must_use]
    pub fn size(&self) -> i64 {
        let beyond = match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => u128::from(last.to_bits() - first.to_bits()),
            (IpAddr::V6(first), IpAddr::V6(last)) => last.to_bits() - first.to_bits(),
            _ => 0,
        };
        i64::try_from(beyond).unwrap_or(i64::MAX).saturating_add(1)
    }

    /// What is left of ranges when others are taken out.
    #[must_use]
    pub fn without(ranges: &[Self], others: &[Self]) -> Vec<Self> {
        others.iter().fold(ranges.to_vec(), |left, other| {
            left.iter().flat_map(|range| range.minus(other)).collect()
        })
    }

    fn minus(&self, other: &Self) -> Vec<Self> {
        if !self.overlaps(other) {
            return vec![*self];
        }
        let before = (self.first < other.first).then(|| Self {
            first: self.first,
            last: predecessor(other.first),
        });
        let after = successor(other.last).filter(|_| other.last < self.last);
        let after = after.map(|first| Self {
            first,
            last: self.last,
        });
        before.into_iter().chain(after).collect()
    }

    /// Every address, from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        self.iter_from(self.first)
    }

    /// Every address, from this one of them to the last.
    pub fn iter_from(&self, first: IpAddr) -> impl Iterator<Item = IpAddr> + use<> {
        let last = self.last;
        std::iter::successors(Some(first), move |address| {
            (*address < last).then(|| successor(*address)).flatten()
        })
    }
}

fn successor(address: IpAddr) -> Option<IpAddr> {
    Some(match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits().checked_add(1)?)),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits().checked_add(1)?)),
    })
}

/// The address before one that is not the first of its family.
const fn predecessor(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits().saturating_sub(1))),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits().saturating_sub(1))),
    }
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    /// Reads `192.0.2.16/28`, `2001:db8::100/120` or `192.0.2.10-192.0.2.20`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |remedy| AddressRangeError {
            text: text.to_owned(),
            remedy,
        };
        if let Some((first, last)) = text.split_once('-') {
            let (Ok(first), Ok(last)) = (
                first.trim().parse::<Ipv4Addr>(),
                last.trim().parse::<Ipv4Addr>(),
            ) else {
                return Err(error(
                    "with a dash, write two IPv4 addresses (192.0.2.10-192.0.2.20); for IPv6 use \
                     a CIDR block (2001:db8::100/120)",
                ));
            };
            if last < first {
                return Err(error("the first address must not be above the last"));
            }
            return Ok(Self {
                first: first.into(),
                last: last.into(),
            });
        }
        let block: IpNet = text.trim().parse().map_err(|_| {
            error("write a CIDR block (192.0.2.16/28) or two addresses (192.0.2.10-192.0.2.20)")
        })?;
        if block.addr() != block.network() {
            return Err(error("the address of a CIDR block must be its first one"));
        }
        let last = match block {
            IpNet::V4(v4) => IpAddr::V4(v4.broadcast()),
            IpNet::V6(v6) => IpAddr::V6(v6.broadcast()),
        };
        Ok(Self {
            first: block.network(),
            last,
        })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_blocks_and_pairs() {
        let block: AddressRange = "192.0.2.16/30".parse().unwrap();
        let addresses: Vec<_> = block.iter().map(|a| a.to_string()).collect();
        assert_eq!(
            addresses,
            ["192.0.2.16", "192.0.2.17", "192.0.2.18", "192.0.2.19"]
        );
        let pair: AddressRange = "192.0.2.254-192.0.3.1".parse().unwrap();
        assert_eq!(pair.iter().count(), 4);
        let v6: AddressRange = "2001:db8::fffe/127".parse().unwrap();
        assert_eq!(v6.iter().count(), 2);
    }

    #[test]
    fn takes_ranges_out_of_ranges() {
        let range = |text: &str| text.parse::<AddressRange>().unwrap();
        let shown = |ranges: &[&str], others: &[&str]| {
            let all = |texts: &[&str]| texts.iter().map(|text| range(text)).collect::<Vec<_>>();
            let left = AddressRange::without(&all(ranges), &all(others));
            left.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let whole = ["192.0.2.0/29"];
        assert_eq!(shown(&whole, &[]), ["192.0.2.0-192.0.2.7"]);
        assert_eq!(
            shown(
                &whole,
                &[
                    "192.0.2.2-192.0.2.3",
                    "192.0.2.7-192.0.2.9",
                    "2001:db8::/64"
                ]
            ),
            ["192.0.2.0-192.0.2.1", "192.0.2.4-192.0.2.6"]
        );
        assert!(shown(&whole, &["192.0.2.0/24"]).is_empty());
        let last = ["255.255.255.252/30"];
        assert_eq!(
            shown(&last, &["255.255.255.255/32"]),
            ["255.255.255.252-255.255.255.254"]
        );
        assert_eq!(range("192.0.2.0/29").size(), 8);
        assert_eq!(range("2001:db8::/64").size(), i64::MAX);
    }

    #[test]
    fn iteration_ends_at_last_address() {
        let last: AddressRange = "255.255.255.254/31".parse().unwrap();
        assert_eq!(last.iter().count(), 2);
    }

    #[test]
    fn families_do_not_overlap() {
        let v4: AddressRange = "0.0.0.0/0".parse().unwrap();
        let v6: AddressRange = "::/0".parse().unwrap();
        assert!(!v4.overlaps(&v6) && !v4.contains("::1".parse().unwrap()));
    }

    #[test]
    fn rejects_invalid_range_with_remedy() {
        for text in [
            "",
            "192.0.2.1",
            "192.0.2.9-192.0.2.1",
            "::1-::2",
            "192.0.2.1/24",
            "a/b",
            "-",
        ] {
            let error = text.parse::<AddressRange>().unwrap_err();
            assert!(!error.remedy.is_empty() && error.to_string().contains(&format!("{text:?}")));
        }
    }
}
