//! What the addresses of a block are for.
//!
//! The first is the block's own, the second the cloud's router, the last the broadcast address.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

/// The router of a block.
fn gateway(block: Ipv4Net) -> Option<Ipv4Addr> {
    nth(block, 1)
}

/// The address of a block that has a Service of its own: the third.
pub(super) fn third(block: Ipv4Net) -> Option<Ipv4Addr> {
    nth(block, 2).filter(|address| is_usable(block, *address))
}

/// The addresses that Services can have, the lowest first.
pub fn usable(block: Ipv4Net) -> impl Iterator<Item = Ipv4Addr> {
    let first = u32::from(block.network()).saturating_add(2);
    let last = u32::from(block.broadcast());
    (first..last).map(Ipv4Addr::from)
}

/// Whether a Service can have this address of the block.
pub fn is_usable(block: Ipv4Net, address: Ipv4Addr) -> bool {
    let number = u32::from(address);
    block.contains(&address)
        && number >= u32::from(block.network()).saturating_add(2)
        && number < u32::from(block.broadcast())
}

/// How many Services a block of this prefix length has addresses for.
pub fn capacity(prefix: u8) -> usize {
    let addresses = 1_usize
        .checked_shl(u32::from(32_u8.saturating_sub(prefix)))
        .unwrap_or(usize::MAX);
    addresses.saturating_sub(3)
}

/// What an L2Network says of these blocks, on this VLAN. `None`: there is nothing to announce (yet).
pub fn l2_network(vlan: Option<u16>, blocks: impl Iterator<Item = Ipv4Net>) -> Option<Value> {
    let mut cidrs: Vec<Ipv4Net> = blocks.map(|cidr| cidr.trunc()).collect();
    cidrs.sort_unstable();
    let subnet = |cidr: &Ipv4Net| {
        let gateway = gateway(*cidr)?;
        Some(json!({"cidr": cidr.to_string(), "gateway": gateway.to_string()}))
    };
    let range = |cidr: &Ipv4Net| {
        let (first, last) = (usable(*cidr).next()?, usable(*cidr).last()?);
        Some(format!("{first}-{last}"))
    };
    let subnets: Vec<Value> = cidrs.iter().filter_map(subnet).collect();
    let ranges: Vec<String> = cidrs.iter().filter_map(range).collect();
    if ranges.is_empty() {
        return None;
    }
    Some(json!({"vlan": vlan?, "subnets": subnets, "ranges": ranges}))
}

fn nth(block: Ipv4Net, n: u32) -> Option<Ipv4Addr> {
    let address = u32::from(block.network()).checked_add(n)?;
    Some(Ipv4Addr::from(address)).filter(|address| block.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    #[test]
    fn gives_third_address_never_router_or_ends() {
        let small = block("203.0.113.8/29");
        assert_eq!(third(small), Some(Ipv4Addr::new(203, 0, 113, 10)));
        assert_eq!(gateway(small), Some(Ipv4Addr::new(203, 0, 113, 9)));
        let all: Vec<u8> = usable(small).map(|address| address.octets()[3]).collect();
        assert_eq!(all, [10, 11, 12, 13, 14]);
        for number in 0..=255 {
            let address = Ipv4Addr::new(203, 0, 113, number);
            assert_eq!(
                is_usable(small, address),
                all.contains(&number),
                "{address}"
            );
        }
    }

    #[test]
    fn capacity_counts_usable_addresses() {
        for prefix in 22..=32 {
            let block = Ipv4Net::new(Ipv4Addr::new(203, 0, 112, 0), prefix).unwrap();
            assert_eq!(usable(block).count(), capacity(prefix), "/{prefix}");
        }
        assert_eq!((capacity(29), capacity(28)), (5, 13));
    }

    #[test]
    fn cidr_with_host_bits_gives_same_block() {
        assert_eq!(
            third(block("203.0.113.11/29")),
            third(block("203.0.113.8/29"))
        );
        assert_eq!(third(block("203.0.113.8/31")), None);
        assert_eq!(third(block("255.255.255.255/32")), None);
    }
}
