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

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, CacheInfo};
use nix::errno::Errno;
use rtnetlink::{AddressMessageBuilder, Handle, new_connection};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::observe::errno;

/// How long an address lives without being renewed, in seconds: the kernel counts in these.
const LIFETIME: u32 = 2;
/// How often it is renewed.
const RENEWAL: Duration = Duration::from_millis(500);
/// How often the right to it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long the kernel may take for one address.
const PATIENCE: Duration = Duration::from_millis(500);
/// After a failure.
const RETRY: Duration = Duration::from_millis(500);

/// An interface's number, and an address for it.
pub type Placed = (u32, IpAddr);

/// Says which addresses are to be there.
#[derive(Debug)]
pub struct KernelAddresses {
    wanted: watch::Sender<BTreeSet<Placed>>,
}

impl KernelAddresses {
    /// What keeps the addresses, for as long as it is polled. `held` says whether the right to an
    /// address is held at this moment; it is asked before each renewal and fifty times a second
    /// between, and must not wait.
    pub fn new(held: impl Fn(Placed) -> bool) -> (Self, impl Future<Output = ()>) {
        let (wanted, wishes) = watch::channel(BTreeSet::new());
        (Self { wanted }, keep(wishes, held))
    }

    /// Replaces the set. What is not in it any more is removed at once.
    pub fn set(&self, addresses: BTreeSet<Placed>) {
        self.wanted.send_if_modified(|known| {
            let changed = *known != addresses;
            *known = addresses;
            changed
        });
    }
}

async fn keep(mut wishes: watch::Receiver<BTreeSet<Placed>>, held: impl Fn(Placed) -> bool) {
    // When each was last renewed.
    let mut placed: BTreeMap<Placed, Instant> = BTreeMap::new();
    loop {
        match new_connection() {
            Ok((connection, handle, _messages)) => tokio::select! {
                () = connection => {}
                () = follow(&handle, &mut wishes, &held, &mut placed) => return,
            },
            Err(error) => tracing::warn!(%error, "cannot open a netlink socket"),
        }
        sleep(RETRY).await;
    }
}

async fn follow(
    handle: &Handle,
    wishes: &mut watch::Receiver<BTreeSet<Placed>>,
    held: &impl Fn(Placed) -> bool,
    placed: &mut BTreeMap<Placed, Instant>,
) {
    loop {
        let wanted: BTreeSet<Placed> = wishes.borrow_and_update().clone();
        let rightful = |address: Placed| wanted.contains(&address) && held(address);
        let over: Vec<_> = placed.keys().copied().filter(|a| !rightful(*a)).collect();
        for address in over {
            remove(handle, address).await;
            placed.remove(&address);
        }
        for address in &wanted {
            let renewed = placed.get(address).copied();
            let due = renewed.is_none_or(|renewed| renewed.elapsed() >= RENEWAL);
            // Asked at the last moment: what comes before it in the list takes its time.
            if due && held(*address) && renew(handle, *address).await {
                placed.insert(*address, Instant::now());
                if !held(*address) {
                    remove(handle, *address).await;
                    placed.remove(address);
                }
            }
        }
        tokio::select! {
            changed = wishes.changed() => if changed.is_err() {
                for address in std::mem::take(placed).into_keys() {
                    remove(handle, address).await;
                }
                return;
            },
            () = sleep(LOOK), if !wanted.is_empty() => {}
        }
    }
}

/// Puts an address on its interface, or prolongs its life. Says whether it is there.
async fn renew(handle: &Handle, address: Placed) -> bool {
    let mut request = handle
        .address()
        .add(address.0, address.1, host_bits(address.1))
        .replace();
    *request.message_mut() = message(address);
    match timeout(PATIENCE, request.execute()).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(address = %address.1, interface = address.0, %error, "cannot put a service address on its interface");
            false
        }
        Err(_) => false,
    }
}

async fn remove(handle: &Handle, address: Placed) {
    let removed = timeout(PATIENCE, handle.address().del(message(address)).execute()).await;
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

fn message((index, address): Placed) -> AddressMessage {
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
    lifetimes.ifa_valid = LIFETIME;
    lifetimes.ifa_preferred = 0;
    message.attributes.push(AddressAttribute::Flags(flags));
    message
        .attributes
        .push(AddressAttribute::CacheInfo(lifetimes));
    message
}
