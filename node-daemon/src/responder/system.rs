//! What the thread takes from the operating system: the time, and sockets. A simulator gives it others.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::protocol::Moment;
use crate::protocol::mac::Mac;
use crate::wire::clock;
use crate::wire::node_network::{NodeNetwork, NodeNetworkError};
use crate::wire::packet_socket::{PacketSocket, PacketSocketError};

/// Where the time and the sockets come from.
pub trait System: Send {
    /// What time it is.
    fn now(&self) -> Moment;

    /// Opens the sockets on an interface.
    ///
    /// # Errors
    /// [`PacketSocketError`] if they cannot be opened.
    fn open_segment(
        &self,
        name: &str,
        index: u32,
    ) -> Result<Box<dyn SegmentSockets>, PacketSocketError>;

    /// Opens the socket on the node network.
    ///
    /// # Errors
    /// [`NodeNetworkError`] if the port cannot be had.
    fn open_node_network(&self, port: u16) -> Result<Box<dyn NodeNetworkSocket>, NodeNetworkError>;
}

/// What takes in messages.
pub type OnMessage<'a> = &'a mut dyn FnMut(&[u8]);

/// What takes in frames, each with when it came.
pub type OnFrame<'a> = &'a mut dyn FnMut(&[u8], Moment);

/// The sockets on an interface: see [`PacketSocket`].
pub trait SegmentSockets: Send {
    /// Forgets what has arrived.
    fn drain(&self);

    /// Sends a message to all members.
    ///
    /// # Errors
    /// Whatever the kernel says.
    fn send_message(&self, own: Mac, message: &[u8]) -> io::Result<()>;

    /// Takes in at most so many messages of members.
    fn receive_messages(&self, most: usize, hear: OnMessage<'_>);

    /// Sends a frame of ARP or neighbour discovery.
    ///
    /// # Errors
    /// Whatever the kernel says.
    fn send(&self, frame: &[u8]) -> io::Result<()>;

    /// Takes in at most so many frames of each kind.
    fn receive(&self, most: usize, hear: OnFrame<'_>);

    /// What to wait on for frames, if they are the kernel's to announce.
    fn frames(&self) -> Option<[BorrowedFd<'_>; 2]>;

    /// What to wait on for messages, likewise.
    fn messages(&self) -> Option<BorrowedFd<'_>>;
}

/// The socket on the node network: see [`NodeNetwork`].
pub trait NodeNetworkSocket: Send {
    /// The port that it listens on.
    ///
    /// # Errors
    /// Whatever the kernel says.
    fn port(&self) -> io::Result<u16>;

    /// Sends a message to one member.
    ///
    /// # Errors
    /// Whatever the kernel says.
    fn send(&self, message: &[u8], to: SocketAddr) -> io::Result<()>;

    /// Takes in at most so many messages.
    fn receive(&self, most: usize, hear: OnMessage<'_>);

    /// What to wait on, if messages are the kernel's to announce.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// This machine's kernel.
pub(super) struct Kernel;

impl System for Kernel {
    fn now(&self) -> Moment {
        clock::now()
    }

    fn open_segment(
        &self,
        name: &str,
        index: u32,
    ) -> Result<Box<dyn SegmentSockets>, PacketSocketError> {
        Ok(Box::new(PacketSocket::open(name, index)?))
    }

    fn open_node_network(&self, port: u16) -> Result<Box<dyn NodeNetworkSocket>, NodeNetworkError> {
        Ok(Box::new(NodeNetwork::open(port)?))
    }
}

impl SegmentSockets for PacketSocket {
    fn drain(&self) {
        Self::drain(self);
    }

    fn send_message(&self, own: Mac, message: &[u8]) -> io::Result<()> {
        Self::send_message(self, own, message)
    }

    fn receive_messages(&self, most: usize, hear: OnMessage<'_>) {
        Self::receive_messages(self, most, hear);
    }

    fn send(&self, frame: &[u8]) -> io::Result<()> {
        Self::send(self, frame)
    }

    fn receive(&self, most: usize, hear: OnFrame<'_>) {
        Self::receive(self, most, hear);
    }

    fn frames(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some(Self::frames(self))
    }

    fn messages(&self) -> Option<BorrowedFd<'_>> {
        Some(Self::messages(self))
    }
}

impl NodeNetworkSocket for NodeNetwork {
    fn port(&self) -> io::Result<u16> {
        Self::port(self)
    }

    fn send(&self, message: &[u8], to: SocketAddr) -> io::Result<()> {
        Self::send(self, message, to)
    }

    fn receive(&self, most: usize, hear: OnMessage<'_>) {
        Self::receive(self, most, hear);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(Self::descriptor(self))
    }
}
