//! Ranges as MetalLB and kube-vip write them, and as an L2Network does.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use mooring_common::address_range::AddressRange;

/// Reads `192.0.2.0/24`, `192.0.2.10 - 192.0.2.20` or `2001:db8::1-2001:db8::9`. A block may be written with
/// any of its addresses.
pub(super) fn parse(text: &str) -> Option<Vec<AddressRange>> {
    let (first, last) = match text.split_once('-') {
        None => {
            let block = text.trim().parse::<IpNet>().ok()?;
            (block.network(), block.broadcast())
        }
        Some((first, last)) => (first.trim().parse().ok()?, last.trim().parse().ok()?),
    };
    between(first, last)
}

/// All addresses from the first to the last.
pub(super) fn between(first: IpAddr, last: IpAddr) -> Option<Vec<AddressRange>> {
    if last < first {
        return None;
    }
    let texts = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => vec![format!("{first}-{last}")],
        (IpAddr::V6(first), IpAddr::V6(last)) => Ipv6Subnets::new(first, last, 0)
            .map(|block| block.to_string())
            .collect(),
        _ => return None,
    };
    texts.iter().map(|text| text.parse().ok()).collect()
}

/// The addresses of a subnet.
pub(super) fn of_subnet(subnet: IpNet) -> Vec<AddressRange> {
    between(subnet.network(), subnet.broadcast()).unwrap_or_default()
}

/// What is in both.
pub(super) fn common(one: &[AddressRange], other: &[AddressRange]) -> Vec<AddressRange> {
    AddressRange::without(one, &AddressRange::without(one, other))
}

/// Joins ranges that overlap or touch, in their order.
pub(super) fn joined(ranges: &[AddressRange]) -> Vec<AddressRange> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| (range.first(), range.last()));
    let mut all: Vec<(IpAddr, IpAddr)> = Vec::new();
    for range in sorted {
        match all.last_mut() {
            Some((_, last)) if touches(*last, &range) => *last = (*last).max(range.last()),
            _ => all.push((range.first(), range.last())),
        }
    }
    let all = all
        .into_iter()
        .filter_map(|(first, last)| between(first, last));
    all.flatten().collect()
}

fn touches(last: IpAddr, next: &AddressRange) -> bool {
    match (last, next.first()) {
        (IpAddr::V4(last), IpAddr::V4(first)) => {
            first.to_bits() <= last.to_bits().saturating_add(1)
        }
        (IpAddr::V6(last), IpAddr::V6(first)) => {
            first.to_bits() <= last.to_bits().saturating_add(1)
        }
        _ => false,
    }
}

/// As an L2Network writes it: a block where it is one, else from first to last; several blocks where an IPv6 range
/// is none.
pub(super) fn spelled(range: &AddressRange) -> Vec<String> {
    match (range.first(), range.last()) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let blocks: Vec<_> = Ipv4Subnets::new(first, last, 0).take(2).collect();
            match blocks.as_slice() {
                [block] => vec![block.to_string()],
                _ => vec![range.to_string()],
            }
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => Ipv6Subnets::new(first, last, 0)
            .map(|block| block.to_string())
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respelled(texts: &[&str]) -> Vec<String> {
        let all: Vec<_> = texts.iter().flat_map(|text| parse(text).unwrap()).collect();
        joined(&all).iter().flat_map(spelled).collect()
    }

    #[test]
    fn ranges_of_both_families_are_respelled() {
        assert_eq!(respelled(&["192.0.2.77/28"]), ["192.0.2.64/28"]);
        assert_eq!(
            respelled(&["192.0.2.10 - 192.0.2.12"]),
            ["192.0.2.10-192.0.2.12"]
        );
        assert_eq!(respelled(&["192.0.2.16-192.0.2.31"]), ["192.0.2.16/28"]);
        assert_eq!(
            respelled(&["2001:db8::1-2001:db8::4"]),
            ["2001:db8::1/128", "2001:db8::2/127", "2001:db8::4/128"]
        );
        assert_eq!(
            respelled(&["192.0.2.1/32", "192.0.2.0/32", "192.0.2.0/31"]),
            ["192.0.2.0/31"]
        );
        assert_eq!(
            respelled(&["255.255.255.255/32", "::/128"]),
            ["255.255.255.255/32", "::/128"]
        );
        for wrong in ["192.0.2.1", "192.0.2.9-192.0.2.1", "192.0.2.1-::9", "x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn common_addresses() {
        let all = |text: &str| parse(text).unwrap();
        assert_eq!(
            common(&all("192.0.2.0/24"), &all("192.0.2.250-192.0.3.9")),
            all("192.0.2.250-192.0.2.255")
        );
        assert!(common(&all("192.0.2.0/24"), &all("::/0")).is_empty());
    }
}
