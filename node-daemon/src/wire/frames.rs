//! ARP and neighbour discovery as bytes: the frames that are sent, and what is read from those
//! that arrive.
//!
//! The forms are chosen by what neighbours were measured to accept. An ARP reply that nobody asked
//! for bears the own MAC as target too, since Linux ignores it with any other for a second after
//! the last update. An unsolicited neighbour advertisement bears the override flag and the target
//! link-layer address, without which it has no effect; a solicited one does not override, so that
//! a late answer cannot take the address back from its new speaker.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv6Packet,
    Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
};

use crate::protocol::mac::Mac;

/// RFC 4861 section 7.1: a neighbour discovery packet that has crossed a router is not valid.
const HOP_LIMIT: u8 = 255;
/// `ff02::1`, all nodes of the segment.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// What a frame from the segment says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// That an address is at a MAC.
    pub claim: Option<Claim>,
    /// A question that wants an answer.
    pub question: Option<Question>,
}

/// Somebody says where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The address.
    pub address: IpAddr,
    /// Where it is said to be.
    pub mac: Mac,
}

/// Somebody asks where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The address asked for.
    pub target: IpAddr,
    /// Who asks; unspecified (`0.0.0.0`, `::`) if it wants to know whether the address is free.
    pub asker: IpAddr,
    /// Where the answer goes.
    pub asker_mac: Mac,
}

/// Reads a frame. `own` is the MAC of the interface it came in by.
///
/// `None` for what is neither ARP nor neighbour discovery, is not meant for this station, or is
/// not valid (RFC 826; RFC 4861 section 7.1).
#[must_use]
pub fn parse(bytes: &[u8], own: Mac) -> Option<Heard> {
    let frame = EthernetFrame::new_checked(bytes).ok()?;
    let to = Mac::from(frame.dst_addr());
    if to.is_station() && to != own {
        return None;
    }
    match frame.ethertype() {
        EthernetProtocol::Arp => parse_arp(frame.payload()),
        EthernetProtocol::Ipv6 => parse_ndp(frame.payload(), frame.src_addr().into()),
        _ => None,
    }
}

fn parse_arp(payload: &[u8]) -> Option<Heard> {
    let packet = ArpPacket::new_checked(payload).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr: source,
        target_protocol_addr: target,
        ..
    } = ArpRepr::parse(&packet).ok()?
    else {
        return None;
    };
    let mac = Mac::from(source_hardware_addr);
    if !mac.is_station() || !matches!(operation, ArpOperation::Request | ArpOperation::Reply) {
        return None;
    }
    let asks = operation == ArpOperation::Request && source != target;
    Some(Heard {
        claim: (!source.is_unspecified()).then_some(Claim {
            address: source.into(),
            mac,
        }),
        question: asks.then_some(Question {
            target: target.into(),
            asker: source.into(),
            asker_mac: mac,
        }),
    })
}

fn parse_ndp(payload: &[u8], sender: Mac) -> Option<Heard> {
    let packet = Ipv6Packet::new_checked(payload).ok()?;
    if packet.version() != 6
        || packet.next_header() != IpProtocol::Icmpv6
        || packet.hop_limit() != HOP_LIMIT
    {
        return None;
    }
    let (from, to) = (packet.src_addr(), packet.dst_addr());
    let icmp = Icmpv6Packet::new_checked(packet.payload()).ok()?;
    let checksums = ChecksumCapabilities::default();
    let Icmpv6Repr::Ndisc(message) = Icmpv6Repr::parse(&from, &to, &icmp, &checksums).ok()? else {
        return None;
    };
    let stated = |address: Option<smoltcp::wire::RawHardwareAddress>| {
        address.and_then(|a| Mac::from_slice(a.as_bytes()))
    };
    match message {
        NdiscRepr::NeighborSolicit {
            target_addr,
            lladdr,
        } => heard_solicitation(from, to, target_addr, stated(lladdr), sender),
        NdiscRepr::NeighborAdvert {
            target_addr,
            lladdr,
            ..
        } => {
            let mac = stated(lladdr).unwrap_or(sender);
            (mac.is_station() && !target_addr.is_multicast()).then(|| Heard {
                claim: Some(Claim {
                    address: target_addr.into(),
                    mac,
                }),
                question: None,
            })
        }
        _ => None,
    }
}

/// RFC 4861 section 7.1.1: who asks from no address asks the group, and does not state its MAC.
fn heard_solicitation(
    from: Ipv6Addr,
    to: Ipv6Addr,
    target: Ipv6Addr,
    stated: Option<Mac>,
    sender: Mac,
) -> Option<Heard> {
    let detects_duplicates = from.is_unspecified();
    if target.is_multicast()
        || detects_duplicates && (stated.is_some() || to != solicited_node(target))
    {
        return None;
    }
    let asker_mac = stated.unwrap_or(sender);
    asker_mac.is_station().then(|| Heard {
        claim: stated.map(|mac| Claim {
            address: from.into(),
            mac,
        }),
        question: Some(Question {
            target: target.into(),
            asker: from.into(),
            asker_mac,
        }),
    })
}

/// The multicast group on which questions for this address arrive (RFC 4291 section 2.7.1).
#[must_use]
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., g, h] = address.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (g & 0xff), h)
}

/// The frames that tell everybody that `address` is at `own`: for IPv4 the request form and the
/// reply form, of which each is ignored by somebody (RFC 5227 section 3, RFC 5944 section 4.6);
/// for IPv6 one advertisement (RFC 4861 section 7.2.6).
#[must_use]
pub fn announcement(own: Mac, address: IpAddr) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(v4) => vec![announce_request(own, v4), announce_reply(own, v4)],
        IpAddr::V6(v6) => vec![advertise_unsolicited(own, v6, v6)],
    }
}

/// Asks the router for its MAC from the service address: it answers, and has learnt the address
/// whether it knew it before or not. `None` if the two are not of one family.
#[must_use]
pub fn prime(own: Mac, address: IpAddr, router: IpAddr) -> Option<Vec<u8>> {
    match (address, router) {
        (IpAddr::V4(address), IpAddr::V4(router)) => Some(arp(&Arp {
            operation: ArpOperation::Request,
            to: Mac::BROADCAST,
            source: (own, address),
            target: (Mac::UNKNOWN, router),
        })),
        (IpAddr::V6(address), IpAddr::V6(router)) => Some(solicit(own, address, router)),
        _ => None,
    }
}

/// Asks for an address and claims nothing: from an address of our own, or for IPv4 from none
/// (RFC 5227 section 1.1, an ARP probe), as for IPv6 (RFC 4862 section 5.4.2, duplicate address detection).
/// `None` if source and target are not of one family.
#[must_use]
pub fn probe(own: Mac, source: Option<IpAddr>, target: IpAddr) -> Option<Vec<u8>> {
    match (source, target) {
        (None, IpAddr::V4(_)) => prime(own, Ipv4Addr::UNSPECIFIED.into(), target),
        (None, IpAddr::V6(target)) => Some(detect_duplicate(
            own,
            group_mac(solicited_node(target)),
            target,
        )),
        (Some(source), _) => prime(own, source, target),
    }
}

/// Asks one station, and no other, for an address, and claims nothing, as [`probe`] does. A fabric may
/// answer what is sent to all for a station that it has once seen (RFC 7432 section 10), dead or not.
/// `None` if source and target are not of one family.
#[must_use]
pub fn probe_station(
    own: Mac,
    source: Option<IpAddr>,
    target: IpAddr,
    station: Mac,
) -> Option<Vec<u8>> {
    match (source, target) {
        (None | Some(IpAddr::V4(_)), IpAddr::V4(target)) => Some(arp(&Arp {
            operation: ArpOperation::Request,
            to: station,
            source: (own, Ipv4Addr::UNSPECIFIED),
            target: (Mac::UNKNOWN, target),
        })),
        (Some(IpAddr::V6(source)), IpAddr::V6(target)) => Some(ndp(
            own,
            station,
            (source, target),
            solicitation(own, target),
        )),
        (None, IpAddr::V6(target)) => Some(detect_duplicate(own, station, target)),
        (Some(_), _) => None,
    }
}

/// The answer to a question for an address that is at `own`. `None` if asker and target are not
/// of one family.
#[must_use]
pub fn answer(own: Mac, question: &Question) -> Option<Vec<u8>> {
    match (question.target, question.asker) {
        (IpAddr::V4(target), IpAddr::V4(asker)) => Some(arp(&Arp {
            operation: ArpOperation::Reply,
            to: question.asker_mac,
            source: (own, target),
            target: (question.asker_mac, asker),
        })),
        (IpAddr::V6(target), IpAddr::V6(asker)) => {
            Some(advertise_solicited(own, target, asker, question.asker_mac))
        }
        _ => None,
    }
}

fn announce_request(own: Mac, address: Ipv4Addr) -> Vec<u8> {
    arp(&Arp {
        operation: ArpOperation::Request,
        to: Mac::BROADCAST,
        source: (own, address),
        target: (Mac::UNKNOWN, address),
    })
}

fn announce_reply(own: Mac, address: Ipv4Addr) -> Vec<u8> {
    arp(&Arp {
        operation: ArpOperation::Reply,
        to: Mac::BROADCAST,
        source: (own, address),
        target: (own, address),
    })
}

/// Tells all nodes, from `source` (the address itself, or a link-local one).
fn advertise_unsolicited(own: Mac, address: Ipv6Addr, source: Ipv6Addr) -> Vec<u8> {
    ndp(
        own,
        group_mac(ALL_NODES),
        (source, ALL_NODES),
        NdiscRepr::NeighborAdvert {
            flags: NdiscNeighborFlags::OVERRIDE,
            target_addr: address,
            lladdr: Some(smoltcp::wire::EthernetAddress::from(own).into()),
        },
    )
}

fn advertise_solicited(own: Mac, address: Ipv6Addr, asker: Ipv6Addr, asker_mac: Mac) -> Vec<u8> {
    // RFC 4861 section 7.2.4: who asked from no address is answered through all nodes, and then
    // the answer is not a solicited one.
    let (to_mac, to, flags) = if asker.is_unspecified() {
        (group_mac(ALL_NODES), ALL_NODES, NdiscNeighborFlags::empty())
    } else {
        (asker_mac, asker, NdiscNeighborFlags::SOLICITED)
    };
    ndp(
        own,
        to_mac,
        (address, to),
        NdiscRepr::NeighborAdvert {
            flags,
            target_addr: address,
            lladdr: Some(smoltcp::wire::EthernetAddress::from(own).into()),
        },
    )
}

fn solicit(own: Mac, address: Ipv6Addr, neighbour: Ipv6Addr) -> Vec<u8> {
    let group = solicited_node(neighbour);
    ndp(
        own,
        group_mac(group),
        (address, group),
        solicitation(own, neighbour),
    )
}

/// Asks from no address, so that nobody learns one, and states no MAC (RFC 4861 section 4.3).
fn detect_duplicate(own: Mac, to: Mac, target: Ipv6Addr) -> Vec<u8> {
    let message = NdiscRepr::NeighborSolicit {
        target_addr: target,
        lladdr: None,
    };
    let group = solicited_node(target);
    ndp(own, to, (Ipv6Addr::UNSPECIFIED, group), message)
}

fn solicitation(own: Mac, neighbour: Ipv6Addr) -> NdiscRepr<'static> {
    NdiscRepr::NeighborSolicit {
        target_addr: neighbour,
        lladdr: Some(smoltcp::wire::EthernetAddress::from(own).into()),
    }
}

/// Where a multicast IPv6 packet goes (RFC 2464 section 7).
fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac::new([0x33, 0x33, a, b, c, d])
}

/// The fields of an ARP packet that differ.
struct Arp {
    operation: ArpOperation,
    to: Mac,
    source: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
}

fn arp(fields: &Arp) -> Vec<u8> {
    let (own, source_protocol_addr) = fields.source;
    let (target_mac, target_protocol_addr) = fields.target;
    let packet = ArpRepr::EthernetIpv4 {
        operation: fields.operation,
        source_hardware_addr: own.into(),
        source_protocol_addr,
        target_hardware_addr: target_mac.into(),
        target_protocol_addr,
    };
    ethernet(
        own,
        fields.to,
        EthernetProtocol::Arp,
        packet.buffer_len(),
        |payload| packet.emit(&mut ArpPacket::new_unchecked(payload)),
    )
}

fn ndp(own: Mac, to_mac: Mac, (from, to): (Ipv6Addr, Ipv6Addr), message: NdiscRepr<'_>) -> Vec<u8> {
    let message = Icmpv6Repr::Ndisc(message);
    let header = Ipv6Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Icmpv6,
        payload_len: message.buffer_len(),
        hop_limit: HOP_LIMIT,
    };
    let length = header.buffer_len() + message.buffer_len();
    ethernet(own, to_mac, EthernetProtocol::Ipv6, length, |payload| {
        let mut packet = Ipv6Packet::new_unchecked(payload);
        header.emit(&mut packet);
        let mut icmp = Icmpv6Packet::new_unchecked(packet.payload_mut());
        message.emit(&from, &to, &mut icmp, &ChecksumCapabilities::default());
    })
}

fn ethernet(
    own: Mac,
    to: Mac,
    ethertype: EthernetProtocol,
    length: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let header = EthernetRepr {
        src_addr: own.into(),
        dst_addr: to.into(),
        ethertype,
    };
    let mut frame = EthernetFrame::new_unchecked(vec![0; header.buffer_len() + length]);
    header.emit(&mut frame);
    fill(frame.payload_mut());
    frame.into_inner()
}

#[cfg(test)]
mod tests;
