//! What frames say about where addresses are, and what follows from many of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mooring_node::protocol::Message;
use mooring_node::wire::codec::{self, SegmentId};
use mooring_node::wire::keys::KeyRing;

use super::filters::{HEARTBEAT, HEARTBEAT_PORT};
use super::frame::{Frame, Mac};

/// Somebody says where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// When.
    pub at: Instant,
    /// Where, as the packet says.
    pub mac: Mac,
    /// Whether nobody had asked.
    pub unasked: bool,
}

/// What a frame says about where an address is, in whatever form.
pub fn claim(frame: &Frame, address: IpAddr) -> Option<Claim> {
    let (mac, unasked) = match address {
        IpAddr::V4(address) => {
            let arp = frame.arp().filter(|arp| arp.sender == address)?;
            (arp.sender_mac, arp.is_request || arp.is_gratuitous())
        }
        IpAddr::V6(address) => {
            let told = frame
                .neighbour_advertisement()
                .filter(|told| told.target == address)?;
            // Answers to duplicate address detection go to everybody too, but do not override.
            let mac = told.mac.or_else(|| frame.source())?;
            (mac, !told.solicited && told.overrides)
        }
    };
    Some(Claim {
        at: frame.at,
        mac,
        unasked,
    })
}

/// All claims of an address, in their order.
pub fn claims(frames: &[Frame], address: IpAddr) -> Vec<Claim> {
    let mut claims: Vec<Claim> = frames
        .iter()
        .filter_map(|frame| claim(frame, address))
        .collect();
    claims.sort_by_key(|claim| claim.at);
    claims
}

/// The claims that nobody had asked for: announcements.
pub fn announcements(frames: &[Frame], address: IpAddr) -> Vec<Claim> {
    let mut claims = claims(frames, address);
    claims.retain(|claim| claim.unasked);
    claims
}

/// When the address went from one node to another on the wire: the time and the new one.
pub fn moves(frames: &[Frame], address: IpAddr) -> Vec<(Instant, Mac)> {
    let mut moves: Vec<(Instant, Mac)> = Vec::new();
    for claim in claims(frames, address) {
        if moves.last().is_none_or(|(_, mac)| *mac != claim.mac) {
            moves.push((claim.at, claim.mac));
        }
    }
    // The first is where it was.
    moves.split_off(moves.len().min(1))
}

/// How many frames of heartbeats each station has sent, on both paths.
pub fn heartbeats(frames: &[Frame]) -> BTreeMap<Mac, usize> {
    let mut heartbeats = BTreeMap::new();
    for frame in frames.iter().filter(|frame| is_heartbeat(frame)) {
        if let Some(source) = frame.source() {
            *heartbeats.entry(source).or_default() += 1;
        }
    }
    heartbeats
}

/// Whether the frame is a heartbeat, on the segment or on the node network.
pub fn is_heartbeat(frame: &Frame) -> bool {
    let half = |at: usize| {
        let bytes = frame.bytes.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let to_port = |at: usize| half(at) == Some(HEARTBEAT_PORT);
    match half(12) {
        Some(HEARTBEAT) => true,
        Some(0x0800) => {
            let length = usize::from(frame.bytes.get(14).copied().unwrap_or_default() & 0xf) * 4;
            frame.bytes.get(23) == Some(&17) && to_port(14 + length + 2)
        }
        Some(0x86dd) => frame.bytes.get(20) == Some(&17) && to_port(56),
        _ => false,
    }
}

/// Whether the frame is a heartbeat on the segment.
pub fn is_segment_heartbeat(frame: &Frame) -> bool {
    frame.bytes.get(12..14) == Some(&HEARTBEAT.to_be_bytes())
}

/// The message of a daemon, if the frame is a heartbeat on the segment. Its signature is not looked at.
pub fn segment_message(frame: &Frame) -> Option<Message> {
    let heartbeat = is_segment_heartbeat(frame).then_some(frame)?;
    let bytes = heartbeat.bytes.get(14..)?;
    let segment = SegmentId::in_message(bytes)?;
    let decoded = codec::decode(segment, bytes, &KeyRing::default());
    decoded.ok().map(|decoded| decoded.message)
}

/// Frames per second.
pub fn rate(count: usize, span: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / span.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlab::raw::ArpToSend;

    fn announcement(at: Instant, mac: u8) -> Frame {
        let address = [10, 77, 0, 100].into();
        let mac = Mac([2, 0, 0, 0, 0, mac]);
        Frame {
            at,
            bytes: ArpToSend::who_has(address, address, mac).bytes(),
        }
    }

    #[test]
    fn an_address_that_goes_and_comes_back_has_moved_twice() {
        let start = Instant::now();
        let at = |after: u64| start + Duration::from_millis(after);
        let frames: Vec<Frame> = [(0, 1), (5, 1), (9, 2), (7, 1), (12, 2), (20, 1)]
            .map(|(after, mac)| announcement(at(after), mac))
            .into();
        let moves = moves(&frames, [10, 77, 0, 100].into());
        let expected = [(at(9), 2), (at(20), 1)].map(|(at, mac)| (at, Mac([2, 0, 0, 0, 0, mac])));
        assert_eq!(moves, expected);
        assert_eq!(announcements(&frames, [10, 77, 0, 100].into()).len(), 6);
        assert_eq!(announcements(&frames, [10, 77, 0, 101].into()).len(), 0);
    }

    #[test]
    fn heartbeats_are_known_on_both_paths() {
        let at = Instant::now();
        let mut segment = vec![0xff; 6];
        segment.extend([2, 0, 0, 0, 0, 1, 0x88, 0xb5, 0, 0]);
        let mut network = vec![2; 6];
        network.extend([2, 0, 0, 0, 0, 1, 8, 0, 0x45]);
        network.extend([0; 8]);
        network.push(17);
        // The checksum, both addresses, and the source's port.
        network.extend([0; 2 + 4 + 4 + 2]);
        let mut other = network.clone();
        network.extend([0x28, 0x1c]);
        other.extend([0x28, 0x1d]);
        let frames: Vec<Frame> = [segment, network].map(|bytes| Frame { at, bytes }).into();
        assert_eq!(heartbeats(&frames)[&Mac([2, 0, 0, 0, 0, 1])], 2);
        assert!(!is_heartbeat(&Frame { at, bytes: other }));
    }
}
