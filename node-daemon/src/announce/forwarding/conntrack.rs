//! What this node's connection tracking knows: read from messages of `NETLINK_NETFILTER`.
//!
//! Formats: `linux/netfilter/nfnetlink_conntrack.h`.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use super::attributes::{find, read};
use super::table::Flow;

/// `NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET`
pub const GET: u16 = 1 << 8 | 1;
/// Before the attributes: `struct nfgenmsg`.
const HEADER: usize = 4;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_TCP_STATE: u16 = 1;
/// Packets were seen in both directions: `IPS_SEEN_REPLY`.
const SEEN_REPLY: u32 = 1 << 1;
/// `TCP_CONNTRACK_ESTABLISHED` up to `TCP_CONNTRACK_LAST_ACK`. Before it only the SYN was seen, of which there may be a
/// flood; behind it the connection is over.
const OPEN: RangeInclusive<u8> = 3..=6;
/// `IPPROTO_TCP`
pub const TCP: u8 = 6;
/// `IPPROTO_UDP`
pub const UDP: u8 = 17;

/// A question for all connections of both families.
#[must_use]
pub const fn question() -> [u8; HEADER] {
    [0; HEADER]
}

/// The connection that a message tells of, if it lives: one of TCP that is open, or of UDP that was
/// answered.
#[must_use]
pub fn read_flow(payload: &[u8]) -> Option<Flow> {
    let attributes = payload.get(HEADER..)?;
    let status = number(find(attributes, CTA_STATUS)?)?;
    if status & SEEN_REPLY == 0 {
        return None;
    }
    let tuple = find(attributes, CTA_TUPLE_ORIG)?;
    let (mut source, mut destination) = (None, None);
    for (kind, value) in read(find(tuple, CTA_TUPLE_IP)?) {
        match kind {
            CTA_IP_V4_SRC | CTA_IP_V6_SRC => source = address(value),
            CTA_IP_V4_DST | CTA_IP_V6_DST => destination = address(value),
            _ => {}
        }
    }
    let ports = find(tuple, CTA_TUPLE_PROTO)?;
    let protocol = *find(ports, CTA_PROTO_NUM)?.first()?;
    if protocol != TCP && protocol != UDP {
        return None;
    }
    if protocol == TCP {
        let info = find(find(attributes, CTA_PROTOINFO)?, CTA_PROTOINFO_TCP)?;
        let state = *find(info, CTA_PROTOINFO_TCP_STATE)?.first()?;
        if !OPEN.contains(&state) {
            return None;
        }
    }
    Some(Flow {
        source: source?,
        destination: destination?,
        protocol,
        source_port: port(find(ports, CTA_PROTO_SRC_PORT)?)?,
        destination_port: port(find(ports, CTA_PROTO_DST_PORT)?)?,
    })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = || Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?));
    let six = || Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?));
    four().or_else(six)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn port(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::attributes::Attributes;
    use super::*;

    fn message(protocol: u8, state: Option<u8>, status: u32) -> Vec<u8> {
        let addresses = Attributes::default()
            .bytes(CTA_IP_V4_SRC, &[192, 0, 2, 1])
            .bytes(CTA_IP_V4_DST, &[192, 0, 2, 10]);
        let ports = Attributes::default()
            .bytes(CTA_PROTO_NUM, &[protocol])
            .bytes(CTA_PROTO_SRC_PORT, &4242_u16.to_be_bytes())
            .bytes(CTA_PROTO_DST_PORT, &80_u16.to_be_bytes());
        let tuple = Attributes::default()
            .nested(CTA_TUPLE_IP, &addresses)
            .nested(CTA_TUPLE_PROTO, &ports);
        let mut all = Attributes::default()
            .nested(CTA_TUPLE_ORIG, &tuple)
            .number(CTA_STATUS, status);
        if let Some(state) = state {
            let tcp = Attributes::default().bytes(CTA_PROTOINFO_TCP_STATE, &[state]);
            let info = Attributes::default().nested(CTA_PROTOINFO_TCP, &tcp);
            all = all.nested(CTA_PROTOINFO, &info);
        }
        let mut bytes = vec![2, 0, 0, 0];
        bytes.extend(all.as_bytes());
        bytes
    }

    #[test]
    fn reads_connections_that_live() {
        let established = message(TCP, Some(3), SEEN_REPLY);
        let flow = read_flow(&established).unwrap();
        assert_eq!(flow.destination, IpAddr::from([192, 0, 2, 10]));
        assert_eq!((flow.source_port, flow.destination_port), (4242, 80));
        assert!(read_flow(&message(UDP, None, SEEN_REPLY)).is_some());
        for over in [
            message(TCP, Some(7), SEEN_REPLY),
            message(TCP, Some(2), SEEN_REPLY),
            message(TCP, Some(1), 0),
            message(1, None, SEEN_REPLY),
            message(TCP, None, SEEN_REPLY),
        ] {
            assert_eq!(read_flow(&over), None);
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = message(TCP, Some(3), SEEN_REPLY);
        for length in 0..whole.len() {
            assert_eq!(read_flow(&whole[..length]), None);
        }
    }
}
