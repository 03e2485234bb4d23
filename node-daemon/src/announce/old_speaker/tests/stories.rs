//! Whatever happens, and in whatever order.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Happening {
    Pass(u64),
    Mine(u8, bool),
    Renewed,
    Link(bool),
    Claim(u8, u8),
    Ask(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0..4000_u64).prop_map(Happening::Pass),
        (0..3_u8, any::<bool>()).prop_map(|(a, on)| Happening::Mine(a, on)),
        Just(Happening::Renewed),
        any::<bool>().prop_map(Happening::Link),
        (0..3_u8, 0..3_u8).prop_map(|(a, who)| Happening::Claim(a, who)),
        (0..3_u8).prop_map(Happening::Ask),
    ]
}

/// What the property test knows of an address: never forgotten, only overwritten.
#[derive(Default)]
struct Entry {
    /// Silent for as many own renewals more; 0: not silent.
    left: u64,
    /// No own renewal has been seen since it fell silent.
    fresh: bool,
    /// How many it was at the last yield; 0: no yield that counts.
    last: u64,
    /// Since when it has been ours undisturbed.
    since: Option<Instant>,
}

/// The second, simpler bookkeeping.
#[derive(Default)]
struct Book {
    entries: BTreeMap<IpAddr, Entry>,
    renewals: u64,
}

impl Book {
    fn silent(&self, address: IpAddr) -> bool {
        self.entries
            .get(&address)
            .is_some_and(|entry| entry.left > 0)
    }

    fn viewed(&mut self, bench: &Bench) {
        let renewed = bench.renewals > self.renewals;
        self.renewals = bench.renewals;
        for (address, entry) in &mut self.entries {
            let was_silent = entry.left > 0;
            if renewed {
                entry.left = entry.left.saturating_sub(1);
                entry.fresh = false;
            }
            if !bench.mine.contains_key(address) {
                entry.last = 0;
                entry.left = u64::from(entry.left > 0 && entry.fresh);
            }
            if was_silent && entry.left == 0 {
                entry.since = Some(bench.now);
            }
        }
    }

    fn unplugged(&mut self, bench: &Bench) {
        for address in bench.mine.keys() {
            let entry = self.entries.entry(*address).or_default();
            if entry.left == 0 {
                (entry.left, entry.fresh) = (1, true);
            }
        }
    }

    fn plugged_in(&mut self, bench: &Bench) {
        for entry in self.entries.values_mut() {
            entry.since = Some(bench.now);
        }
    }

    fn yielded(&mut self, address: IpAddr, bench: &Bench) {
        let entry = self.entries.entry(address).or_default();
        let peace = entry
            .since
            .is_some_and(|since| bench.now - since >= ms(60_000));
        entry.last = if peace || entry.last == 0 {
            1
        } else {
            16.min(entry.last * 2)
        };
        (entry.left, entry.fresh) = (entry.last, true);
    }
}
proptest! {
    /// Whatever happens, no frame leaves for an address that is not ours, was yielded, or without
    /// a link, as a second, simpler bookkeeping sees it.
    #[test]
    fn no_frame_leaves_without_a_mandate(story in prop::collection::vec(happening(), 1..60)) {
        let address = |n: u8| [V4, V6, "192.0.2.12"][usize::from(n)];
        let mut bench = Bench::new(&[]);
        let mut link = true;
        let mut book = Book::default();
        for happening in story {
            match happening {
                Happening::Pass(time) => bench.run(ms(time)),
                Happening::Mine(n, on) => {
                    if on {
                        bench.mine.insert(ip(address(n)), None);
                    } else {
                        bench.mine.remove(&ip(address(n)));
                    }
                    book.viewed(&bench);
                    bench.view();
                }
                Happening::Renewed => {
                    bench.renewals += 1;
                    book.viewed(&bench);
                    bench.view();
                }
                Happening::Link(up) => {
                    if link && !up {
                        book.unplugged(&bench);
                    }
                    if !link && up {
                        book.plugged_in(&bench);
                    }
                    link = up;
                    bench.speaker.set_link(up.then_some(OWN), bench.now);
                }
                Happening::Claim(n, who) => {
                    let mac = [OWN, PEER, FOREIGN][usize::from(who)];
                    let claimed = ip(address(n));
                    let spoke = link && bench.mine.contains_key(&claimed) && !book.silent(claimed);
                    if mac == PEER && spoke {
                        book.yielded(claimed, &bench);
                    }
                    bench.announced_by(mac, address(n));
                }
                Happening::Ask(n) => {
                    let asker = if n == 1 { "fe80::66" } else { "192.0.2.99" };
                    let frame = frames::prime(FOREIGN, ip(asker), ip(address(n))).unwrap();
                    bench.hear(&frame);
                }
            }
            bench.collect();
            for (_, transmit) in bench.sent.drain(..) {
                // What was sent while time passed was sent under the same circumstances.
                prop_assert!(link, "without a link: {transmit:?}");
                prop_assert!(bench.mine.contains_key(&transmit.address), "not ours: {transmit:?}");
                prop_assert!(!book.silent(transmit.address), "yielded: {transmit:?}");
            }
        }
    }
}
