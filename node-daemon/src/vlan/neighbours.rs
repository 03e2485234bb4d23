//! Tells the kernel where the routers of VLANs are.
//!
//! The interface of a VLAN has no address of its own, so the kernel asks for the router in the name of
//! another interface's, and there are routers that do not answer that. They do answer the questions that
//! are sent in the name of service addresses. The kernel hears those answers too, and takes them only if it
//! has an entry for the router already. So it is told.
//!
//! The entries are as if the kernel had learnt them: it may doubt them after half a minute. Until then
//! the router has been asked again.

use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourState};
use rtnetlink::{Handle, new_connection};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::protocol::mac::Mac;

/// How many may wait: they are told again soon.
const WAITING: usize = 64;
/// How long the kernel may take.
const KERNEL_TIMEOUT: Duration = Duration::from_millis(500);
/// After a failure.
const RETRY: Duration = Duration::from_secs(1);

/// A router: its interface's number, its address, and where it is.
type Router = (u32, IpAddr, Mac);

/// Takes what was heard of routers.
#[derive(Debug)]
pub struct Neighbours {
    routers: mpsc::Sender<Router>,
}

impl Neighbours {
    /// What tells the kernel, for as long as it is polled. It ends when the other half is dropped.
    pub fn new() -> (Self, impl Future<Output = ()>) {
        let (routers, heard) = mpsc::channel(WAITING);
        (Self { routers }, keep(heard))
    }

    /// A router was heard on the interface with this number. It never waits.
    pub fn heard(&self, index: u32, router: IpAddr, mac: Mac) {
        if let Err(error) = self.routers.try_send((index, router, mac)) {
            tracing::debug!(%router, %error, "the kernel is not told of a router");
        }
    }
}

async fn keep(mut heard: mpsc::Receiver<Router>) {
    // As long as there is no router there is no socket.
    while let Some(first) = heard.recv().await {
        match new_connection() {
            Ok((connection, handle, _messages)) => tokio::select! {
                () = connection => {}
                () = follow(&handle, first, &mut heard) => return,
            },
            Err(error) => tracing::warn!(%error, "cannot open a netlink socket"),
        }
        sleep(RETRY).await;
    }
}

async fn follow(handle: &Handle, first: Router, heard: &mut mpsc::Receiver<Router>) {
    let mut next = Some(first);
    while let Some((index, router, mac)) = next {
        add_neighbour(handle, index, router, mac).await;
        next = heard.recv().await;
    }
}

async fn add_neighbour(handle: &Handle, index: u32, router: IpAddr, mac: Mac) {
    let flags = match router {
        IpAddr::V4(_) => NeighbourFlags::empty(),
        IpAddr::V6(_) => NeighbourFlags::Router,
    };
    let request = handle
        .neighbours()
        .add(index, router)
        .link_layer_address(&mac.octets())
        .state(NeighbourState::Reachable)
        .flags(flags)
        .replace();
    match timeout(KERNEL_TIMEOUT, request.execute()).await {
        Ok(Ok(())) => {}
        // The interface may have gone meanwhile; and the kernel may know the router all the same.
        Ok(Err(error)) => {
            tracing::debug!(%router, %mac, interface = index, %error, "the kernel does not take a router");
        }
        Err(_) => tracing::debug!(%router, "the kernel is silent"),
    }
}
