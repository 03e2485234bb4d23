//! Ethernet frames, and the two kinds that matter here: ARP and neighbour advertisements.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::time::Instant;

use smoltcp::wire::{
    ArpOperation, ArpPacket, EthernetFrame, EthernetProtocol, Icmpv6Message, Icmpv6Packet,
    IpProtocol, Ipv6Packet, NdiscNeighborFlags, NdiscOption,
};

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Self = Self([0xff; 6]);

    fn from_slice(bytes: &[u8]) -> Self {
        let mut mac = [0; 6];
        for (to, from) in mac.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self(mac)
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
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes: Vec<u8> = text
            .split(':')
            .map(|part| u8::from_str_radix(part, 16))
            .collect::<Result<_, _>>()?;
        let bytes = <[u8; 6]>::try_from(bytes);
        bytes
            .map(Self)
            .map_err(|_| anyhow::anyhow!("not a hardware address: {text}"))
    }
}

/// One frame as it crossed the wire.
#[derive(Clone, Debug)]
pub struct Frame {
    /// When the kernel saw it (monotonic clock).
    pub at: Instant,
    /// The whole frame, from the destination address on.
    pub bytes: Vec<u8>,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// Whether it asks or tells.
    pub is_request: bool,
    /// The sender's hardware address, as the packet claims.
    pub sender_mac: Mac,
    /// The sender's address.
    pub sender: Ipv4Addr,
    /// The target's hardware address.
    pub target_mac: Mac,
    /// The address asked for.
    pub target: Ipv4Addr,
}

impl Arp {
    /// Whether it announces an address to everybody (sender and target are the same).
    pub fn is_gratuitous(&self) -> bool {
        self.sender == self.target
    }
}

/// An IPv6 neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourAdvertisement {
    /// The IPv6 source.
    pub source: Ipv6Addr,
    /// The IPv6 destination; `ff02::1` when it is for everybody.
    pub destination: Ipv6Addr,
    /// The address that it speaks for.
    pub target: Ipv6Addr,
    /// The hardware address in its option, if it has that.
    pub mac: Option<Mac>,
    /// The override flag.
    pub overrides: bool,
    /// The solicited flag.
    pub solicited: bool,
    /// The router flag.
    pub router: bool,
}

impl Frame {
    fn ethernet(&self) -> Option<EthernetFrame<&[u8]>> {
        EthernetFrame::new_checked(self.bytes.as_slice()).ok()
    }

    /// Who sent it.
    pub fn source(&self) -> Option<Mac> {
        Some(Mac(self.ethernet()?.src_addr().0))
    }

    /// Whom it is for.
    pub fn destination(&self) -> Option<Mac> {
        Some(Mac(self.ethernet()?.dst_addr().0))
    }

    /// The ARP packet in it.
    pub fn arp(&self) -> Option<Arp> {
        let ethernet = self.ethernet()?;
        if ethernet.ethertype() != EthernetProtocol::Arp {
            return None;
        }
        let packet = ArpPacket::new_checked(ethernet.payload()).ok()?;
        let address = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from);
        Some(Arp {
            is_request: packet.operation() == ArpOperation::Request,
            sender_mac: Mac::from_slice(packet.source_hardware_addr()),
            sender: address(packet.source_protocol_addr())?,
            target_mac: Mac::from_slice(packet.target_hardware_addr()),
            target: address(packet.target_protocol_addr())?,
        })
    }

    /// The neighbour advertisement in it.
    pub fn neighbour_advertisement(&self) -> Option<NeighbourAdvertisement> {
        let ethernet = self.ethernet()?;
        if ethernet.ethertype() != EthernetProtocol::Ipv6 {
            return None;
        }
        let ip = Ipv6Packet::new_checked(ethernet.payload()).ok()?;
        if ip.next_header() != IpProtocol::Icmpv6 {
            return None;
        }
        let packet = Icmpv6Packet::new_checked(ip.payload()).ok()?;
        if packet.msg_type() != Icmpv6Message::NeighborAdvert {
            return None;
        }
        let flags = packet.neighbor_flags();
        let option = NdiscOption::new_checked(packet.payload()).ok();
        Some(NeighbourAdvertisement {
            source: ip.src_addr(),
            destination: ip.dst_addr(),
            target: packet.target_addr(),
            mac: option.map(|option| Mac::from_slice(option.link_layer_addr().as_bytes())),
            overrides: flags.contains(NdiscNeighborFlags::OVERRIDE),
            solicited: flags.contains(NdiscNeighborFlags::SOLICITED),
            router: flags.contains(NdiscNeighborFlags::ROUTER),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_gratuitous_arp() {
        let mut bytes = vec![0xff; 6];
        bytes.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        bytes.extend([
            2, 0, 0, 0, 0, 9, 10, 77, 0, 200, 0, 0, 0, 0, 0, 0, 10, 77, 0, 200,
        ]);
        let frame = Frame {
            at: Instant::now(),
            bytes,
        };
        let arp = frame.arp().expect("an ARP packet");
        assert!(arp.is_request && arp.is_gratuitous());
        assert_eq!(arp.sender_mac, "02:00:00:00:00:09".parse().unwrap());
        assert_eq!(frame.destination(), Some(Mac::BROADCAST));
        assert_eq!(frame.neighbour_advertisement(), None);
    }
}
