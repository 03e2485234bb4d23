//! Service addresses on an interface of the node, for as long as the node has the right to them.
//!
//! The kernel itself is the dead man's switch: an address has two seconds to live, and gets two more
//! twice a second. A daemon that dies, or hangs, loses its addresses within 2.4 s, whatever it was
//! doing (measured; another node may answer for them by then, which is why this is no default).
//! Answers come from the kernel then.
//!
//! `preferred_lft 0` keeps the address from being chosen as the source of this node's own
//! connections, `noprefixroute` keeps it from changing routes, and IPv6 does not look for doubles
//! first, which would take up to two seconds.
//!
//! The addresses bear the protocol [`PROTOCOL`], by which a daemon that starts finds and removes what
//! a dead one has left. Kernels before 5.18 do not keep it; there they are gone a moment later.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressProtocol, CacheInfo,
};
use nix::errno::Errno;
use rtnetlink::{AddressMessageBuilder, Handle, new_connection};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::PROTOCOL;
use super::observe::errno;
use crate::wire::netlink::is_ours;

/// How long an address lives without being renewed, in seconds: the kernel counts in these.
const LIFETIME: u32 = 2;
/// How often it is renewed.
const RENEWAL: Duration = Duration::from_millis(500);
/// How often the right to it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long the kernel may take for one address.
const KERNEL_TIMEOUT: Duration = Duration::from_millis(500);
/// After a failure.
const RETRY: Duration = Duration::from_millis(500);

/// An interface's number, and an address for it.
pub type InterfaceAddress = (u32, IpAddr);

/// What is to be there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DesiredAddresses {
    /// These, while the right to each is held.
    WhileHeld(BTreeSet<InterfaceAddress>),
    /// Everything is left as it is, for so many seconds if that is said.
    Left(Option<u32>),
}

/// Says which addresses are to be there. When it is dropped, they are removed.
#[derive(Debug)]
pub struct KernelAddresses {
    desired: watch::Sender<DesiredAddresses>,
}

impl KernelAddresses {
    /// What keeps the addresses, for as long as it is polled. `held` says whether the right to an
    /// address is held at this moment; it is asked before each renewal and fifty times a second
    /// between, and must not wait.
    pub fn new(held: impl Fn(InterfaceAddress) -> bool) -> (Self, impl Future<Output = ()>) {
        let none = DesiredAddresses::WhileHeld(BTreeSet::new());
        let (desired, desired_changes) = watch::channel(none);
        (Self { desired }, keep(desired_changes, held))
    }

    /// Replaces the set. What is not in it any more is removed at once.
    pub fn set(&self, addresses: BTreeSet<InterfaceAddress>) {
        self.desired.send_if_modified(|known| {
            let desired = DesiredAddresses::WhileHeld(addresses);
            let changed = *known != desired;
            *known = desired;
            changed
        });
    }

    /// Says that rights have changed: they are looked at now and not only soon.
    pub fn look(&self) {
        self.desired.send_modify(|_| ());
    }

    /// Nothing is removed or renewed any more: another process goes on with what is there.
    pub fn leave(&self) {
        self.desired.send_replace(DesiredAddresses::Left(None));
    }

    /// Nothing is removed any more, and what is there stays for that long: this process ends, and another is soon to
    /// take its place. Until then packets of neighbours that know no better are still accepted.
    pub fn leave_for(&self, time: Duration) {
        let seconds = u32::try_from(time.as_secs()).unwrap_or(LIFETIME);
        self.desired
            .send_replace(DesiredAddresses::Left(Some(seconds)));
    }
}

/// The kernel's number of `lo`, in every network namespace. On it are the addresses of the control plane, whose
/// process is another than the one that speaks for Services.
pub const LOOPBACK: u32 = 1;

/// Removes what a dead process has left on the interfaces that are its own. What fails is gone by itself a
/// moment later.
pub async fn sweep(is_own: impl Fn(u32) -> bool) {
    let (connection, handle, _messages) = match new_connection() {
        Ok(opened) => opened,
        Err(error) => {
            tracing::warn!(%error, "cannot open a netlink socket");
            return;
        }
    };
    let remove_all = async {
        let mut messages = handle.address().get().execute();
        let mut left = Vec::new();
        while let Some(message) = messages.try_next().await? {
            if is_ours(&message) && is_own(message.header.index) {
                left.push(message);
            }
        }
        for message in left {
            let address = address_of(&message).map(|address| address.to_string());
            tracing::info!(
                interface = message.header.index,
                address,
                "removing a service address that a daemon before this one has left"
            );
            handle.address().del(message).execute().await?;
        }
        Ok::<_, rtnetlink::Error>(())
    };
    tokio::select! {
        () = connection => {}
        done = timeout(KERNEL_TIMEOUT, remove_all) => if let Ok(Err(error)) = done {
            tracing::debug!(%error, "cannot remove what a daemon before this one has left");
        },
    }
}

fn address_of(message: &AddressMessage) -> Option<IpAddr> {
    message
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
}

async fn keep(
    mut desired_changes: watch::Receiver<DesiredAddresses>,
    held: impl Fn(InterfaceAddress) -> bool,
) {
    // When each was last renewed.
    let mut placed: BTreeMap<InterfaceAddress, Instant> = BTreeMap::new();
    loop {
        // As long as nobody wants any there is no socket.
        let any = desired_changes.wait_for(|desired| match desired {
            DesiredAddresses::WhileHeld(desired) => !desired.is_empty(),
            DesiredAddresses::Left(_) => true,
        });
        if any.await.is_err() {
            return;
        }
        match new_connection() {
            Ok((connection, handle, _messages)) => tokio::select! {
                () = connection => {}
                () = follow(&handle, &mut desired_changes, &held, &mut placed) => return,
            },
            Err(error) => tracing::warn!(%error, "cannot open a netlink socket"),
        }
        sleep(RETRY).await;
    }
}

/// Returns when there is nothing to be done any more.
async fn follow(
    handle: &Handle,
    desired_changes: &mut watch::Receiver<DesiredAddresses>,
    held: &impl Fn(InterfaceAddress) -> bool,
    placed: &mut BTreeMap<InterfaceAddress, Instant>,
) {
    loop {
        let desired = desired_changes.borrow_and_update().clone();
        let wanted = match desired {
            DesiredAddresses::WhileHeld(wanted) => wanted,
            DesiredAddresses::Left(lifetime) => {
                if let Some(lifetime) = lifetime {
                    for address in placed.keys() {
                        renew(handle, *address, lifetime).await;
                    }
                }
                return;
            }
        };
        let rightful = |address: InterfaceAddress| wanted.contains(&address) && held(address);
        let over: Vec<_> = placed.keys().copied().filter(|a| !rightful(*a)).collect();
        for address in over {
            remove(handle, address).await;
            placed.remove(&address);
        }
        for address in &wanted {
            let renewed = placed.get(address).copied();
            let due = renewed.is_none_or(|renewed| renewed.elapsed() >= RENEWAL);
            // Asked at the last moment: what comes before it in the list takes its time.
            if due && held(*address) && renew(handle, *address, LIFETIME).await {
                placed.insert(*address, Instant::now());
                let is_left = matches!(*desired_changes.borrow(), DesiredAddresses::Left(_));
                if !held(*address) && !is_left {
                    remove(handle, *address).await;
                    placed.remove(address);
                }
            }
        }
        tokio::select! {
            changed = desired_changes.changed() => if changed.is_err() {
                for address in std::mem::take(placed).into_keys() {
                    remove(handle, address).await;
                }
                return;
            },
            () = sleep(LOOK), if !wanted.is_empty() => {}
        }
    }
}

/// Puts an address on its interface, or sets how long it lives from now on, in seconds. Says whether it is there.
async fn renew(handle: &Handle, address: InterfaceAddress, lifetime: u32) -> bool {
    let mut request = handle
        .address()
        .add(address.0, address.1, host_bits(address.1))
        .replace();
    *request.message_mut() = message(address, lifetime);
    match timeout(KERNEL_TIMEOUT, request.execute()).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(address = %address.1, interface = address.0, %error, "cannot put a service address on its interface");
            false
        }
        Err(_) => false,
    }
}

async fn remove(handle: &Handle, address: InterfaceAddress) {
    let removed = timeout(
        KERNEL_TIMEOUT,
        handle.address().del(message(address, LIFETIME)).execute(),
    )
    .await;
    if let Ok(Err(error)) = removed
        && !matches!(
            errno(&error).map(Errno::from_raw),
            Some(Errno::EADDRNOTAVAIL | Errno::ENODEV)
        )
    {
        // It lives for two seconds at most.
        tracing::warn!(address = %address.1, interface = address.0, %error, "cannot remove a service address");
    }
}

const fn host_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn message((index, address): InterfaceAddress, lifetime: u32) -> AddressMessage {
    let mut flags = AddressFlags::Noprefixroute;
    let mut message = match address {
        IpAddr::V4(address) => AddressMessageBuilder::<Ipv4Addr>::new()
            .index(index)
            .address(address, 32)
            .build(),
        IpAddr::V6(address) => {
            flags |= AddressFlags::Nodad;
            AddressMessageBuilder::<Ipv6Addr>::new()
                .index(index)
                .address(address, 128)
                .build()
        }
    };
    let mut lifetimes = CacheInfo::default();
    lifetimes.ifa_valid = lifetime;
    lifetimes.ifa_preferred = 0;
    message.attributes.push(AddressAttribute::Flags(flags));
    message.attributes.extend([
        AddressAttribute::CacheInfo(lifetimes),
        AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL)),
    ]);
    message
}
