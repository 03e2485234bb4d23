//! Service addresses on an interface.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mooring_node::vlan::kernel_address::KernelAddresses;
use mooring_tests::figures::figure_time;
use mooring_tests::vm::in_vm;
use mooring_tests::wait::{eventually, never};
use nix::ifaddrs::getifaddrs;

use crate::scene::{LIMIT, ip, link, sh, try_sh};

/// Asks the kernel itself: starting a program takes too long in the VM.
fn has(address: &str) -> bool {
    let wanted: IpAddr = address.parse().unwrap();
    getifaddrs().unwrap().any(|there| {
        let Some(there) = there.address else {
            return false;
        };
        let four = there.as_sockaddr_in().map(|address| address.ip().into());
        let six = there.as_sockaddr_in6().map(|address| address.ip().into());
        four.or(six) == Some(wanted)
    })
}

#[test]
fn an_address_lives_only_as_long_as_somebody_has_the_right_to_it() {
    in_vm(async || {
        sh("ip link add eth0 type dummy; ip link set eth0 up");
        let index = u32::try_from(link("eth0")["ifindex"].as_u64().unwrap()).unwrap();
        let right = Arc::new(AtomicBool::new(true));
        let (addresses, keep) = KernelAddresses::new({
            let right = Arc::clone(&right);
            move |_| right.load(Ordering::Relaxed)
        });
        let keeping = tokio::spawn(keep);
        let four: IpAddr = "192.0.2.10".parse().unwrap();
        let six: IpAddr = "2001:db8::10".parse().unwrap();
        let both = || has("192.0.2.10") && has("2001:db8::10");
        addresses.set([(index, four), (index, six)].into());
        eventually("both are there", LIMIT, async || both()).await;
        let shown = ip("address show dev eth0").unwrap().to_string();
        println!("{shown}");
        for text in [
            "\"noprefixroute\":true",
            "\"preferred_life_time\":0",
            "\"deprecated\":true",
        ] {
            assert_eq!(shown.matches(text).count(), 2, "{text}");
        }
        assert!(
            !sh("ip route show table main; ip -6 route show table main").contains("2001:db8::10")
        );
        // Longer than its lifetime it is never gone.
        let start = Instant::now();
        never(
            "an address goes while the right to it is held",
            LIMIT,
            async || start.elapsed() > Duration::from_secs(5),
            async || (!both()).then(|| sh("ip address show dev eth0")),
        )
        .await;
        // The right is lost: gone at once. It comes back: there again.
        right.store(false, Ordering::Relaxed);
        let start = Instant::now();
        eventually("both are gone", LIMIT, async || {
            !has("192.0.2.10") && !has("2001:db8::10")
        })
        .await;
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "{:?}",
            start.elapsed()
        );
        right.store(true, Ordering::Relaxed);
        eventually("both are there again", LIMIT, async || both()).await;
        // Somebody removes one: it is there again with the next renewal.
        sh("ip address delete 192.0.2.10/32 dev eth0");
        eventually("it is there again", LIMIT, async || both()).await;
        addresses.set([(index, six)].into());
        eventually("one is gone", LIMIT, async || {
            !has("192.0.2.10") && has("2001:db8::10")
        })
        .await;
        // The daemon dies without a word.
        keeping.abort();
        let start = Instant::now();
        eventually("the other is gone too", LIMIT, async || {
            !has("2001:db8::10")
        })
        .await;
        let took = start.elapsed();
        figure_time(
            "service address of a dead daemon gone from its interface (emulated)",
            took,
        );
        assert!(took < Duration::from_secs(6), "{took:?}");
        assert!(try_sh("ip link show eth0").is_ok());
    });
}
