//! The sockets through which a segment is heard and spoken to.
//!
//! There are three packet sockets, for ARP, for IPv6, and for what members say to each other, each
//! with a filter in the kernel that lets through only what is wanted. A socket for one protocol
//! alone is not given what this node sends itself, and not what arrives tagged for a VLAN of the
//! interface.
//!
//! Members' messages go to the group that is set aside for experiments, as their EtherType is. It is
//! one of those that switches forward to all ports without being asked (RFC 4541 section 2.1.2),
//! so that nothing depends on who listens to whose wishes there.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    ControlMessageOwned, LinkAddr, MsgFlags, RecvMsg, bind, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockFilter, Socket, Type};

use super::clock;
use crate::protocol::Moment;
use crate::protocol::mac::Mac;

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// The network control class: switches that look at it let these frames through congestion.
pub const PRIORITY: u32 = 6;
/// The first EtherType for local experiments (IEEE 802).
const ETHERTYPE_MESSAGE: u16 = 0x88b5;
/// The group for experiments (RFC 4727 section 2.4.1). The kernel joins it as an IPv4 group, so that
/// network cards let through the MAC address that belongs to it.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 254);
/// Its MAC address (RFC 1112 section 6.4).
const GROUP_MAC: Mac = Mac::new([0x01, 0x00, 0x5e, 0, 0, 254]);
/// Destination, source, EtherType.
const ETHERNET_HEADER: usize = 14;
/// Room for the longest frame that is looked at; what is longer is cut, and then not valid.
const LONGEST_FRAME: usize = 2048;

/// Why a segment cannot be heard.
#[derive(Debug, thiserror::Error)]
pub enum PacketSocketError {
    /// No packet socket.
    #[error("cannot open a packet socket; the daemon needs the capability NET_RAW")]
    Open(#[source] io::Error),
    /// The filter is refused.
    #[error("the kernel refuses the packet filter")]
    Filter(#[source] io::Error),
    /// The interface went away.
    #[error("interface {name} (index {index}) is gone")]
    Gone {
        /// Its name.
        name: String,
        /// Its number.
        index: u32,
    },
    /// The socket does not attach to the interface.
    #[error("cannot attach to interface {name}")]
    Attach {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
}

/// The sockets of one interface.
#[derive(Debug)]
pub struct PacketSocket {
    arp: Socket,
    ndp: Socket,
    messages: Socket,
    /// Holds the membership in the group.
    _member: Option<Socket>,
}

impl PacketSocket {
    /// Attaches to an interface.
    ///
    /// # Errors
    /// [`PacketSocketError`]: without NET_RAW, or if the interface is not there (any more).
    pub fn open(name: &str, index: u32) -> Result<Self, PacketSocketError> {
        let link = link_address(name, index)?;
        Ok(Self {
            arp: open(name, &link, ETHERTYPE_ARP, &ethertype_filter(ETHERTYPE_ARP))?,
            ndp: open(name, &link, ETHERTYPE_IPV6, &ndp_filter())?,
            messages: open(
                name,
                &link,
                ETHERTYPE_MESSAGE,
                &ethertype_filter(ETHERTYPE_MESSAGE),
            )?,
            _member: member(name, index),
        })
    }

    /// Forgets all that has arrived so far.
    pub fn drain(&self) {
        for socket in [&self.arp, &self.ndp, &self.messages] {
            receive(socket, usize::MAX, |_| ());
        }
    }

    /// Sends a message to all members, from this MAC address.
    ///
    /// # Errors
    /// What the kernel says: the link is down, the queue is full.
    pub fn send_message(&self, own: Mac, message: &[u8]) -> io::Result<()> {
        let ethertype = ETHERTYPE_MESSAGE.to_be_bytes();
        let frame = [&GROUP_MAC.octets()[..], &own.octets(), &ethertype, message].concat();
        self.messages.send(&frame).map(drop)
    }

    /// Hands over messages that have arrived, at most so many, and never waits.
    pub fn receive_messages(&self, most: usize, mut hear: impl FnMut(&[u8])) {
        receive(&self.messages, most, |frame| {
            hear(frame.get(ETHERNET_HEADER..).unwrap_or_default());
        });
    }

    /// Sends a whole Ethernet frame.
    ///
    /// # Errors
    /// What the kernel says: the link is down, the queue is full.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let is_arp = frame.get(12..14) == Some(&ETHERTYPE_ARP.to_be_bytes());
        let socket = if is_arp { &self.arp } else { &self.ndp };
        socket.send(frame).map(drop)
    }

    /// Hands over frames of ARP and neighbour discovery that have arrived, each with when it did, at
    /// most so many of each, and never waits.
    pub fn receive(&self, most: usize, mut hear: impl FnMut(&[u8], Moment)) {
        for socket in [&self.arp, &self.ndp] {
            receive_dated(socket, most, &mut hear);
        }
    }

    /// What to wait on for ARP and neighbour discovery.
    #[must_use]
    pub fn frames(&self) -> [BorrowedFd<'_>; 2] {
        [self.arp.as_fd(), self.ndp.as_fd()]
    }

    /// What to wait on for messages.
    #[must_use]
    pub fn messages(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

fn receive(mut socket: &Socket, most: usize, mut hear: impl FnMut(&[u8])) {
    let mut buffer = [0; LONGEST_FRAME];
    for _ in 0..most {
        match socket.read(&mut buffer) {
            Ok(length) => hear(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing more, or the link is down: whoever follows the links will tell.
            Err(_) => break,
        }
    }
}

/// As [`receive`], with the kernel's mark of when each frame came: it may have waited in the socket.
fn receive_dated(socket: &Socket, most: usize, mut hear: impl FnMut(&[u8], Moment)) {
    let mut buffer = [0; LONGEST_FRAME];
    let mut control = cmsg_space!(TimeSpec);
    for _ in 0..most {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let (descriptor, flags) = (socket.as_raw_fd(), MsgFlags::empty());
        let (length, came) =
            match recvmsg::<()>(descriptor, &mut parts, Some(control.as_mut_slice()), flags) {
                Ok(received) => (received.bytes, stamp(&received)),
                Err(Errno::EINTR) => continue,
                Err(_) => break,
            };
        let came = came.map_or_else(clock::now, clock::came);
        hear(buffer.get(..length).unwrap_or_default(), came);
    }
}

fn stamp(received: &RecvMsg<'_, '_, ()>) -> Option<TimeSpec> {
    let mut marks = received.cmsgs().ok()?;
    marks.find_map(|mark| match mark {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
        _ => None,
    })
}

/// Joins the group of the members.
fn member(name: &str, index: u32) -> Option<Socket> {
    let join = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.join_multicast_v4_n(&GROUP, &InterfaceIndexOrAddress::Index(index))?;
        Ok::<_, io::Error>(socket)
    };
    join()
        .inspect_err(|error| {
            tracing::warn!(interface = name, %error, "cannot join the multicast group {GROUP} of \
                the heartbeats: the network card may keep them away");
        })
        .ok()
}

/// The kernel's own form of "this interface", as a packet socket is bound to it.
fn link_address(name: &str, index: u32) -> Result<LinkAddr, PacketSocketError> {
    let gone = || PacketSocketError::Gone {
        name: name.to_owned(),
        index,
    };
    let mut interfaces = getifaddrs().map_err(|error| PacketSocketError::Open(error.into()))?;
    interfaces
        .find_map(|interface| {
            let address = *interface.address?.as_link_addr()?;
            let same =
                interface.interface_name == name && u32::try_from(address.ifindex()) == Ok(index);
            same.then_some(address)
        })
        .ok_or_else(gone)
}

fn open(
    name: &str,
    link: &LinkAddr,
    ethertype: u16,
    filter: &[SockFilter],
) -> Result<Socket, PacketSocketError> {
    let protocol = Protocol::from(i32::from(ethertype.to_be()));
    let socket =
        Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).map_err(PacketSocketError::Open)?;
    socket
        .set_nonblocking(true)
        .map_err(PacketSocketError::Open)?;
    // Until it is bound the socket hears every interface: it is deafened first, and emptied.
    socket
        .attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])
        .map_err(PacketSocketError::Filter)?;
    bind(socket.as_raw_fd(), link).map_err(|error| PacketSocketError::Attach {
        name: name.to_owned(),
        source: error.into(),
    })?;
    let mut leftover = [0; 1];
    let mut reader = &socket;
    while reader.read(&mut leftover).is_ok() {}
    socket
        .attach_filter(filter)
        .map_err(PacketSocketError::Filter)?;
    // Without it a frame counts as having come when it is read.
    if let Err(error) = setsockopt(&socket, sockopt::ReceiveTimestampns, &true) {
        tracing::debug!(%error, "the kernel does not say when frames come");
    }
    // Only a matter of precedence: where it is refused, frames leave all the same.
    if let Err(error) = socket.set_priority(PRIORITY) {
        tracing::debug!(%error, "cannot set the priority of announcements");
    }
    Ok(socket)
}

// Classic BPF, linux/bpf_common.h and linux/filter.h.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
/// SKF_AD_OFF + SKF_AD_PKTTYPE: where a filter finds for whom the frame is.
const PACKET_TYPE: u32 = 0xffff_f004;
/// PACKET_MULTICAST; below it are PACKET_HOST and PACKET_BROADCAST, above it what is for other
/// stations and what this node sent.
const LAST_PACKET_TYPE_FOR_US: u32 = 2;
const WHOLE_FRAME: u32 = 0xffff;

/// All that is of this EtherType.
fn ethertype_filter(ethertype: u16) -> [SockFilter; 6] {
    [
        SockFilter::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 3, 0, LAST_PACKET_TYPE_FOR_US),
        SockFilter::new(LOAD_HALF, 0, 0, 12),
        SockFilter::new(JUMP_EQUAL, 0, 1, u32::from(ethertype)),
        SockFilter::new(RETURN, 0, 0, WHOLE_FRAME),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}

/// Neighbour solicitations (135) and advertisements (136) that follow the IPv6 header directly.
fn ndp_filter() -> [SockFilter; 11] {
    [
        SockFilter::new(LOAD_WORD, 0, 0, PACKET_TYPE),
        SockFilter::new(JUMP_GREATER, 8, 0, LAST_PACKET_TYPE_FOR_US),
        SockFilter::new(LOAD_HALF, 0, 0, 12),
        SockFilter::new(JUMP_EQUAL, 0, 6, ETHERTYPE_IPV6 as u32),
        SockFilter::new(LOAD_BYTE, 0, 0, 20),
        SockFilter::new(JUMP_EQUAL, 0, 4, 58),
        SockFilter::new(LOAD_BYTE, 0, 0, 54),
        SockFilter::new(JUMP_EQUAL, 1, 0, 135),
        SockFilter::new(JUMP_EQUAL, 0, 1, 136),
        SockFilter::new(RETURN, 0, 0, WHOLE_FRAME),
        SockFilter::new(RETURN, 0, 0, 0),
    ]
}
