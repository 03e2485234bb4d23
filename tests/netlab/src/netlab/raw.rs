//! Frames made by hand, and connections from inside a host.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use super::capture::open;
use super::frame::Mac;
use super::host::Host;
use super::namespace;

const BROADCAST: [u8; 6] = [0xff; 6];

/// Sends each frame that is written, as it is, through an interface of this namespace.
///
/// # Errors
/// If there is no such interface.
pub fn sender(interface: &str) -> Result<impl Write + use<>> {
    open(interface).context("a socket for frames")
}

impl Host {
    /// Sends a frame as it is through the host's eth0.
    pub fn inject(&self, frame: &[u8]) -> Result<()> {
        let mut sender = namespace::inside(Some(self.name()), || sender("eth0"))?;
        sender.write_all(frame).context("sending a frame")
    }

    /// A TCP connection from the host; each of its reads waits for at most `limit`.
    pub fn connect(&self, address: SocketAddr, limit: Duration) -> Result<TcpStream> {
        let stream = namespace::inside(Some(self.name()), || {
            Ok(TcpStream::connect_timeout(&address, limit)?)
        })
        .with_context(|| format!("connecting to {address}"))?;
        stream.set_read_timeout(Some(limit))?;
        Ok(stream)
    }
}

/// An ARP packet to be sent.
#[derive(Clone, Copy, Debug)]
pub struct ArpToSend {
    /// Asks (1) or tells (2).
    pub operation: u8,
    /// Whose frame it is; `None`: everybody's.
    pub to: Option<Mac>,
    /// The sender's hardware address, of frame and packet.
    pub mac: Mac,
    /// The sender's address; unspecified in a probe.
    pub sender: Ipv4Addr,
    /// The address asked for, or told.
    pub target: Ipv4Addr,
}

impl ArpToSend {
    /// A question.
    pub fn who_has(target: Ipv4Addr, sender: Ipv4Addr, mac: Mac) -> Self {
        Self {
            operation: 1,
            to: None,
            mac,
            sender,
            target,
        }
    }

    /// To one station only.
    #[must_use]
    pub fn to(mut self, mac: Mac) -> Self {
        self.to = Some(mac);
        self
    }

    /// The bytes from the destination address on.
    pub fn bytes(self) -> Vec<u8> {
        let mut frame = self.to.map_or(BROADCAST, |mac| mac.0).to_vec();
        frame.extend(self.mac.0);
        frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, self.operation]);
        frame.extend(self.mac.0);
        frame.extend(self.sender.octets());
        frame.extend([0; 6]);
        frame.extend(self.target.octets());
        frame
    }
}

/// A neighbour solicitation to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Solicitation {
    /// Whose frame it is; `None`: the target's solicited-node group's.
    pub to: Option<Mac>,
    /// The sender's hardware address.
    pub mac: Mac,
    /// The sender's address; unspecified in duplicate address detection.
    pub sender: Ipv6Addr,
    /// The address asked for.
    pub target: Ipv6Addr,
}

impl Solicitation {
    /// The bytes from the destination address on.
    pub fn bytes(self) -> Vec<u8> {
        let group = solicited_node(self.target);
        let destination = if self.to.is_some() {
            self.target
        } else {
            group
        };
        let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
        message.extend(self.target.octets());
        if !self.sender.is_unspecified() {
            message.extend([1, 1]);
            message.extend(self.mac.0);
        }
        let sum = icmpv6_checksum(self.sender, destination, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut frame = self.to.map_or(multicast_mac(group), |mac| mac.0).to_vec();
        frame.extend(self.mac.0);
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0]);
        frame.push(u8::try_from(message.len()).expect("a short message"));
        frame.extend([58, 255]);
        frame.extend(self.sender.octets());
        frame.extend(destination.octets());
        frame.extend(message);
        frame
    }
}

/// The group in which whoever has an address listens for questions.
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let low = |high: u8, low: u8| u16::from(high) << 8 | u16::from(low);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, low(0xff, a), low(b, c))
}

fn multicast_mac(group: Ipv6Addr) -> [u8; 6] {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// The checksum of an ICMPv6 message in which that field is zero.
pub fn icmpv6_checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    checksum(58, source, destination, message)
}

/// The checksum of a message of an upper protocol in IPv6.
pub(super) fn checksum(
    protocol: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    message: &[u8],
) -> u16 {
    let length = u16::try_from(message.len()).expect("a short message");
    let mut bytes = [source.octets(), destination.octets()].concat();
    bytes.extend([0, 0]);
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes.extend(message);
    let sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    !u16::try_from(folded).expect("folded to 16 bits")
}

/// What a client's kernel asks before its first packet, for either family.
pub fn question(client: &Host, target: IpAddr) -> Vec<u8> {
    match target {
        IpAddr::V4(target) => ArpToSend::who_has(target, client.ipv4(), client.mac()).bytes(),
        IpAddr::V6(target) => Solicitation {
            to: None,
            mac: client.mac(),
            sender: client.ipv6(),
            target,
        }
        .bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_a_known_message() {
        // l2.md section 6.2: NS prime of 2001:db8::1 from 2001:db8::10.
        let source = "2001:db8::10".parse().unwrap();
        let target: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let frame = Solicitation {
            to: None,
            mac: Mac([2, 0, 0, 0, 0x0a, 0x0a]),
            sender: source,
            target,
        }
        .bytes();
        assert_eq!(frame.len(), 86);
        assert_eq!(frame[56..58], [0x12, 0x11]);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0, 0, 1]);
    }
}
