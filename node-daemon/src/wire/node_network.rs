//! Messages over the node network, by UDP: for members that do not hear each other on the segment,
//! and for witnesses, which are on none.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, Socket, Type};

use super::codec::MOST_BYTES;
use super::packet_socket::PRIORITY;

/// The class of network control (RFC 4594 section 3.1), CS6, where a header has room for it.
const TRAFFIC_CLASS: u32 = 0xc0;

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on UDP port {port} for the heartbeats of other nodes; free it, or choose another \
     --heartbeat-port, the same on all nodes"
)]
pub struct NodeNetworkError {
    port: u16,
    source: io::Error,
}

/// One socket for all segments.
#[derive(Debug)]
pub struct NodeNetwork {
    socket: Socket,
    /// Whether it speaks IPv6, and IPv4 in the form of IPv6 addresses.
    dual: bool,
}

impl NodeNetwork {
    /// Listens on a port of all addresses; 0: on any that is free.
    ///
    /// # Errors
    /// [`NodeNetworkError`] if the port is taken.
    pub fn open(port: u16) -> Result<Self, NodeNetworkError> {
        let failed = |source| NodeNetworkError { port, source };
        // A machine may have no IPv6 at all.
        let (socket, dual) = match Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)) {
            Ok(socket) => (socket, true),
            Err(_) => {
                let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP));
                (socket.map_err(failed)?, false)
            }
        };
        let any: IpAddr = if dual {
            socket.set_only_v6(false).map_err(failed)?;
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        socket.set_nonblocking(true).map_err(failed)?;
        let address = SocketAddr::new(any, port);
        socket.bind(&address.into()).map_err(failed)?;
        // Only matters of precedence.
        let precedence = socket
            .set_tos_v4(TRAFFIC_CLASS)
            .and_then(|()| {
                if dual {
                    socket.set_tclass_v6(TRAFFIC_CLASS)
                } else {
                    Ok(())
                }
            })
            .and_then(|()| socket.set_priority(PRIORITY));
        if let Err(error) = precedence {
            tracing::debug!(%error, "cannot set the priority of heartbeats");
        }
        Ok(Self { socket, dual })
    }

    /// The port that it listens on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn port(&self) -> io::Result<u16> {
        let address = self.socket.local_addr()?.as_socket();
        address
            .map(|address| address.port())
            .ok_or_else(|| ErrorKind::AddrNotAvailable.into())
    }

    /// Sends a message.
    ///
    /// # Errors
    /// What the kernel says: there is no route, the queue is full.
    pub fn send(&self, message: &[u8], to: SocketAddr) -> io::Result<()> {
        let to = match to.ip() {
            IpAddr::V4(address) if self.dual => {
                SocketAddr::new(address.to_ipv6_mapped().into(), to.port())
            }
            _ => to,
        };
        self.socket.send_to(message, &to.into()).map(drop)
    }

    /// Hands over messages that have arrived, at most so many, and never waits.
    pub fn receive(&self, most: usize, mut hear: impl FnMut(&[u8])) {
        // What is longer is none of ours: it is cut, and then not valid.
        let mut buffer = [0; MOST_BYTES + 1];
        let mut socket = &self.socket;
        for _ in 0..most {
            match socket.read(&mut buffer) {
                Ok(length) => hear(buffer.get(..length).unwrap_or_default()),
                // An error of a message that was sent: there is nobody at that address now.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted
                            | ErrorKind::ConnectionRefused
                            | ErrorKind::HostUnreachable
                            | ErrorKind::NetworkUnreachable
                    ) => {}
                Err(_) => break,
            }
        }
    }

    /// What to wait on for messages.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn messages_arrive_over_ipv4_and_ipv6() {
        let (here, there) = (NodeNetwork::open(0).unwrap(), NodeNetwork::open(0).unwrap());
        let port = there.port().unwrap();
        let mut expected = vec![b"by IPv4".to_vec()];
        here.send(b"by IPv4", SocketAddr::from(([127, 0, 0, 1], port)))
            .unwrap();
        // Some machines have no IPv6.
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        if here.send(b"by IPv6", v6).is_ok() {
            expected.push(b"by IPv6".to_vec());
        }
        let mut heard = Vec::new();
        let start = Instant::now();
        while heard.len() < expected.len() && start.elapsed() < Duration::from_secs(5) {
            there.receive(10, |message| heard.push(message.to_vec()));
        }
        assert_eq!(heard, expected);
    }

    #[test]
    fn taken_port_is_named() {
        let first = NodeNetwork::open(0).unwrap();
        let port = first.port().unwrap();
        let error = NodeNetwork::open(port).unwrap_err();
        assert!(error.to_string().contains(&format!("UDP port {port}")));
    }
}
