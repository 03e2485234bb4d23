//! A relay in user space between a host and the switch, for what daemons and neighbours say.
//!
//! ```text
//!   host ── eth0 ═ p-host ──── rules: drop what is relayed ────► bridge
//!                    │ tap                                        ▲
//!                    └─► Relay: lose, delay, duplicate ─► r-host ═ q-host
//! ```
//!
//! Heartbeats of both paths, ARP and neighbour discovery pass it, on their way from the host; all
//! else takes its usual way. What comes later than something younger is disorder.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write as _;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use socket2::Socket;

use super::capture::{next_frame, open, open_filtered};
use super::frame::Mac;
use super::port::{Direction, Port};
use super::raw::checksum;
use super::{filters, ip, run};

/// What a relay does to frames.
#[derive(Clone, Copy, Debug)]
pub struct Mischief {
    /// Same seed, same decisions for the same frames.
    pub seed: u64,
    /// Each frame takes at least and at most so long.
    pub delay: (Duration, Duration),
    /// Of a hundred, how many are lost.
    pub lost: u64,
    /// Of a hundred, how many come twice, each with a delay of its own.
    pub duplicated: u64,
}

impl Mischief {
    /// None.
    pub const fn seeded(seed: u64) -> Self {
        Self {
            seed,
            delay: (Duration::ZERO, Duration::ZERO),
            lost: 0,
            duplicated: 0,
        }
    }
}

/// Numbers that look random and follow from a seed (xorshift64*).
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit.max(1)
    }
}

impl Mischief {
    /// After how long a frame comes out: not at all, once, or twice.
    fn fate(&self, dice: &mut Dice) -> Vec<Duration> {
        if dice.below(100) < self.lost {
            return Vec::new();
        }
        let times = if dice.below(100) < self.duplicated {
            2
        } else {
            1
        };
        let (least, most) = self.delay;
        let range = u64::try_from((most - least).as_micros()).unwrap_or(u64::MAX);
        (0..times)
            .map(|_| least + Duration::from_micros(dice.below(range + 1)))
            .collect()
    }
}

type Late = Reverse<(Instant, u64, Vec<u8>)>;

#[derive(Default)]
struct Queue {
    frames: Mutex<BinaryHeap<Late>>,
    news: Condvar,
}

/// A relay at work. It is gone, and the cable straight again, when this is dropped.
#[derive(Debug)]
pub struct Relay {
    port: Port,
    own: String,
    passed: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Port {
    /// Lets what this host says pass a relay. Rules at this port before are over.
    pub fn relay(&self, mischief: Mischief) -> Result<Relay> {
        let port = self.name();
        let (own, other) = (port.replacen("-", "r-", 1), port.replacen("-", "q-", 1));
        let bridge = run("ip", &["-json", "link", "show", "dev", port])?;
        let bridge: serde_json::Value = serde_json::from_str(&bridge)?;
        let bridge = bridge[0]["master"].as_str().context("it is on no bridge")?;
        self.mend()?;
        ip(&format!("link add {own} type veth peer name {other}"))?;
        ip(&format!("link set {other} master {bridge} up"))?;
        ip(&format!("link set {own} up"))?;
        // The switch goes on to know the host at its own port, and sends nothing here.
        let off = ["learning", "flood", "mcast_flood", "bcast_flood"];
        for what in off {
            run("bridge", &["link", "set", "dev", &other, what, "off"])?;
        }
        let mut relay = Relay {
            port: self.clone(),
            own: own.clone(),
            passed: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let tap = open_filtered(port, &filters::control())?;
        let out = open(&own)?;
        let mac = self.host_mac()?;
        let of_group = format!("ether saddr {mac} drop");
        // What the host has said comes back from the relay's own port, as a group's.
        self.rule(Direction::Receives, &of_group)?;
        for rule in [
            "meta protocol 0x88b5 drop",
            "meta protocol arp drop",
            "udp dport 10268 drop",
            "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } drop",
        ] {
            self.rule(Direction::Sends, rule)?;
        }
        relay.work(tap, out, mac, mischief);
        Ok(relay)
    }
}

impl Relay {
    /// How many frames have come in.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    fn work(&mut self, tap: Socket, mut out: Socket, source: Mac, mischief: Mischief) {
        let queue = Arc::new(Queue::default());
        let (stop, passed, waiting) = (
            Arc::clone(&self.stop),
            Arc::clone(&self.passed),
            Arc::clone(&queue),
        );
        self.threads.push(std::thread::spawn(move || {
            let mut dice = Dice::new(mischief.seed);
            let (mut buffer, mut number) = (vec![0; 1 << 16], 0);
            while !stop.load(Ordering::Relaxed) {
                let Ok(Some(frame)) = next_frame(&tap, &mut buffer) else {
                    continue;
                };
                // What goes to the host is seen as well: relayed, it would go round for ever.
                let is_its_own = frame.bytes.get(6..12) == Some(&source.0);
                if !is_its_own || !is_relayed(&frame.bytes) {
                    continue;
                }
                passed.fetch_add(1, Ordering::Relaxed);
                let bytes = with_checksum(frame.bytes);
                for delay in mischief.fate(&mut dice) {
                    number += 1;
                    let late = Reverse((frame.at + delay, number, bytes.clone()));
                    let frames = waiting.frames.lock();
                    frames.unwrap_or_else(PoisonError::into_inner).push(late);
                    waiting.news.notify_one();
                }
            }
        }));
        let stop = Arc::clone(&self.stop);
        self.threads.push(std::thread::spawn(move || {
            let mut frames = queue.frames.lock().unwrap_or_else(PoisonError::into_inner);
            while !stop.load(Ordering::Relaxed) {
                let due = frames.peek().map(|Reverse((due, ..))| *due);
                let now = Instant::now();
                if due.is_some_and(|due| due <= now) {
                    if let Some(Reverse((_, _, bytes))) = frames.pop() {
                        // Lost on the way out is lost.
                        let _ = out.write_all(&bytes);
                    }
                    continue;
                }
                let longest = Duration::from_millis(50);
                let span = due.map_or(longest, |due| due - now).min(longest);
                let waited = queue.news.wait_timeout(frames, span);
                frames = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic in it has been reported already.
            let _ = thread.join();
        }
        // The netlab may be ending.
        let _ = ip(&format!("link del {}", self.own));
        let _ = self.port.mend();
    }
}

/// Of ICMPv6, only neighbour discovery is held back on the usual way.
fn is_relayed(bytes: &[u8]) -> bool {
    let is_icmpv6 = bytes.get(12..14) == Some(&[0x86, 0xdd]) && bytes.get(20) != Some(&17);
    !is_icmpv6 || matches!((bytes.get(20), bytes.get(54)), (Some(58), Some(135 | 136)))
}

/// On virtual cables the checksum of UDP is left to the last device, which there is none.
fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    match bytes.get(12..14) {
        Some([0x08, 0x00]) if bytes.get(23) == Some(&17) => {
            let at = 14 + usize::from(bytes[14] & 0xf) * 4 + 6;
            // None at all, which IPv4 permits.
            if let Some(sum) = bytes.get_mut(at..at + 2) {
                sum.fill(0);
            }
        }
        Some([0x86, 0xdd]) if bytes.get(20) == Some(&17) && bytes.len() >= 62 => {
            let address = |at: usize| {
                let octets = <[u8; 16]>::try_from(&bytes[at..at + 16]);
                Ipv6Addr::from(octets.unwrap_or_default())
            };
            let (source, destination) = (address(22), address(38));
            bytes[60..62].fill(0);
            let length = usize::from(u16::from_be_bytes([bytes[18], bytes[19]]));
            let end = bytes.len().min(54 + length);
            let sum = checksum(17, source, destination, &bytes[54..end]);
            bytes[60..62].copy_from_slice(&sum.to_be_bytes());
        }
        _ => {}
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_does_the_same_mischief() {
        let mischief = Mischief {
            delay: (Duration::from_millis(2), Duration::from_millis(9)),
            lost: 10,
            duplicated: 20,
            ..Mischief::seeded(7)
        };
        let fates = |seed| {
            let mut dice = Dice::new(seed);
            let fates = (0..1000).map(|_| mischief.fate(&mut dice));
            fates.collect::<Vec<_>>()
        };
        let all = fates(7);
        assert_eq!(all, fates(7));
        assert_ne!(all, fates(8));
        let count = |times| all.iter().filter(|fate| fate.len() == times).count();
        assert!((60..140).contains(&count(0)) && (130..230).contains(&count(2)));
        let (least, most) = mischief.delay;
        let mut delays = all.iter().flatten();
        assert!(delays.all(|delay| (least..=most).contains(delay)));
    }
}
