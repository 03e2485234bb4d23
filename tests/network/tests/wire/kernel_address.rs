//! Service addresses on an interface, in a network namespace of their own: the kernel is the judge.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mooring_node::vlan::PROTOCOL;
use mooring_node::vlan::kernel_address::{InterfaceAddress, KernelAddresses, sweep};
use netlink_packet_route::address::{AddressAttribute, AddressProtocol};
use nix::ifaddrs::getifaddrs;
use tokio::task::JoinHandle;

use super::netns::{in_netns, link_index, sh};

const V4: &str = "192.0.2.10";
const V6: &str = "2001:db8::10";

/// An interface and a runtime.
fn on_an_interface(test: &str, body: impl AsyncFnOnce(u32)) {
    in_netns(test, || {
        sh("ip link set lo up");
        sh("ip link add eth0 type veth peer name far");
        sh("ip link set far up");
        sh("ip link set eth0 up");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(body(link_index("eth0")));
    });
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn both(index: u32) -> [InterfaceAddress; 2] {
    [(index, ip(V4)), (index, ip(V6))]
}

fn has(address: &str) -> bool {
    getifaddrs().unwrap().any(|there| {
        let Some(there) = there.address else {
            return false;
        };
        let four = there.as_sockaddr_in().map(|address| address.ip().into());
        let six = there.as_sockaddr_in6().map(|address| address.ip().into());
        four.or(six) == Some(ip(address))
    })
}

async fn until(what: &str, test: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !test() {
        assert!(
            start.elapsed() < Duration::from_secs(15),
            "{what}: not within 15 s"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

/// Keeps addresses, with the right to them in the test's hand.
struct Kept {
    addresses: KernelAddresses,
    right: Arc<AtomicBool>,
    keeping: JoinHandle<()>,
}

impl Kept {
    async fn start(index: u32) -> Self {
        let right = Arc::new(AtomicBool::new(true));
        let held = Arc::clone(&right);
        let (addresses, keep) = KernelAddresses::new(move |_| held.load(Ordering::Relaxed));
        let keeping = tokio::spawn(keep);
        addresses.set(both(index).into());
        until("both are there", || has(V4) && has(V6)).await;
        Self {
            addresses,
            right,
            keeping,
        }
    }
}

#[test]
fn address_lives_as_long_as_right() {
    let name = "address_lives_as_long_as_right";
    on_an_interface(name, async |index| {
        let kept = Kept::start(index).await;
        let shown = sh("ip address show dev eth0");
        for text in ["noprefixroute", "preferred_lft 0sec", "deprecated"] {
            assert_eq!(shown.matches(text).count(), 2, "{text}: {shown}");
        }
        assert!(!sh("ip -6 route show table main").contains(V6));
        // For longer than it lives by itself it is never gone.
        let start = Instant::now();
        until("three seconds", || {
            assert!(has(V4) && has(V6), "after {:?}", start.elapsed());
            start.elapsed() > Duration::from_secs(3)
        })
        .await;
        // The right is lost: gone at once. It comes back: there again.
        kept.right.store(false, Ordering::Relaxed);
        let took = until("both are gone", || !has(V4) && !has(V6)).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        kept.right.store(true, Ordering::Relaxed);
        until("both are there again", || has(V4) && has(V6)).await;
        // Somebody removes one: it is there again with the next renewal.
        sh("ip address delete 192.0.2.10/32 dev eth0");
        until("it is there again", || has(V4)).await;
        kept.addresses.set([(index, ip(V6))].into());
        until("one is gone", || !has(V4) && has(V6)).await;
        // The daemon dies without a word.
        kept.keeping.abort();
        let took = until("the other is gone too", || !has(V6)).await;
        println!("an address of a dead daemon is gone after {took:?}");
        assert!(took > Duration::from_secs(1), "{took:?}: not by itself");
    });
}

#[test]
fn dropping_removes_addresses_unless_left() {
    let name = "dropping_removes_addresses_unless_left";
    on_an_interface(name, async |index| {
        let kept = Kept::start(index).await;
        drop(kept.addresses);
        kept.keeping.await.unwrap();
        assert!(!has(V4) && !has(V6));

        let kept = Kept::start(index).await;
        kept.addresses.leave();
        kept.right.store(false, Ordering::Relaxed);
        kept.keeping.await.unwrap();
        assert!(has(V4) && has(V6), "the next process goes on with them");
    });
}

/// Puts an address on an interface, with the mark of those of Mooring.
pub async fn add_marked(index: u32, address: IpAddr, length: u8) {
    let (connection, handle, _) = rtnetlink::new_connection().unwrap();
    tokio::spawn(connection);
    let mut request = handle.address().add(index, address, length);
    let mark = AddressAttribute::Protocol(AddressProtocol::Other(PROTOCOL));
    request.message_mut().attributes.push(mark);
    request.execute().await.unwrap();
}

#[test]
fn sweep_removes_only_own_addresses() {
    let name = "sweep_removes_only_own_addresses";
    on_an_interface(name, async |index| {
        sh("ip address add 192.0.2.9/24 dev eth0");
        for (address, length) in [(ip(V4), 32), (ip(V6), 128)] {
            add_marked(index, address, length).await;
        }
        assert!(has(V4) && has(V6));
        sweep(|_| true).await;
        assert!(!has(V4) && !has(V6));
        assert!(has("192.0.2.9"), "it is somebody else's");
    });
}
