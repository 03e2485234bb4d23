//! What of all frames is worth keeping: filters in the kernel, as classic BPF.

use socket2::SockFilter;

/// What `mooring-node` sends its heartbeats as, on the segment.
pub const HEARTBEAT: u16 = 0x88b5;

/// The UDP port of its heartbeats on the node network.
pub const HEARTBEAT_PORT: u16 = 10_268;

const LOAD_HALF: u16 = 0x28; // ldh [k]
const LOAD_BYTE: u16 = 0x30; // ldb [k]
const LOAD_HALF_BEHIND: u16 = 0x48; // ldh [x + k]
const HEADER_LENGTH: u16 = 0xb1; // ldxb 4 * ([k] & 0xf)
const EQUAL: u16 = 0x15; // jeq #k
const RETURN: u16 = 0x06; // ret #k

/// ARP, ICMPv6 and heartbeats of both paths; none of the traffic that clients make.
pub(super) fn control() -> Vec<SockFilter> {
    let op = SockFilter::new;
    vec![
        op(LOAD_HALF, 0, 0, 12),
        op(EQUAL, 16, 0, 0x0806),
        op(EQUAL, 15, 0, HEARTBEAT.into()),
        op(EQUAL, 0, 6, 0x86dd),
        // IPv6: ICMPv6 (MLD has an option before it), or UDP to the port.
        op(LOAD_BYTE, 0, 0, 20),
        op(EQUAL, 12, 0, 58),
        op(EQUAL, 11, 0, 0),
        op(EQUAL, 0, 9, 17),
        op(LOAD_HALF, 0, 0, 56),
        op(EQUAL, 8, 7, HEARTBEAT_PORT.into()),
        // IPv4: UDP to the port.
        op(EQUAL, 0, 6, 0x0800),
        op(LOAD_BYTE, 0, 0, 23),
        op(EQUAL, 0, 4, 17),
        op(HEADER_LENGTH, 0, 0, 14),
        op(LOAD_HALF_BEHIND, 0, 0, 16),
        op(EQUAL, 2, 1, HEARTBEAT_PORT.into()),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, u16::MAX.into()),
    ]
}

/// ARP replies and ICMPv6: what may answer a question.
pub(super) fn answers() -> Vec<SockFilter> {
    let op = SockFilter::new;
    vec![
        op(LOAD_HALF, 0, 0, 12),
        op(EQUAL, 0, 2, 0x0806),
        op(LOAD_HALF, 0, 0, 20),
        op(EQUAL, 4, 3, 2),
        op(EQUAL, 0, 2, 0x86dd),
        op(LOAD_BYTE, 0, 0, 54),
        op(EQUAL, 1, 0, 136),
        op(RETURN, 0, 0, 0),
        op(RETURN, 0, 0, u16::MAX.into()),
    ]
}
