//! The kernel's interfaces, addresses, routes and rules: asked for and changed over one socket, told
//! of by another.
//!
//! What the kernel tells unasked may be more than a socket has room for; it must not take that of
//! the kernel's answers.

use std::future::Future;
use std::io;

use futures::StreamExt;
use futures::channel::mpsc::UnboundedReceiver;
use futures::future::select;
use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressProtocol};
use netlink_sys::SocketAddr;
use rtnetlink::{Handle, MulticastGroup, new_connection, new_multicast_connection};

/// The protocol of the routes, rules and addresses that Mooring makes: no other program's in
/// `/etc/iproute2/rt_protos`.
pub const PROTOCOL: u8 = 77;

/// Why notifications end. Whoever follows the kernel opens both sockets anew and then looks at
/// everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// More came than the socket has room for. Until all that is in it is read, the kernel drops what
    /// comes without another word (`ENOBUFS`, netlink(7)): a look at everything may be too early, but
    /// not one that follows the opening of another socket.
    #[error("notifications of the kernel were lost")]
    Overrun,
    /// The socket was closed.
    #[error("the kernel's notifications have ended")]
    Closed,
}

/// What the kernel tells unasked.
pub struct Notifications(UnboundedReceiver<(NetlinkMessage<RouteNetlinkMessage>, SocketAddr)>);

impl Notifications {
    /// The next one.
    ///
    /// # Errors
    /// [`Ended`].
    pub async fn next(&mut self) -> Result<RouteNetlinkMessage, Ended> {
        loop {
            let (message, _) = self.0.next().await.ok_or(Ended::Closed)?;
            if let Some(told) = read(message)? {
                return Ok(told);
            }
        }
    }

    /// Passes over those that have come: a look at everything that begins now covers them.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn skip(&mut self) -> Result<(), Ended> {
        while let Ok((message, _)) = self.0.try_recv() {
            read(message)?;
        }
        Ok(())
    }
}

fn read(
    message: NetlinkMessage<RouteNetlinkMessage>,
) -> Result<Option<RouteNetlinkMessage>, Ended> {
    match message.payload {
        NetlinkPayload::InnerMessage(told) => Ok(Some(told)),
        NetlinkPayload::Overrun(_) => Err(Ended::Overrun),
        _ => Ok(None),
    }
}

/// Opens both sockets. The future carries what is asked, answered and told; it completes when one of
/// them is closed.
///
/// # Errors
/// Those of socket(2) and bind(2).
pub fn open(
    groups: &[MulticastGroup],
) -> io::Result<(impl Future<Output = ()>, Handle, Notifications)> {
    let (answers, handle, unasked) = new_connection()?;
    let (notifications, _, told) = new_multicast_connection(groups)?;
    let carry = async move {
        // An answer that nobody waits for any more.
        let _unasked = unasked;
        select(answers, notifications).await;
    };
    Ok((carry, handle, Notifications(told)))
}

/// Whether an address is one that Mooring has put on an interface.
#[must_use]
pub fn is_ours(message: &AddressMessage) -> bool {
    let mark = AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL));
    message.attributes.contains(&mark)
}

/// Whether the kernel's message is about an address that Mooring has put on an interface.
#[must_use]
pub fn is_told_of(message: &RouteNetlinkMessage) -> bool {
    match message {
        RouteNetlinkMessage::NewAddress(message) | RouteNetlinkMessage::DelAddress(message) => {
            is_ours(message)
        }
        _ => false,
    }
}
