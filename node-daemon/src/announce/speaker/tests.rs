use proptest::prelude::*;

use super::*;

const OWN: Mac = Mac::new([2, 0, 0, 0, 0x0a, 0x0a]);
const PEER: Mac = Mac::new([2, 0, 0, 0, 0x0b, 0x0b]);
const GONE: Mac = Mac::new([2, 0, 0, 0, 0x0c, 0x0c]);
const FOREIGN: Mac = Mac::new([2, 0, 0, 0, 0, 0x66]);
const GAP: Duration = Duration::from_secs(15);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A speaker and its clock; sends are recorded with their time since the start.
struct Bench {
    speaker: Speaker,
    start: Instant,
    now: Instant,
    sent: Vec<(Duration, Transmit)>,
    notices: Vec<Notice>,
    renewals: u64,
    mine: BTreeMap<IpAddr, Option<IpAddr>>,
}

impl Bench {
    fn new(mine: &[(&str, Option<&str>)]) -> Self {
        let start = Instant::now();
        let mut bench = Self {
            speaker: Speaker::new(1, GAP),
            start,
            now: start,
            sent: Vec::new(),
            notices: Vec::new(),
            renewals: 1,
            mine: mine.iter().map(|(a, gw)| (ip(a), gw.map(ip))).collect(),
        };
        bench.speaker.set_link(Some(OWN), start);
        bench.view();
        bench
    }

    fn view(&mut self) {
        let view = View {
            mine: self.mine.clone(),
            members: [(PEER, Standing::Alive), (GONE, Standing::Gone)].into(),
            renewals: self.renewals,
        };
        self.speaker.set_view(view, self.now);
        self.collect();
    }

    /// Runs the clock, deadline by deadline, as the thread does.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.speaker.tick(self.now);
            self.collect();
            let next = self.speaker.next_deadline(self.now);
            assert!(
                next > self.now,
                "a deadline that has passed would be a busy loop"
            );
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
        self.speaker.tick(end);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(transmit) = self.speaker.poll_transmit(self.now) {
            self.sent.push((self.now - self.start, transmit));
        }
        while let Some(notice) = self.speaker.poll_notice() {
            self.notices.push(notice);
        }
    }

    fn hear(&mut self, frame: &[u8]) {
        self.speaker.frame_received(frame, self.now);
        self.collect();
    }

    fn announced_by(&mut self, mac: Mac, address: &str) {
        for frame in frames::announcement(mac, ip(address)) {
            self.hear(&frame);
        }
    }

    fn times(&self, kind: TransmitKind) -> Vec<u128> {
        self.sent
            .iter()
            .filter(|(_, transmit)| transmit.kind == kind)
            .map(|(at, _)| at.as_millis())
            .collect()
    }
}

/// Asks whether anybody has the address (RFC 5227 section 2.1.1).
fn probe(mac: Mac, address: &str) -> Vec<u8> {
    frames::prime(mac, ip("0.0.0.0"), ip(address)).unwrap()
}

const V4: &str = "192.0.2.10";
const V6: &str = "2001:db8::10";

#[test]
fn a_burst_has_six_rounds_of_both_arp_forms_and_three_primes() {
    let mut bench = Bench::new(&[(V4, Some("192.0.2.1"))]);
    bench.run(ms(3000));
    assert_eq!(
        bench.times(TransmitKind::Announcement),
        [0, 0, 50, 50, 200, 200, 600, 600, 1100, 1100, 2000, 2000]
    );
    assert_eq!(bench.times(TransmitKind::Prime), [0, 200, 1100]);
    assert_eq!(
        bench.sent[0].1.kind,
        TransmitKind::Prime,
        "the router first"
    );
    let forms: Vec<_> = bench.sent[1..3]
        .iter()
        .map(|(_, t)| t.frame.clone())
        .collect();
    assert_eq!(forms, frames::announcement(OWN, ip(V4)));
    assert_eq!(bench.notices, [Notice::Began(ip(V4))]);
}

#[test]
fn an_ipv6_burst_has_one_advertisement_a_round_and_no_prime_without_a_router() {
    let mut bench = Bench::new(&[(V6, None)]);
    bench.run(ms(3000));
    assert_eq!(
        bench.times(TransmitKind::Announcement),
        [0, 50, 200, 600, 1100, 2000]
    );
    assert!(bench.times(TransmitKind::Prime).is_empty());
}

#[test]
fn refreshes_follow_every_one_to_two_minutes() {
    let mut bench = Bench::new(&[(V6, Some("2001:db8::1"))]);
    bench.run(Duration::from_secs(3600));
    let times = bench.times(TransmitKind::Announcement);
    let mut gaps: Vec<u128> = times[5..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(
        gaps.iter().all(|gap| (60_000..=120_000).contains(gap)),
        "{gaps:?}"
    );
    gaps.sort_unstable();
    gaps.dedup();
    assert!(gaps.len() > 20, "the gaps differ: {gaps:?}");
    assert_eq!(
        bench.times(TransmitKind::Prime).len(),
        3,
        "no primes when refreshing"
    );
}

#[test]
fn a_thousand_addresses_all_have_their_first_frame_within_a_second() {
    let many: Vec<String> = (0..1000)
        .map(|i| format!("10.0.{}.{}", i / 250, i % 250))
        .collect();
    let mine: Vec<_> = many
        .iter()
        .map(|a| (a.as_str(), Some("10.0.255.1")))
        .collect();
    let mut bench = Bench::new(&mine);
    bench.run(ms(12_000));
    let mut first: BTreeMap<IpAddr, Duration> = BTreeMap::new();
    let mut rounds: BTreeMap<IpAddr, Vec<Duration>> = BTreeMap::new();
    for (at, transmit) in &bench.sent {
        first.entry(transmit.address).or_insert(*at);
        if transmit.kind == TransmitKind::Announcement {
            rounds.entry(transmit.address).or_default().push(*at);
        }
    }
    assert_eq!(first.len(), 1000);
    let latest = first.values().max().unwrap();
    assert!(*latest <= ms(1000), "{latest:?}");
    assert!(rounds.values().all(|times| times.len() == 12));
    // The last of the first rounds is before the first of the second rounds.
    let last_first = rounds.values().map(|times| times[1]).max().unwrap();
    let first_second = rounds.values().map(|times| times[2]).min().unwrap();
    assert!(last_first <= first_second);
    for window in 0..10 {
        let (from, to) = (ms(window * 1000), ms(window * 1000 + 1000));
        let count = bench
            .sent
            .iter()
            .filter(|(at, _)| (from..to).contains(at))
            .count();
        assert!(count <= 2052, "{count} frames in second {window}");
    }
}

#[test]
fn refreshes_stay_below_the_cap_however_many_addresses_there_are() {
    // At one refresh a minute and a half these would be about 90 frames a second.
    let many: Vec<String> = (0..4000)
        .map(|i| format!("10.0.{}.{}", i / 250, i % 250))
        .collect();
    let mine: Vec<_> = many.iter().map(|a| (a.as_str(), None)).collect();
    let mut bench = Bench::new(&mine);
    bench.run(Duration::from_secs(50));
    bench.sent.clear();
    bench.run(Duration::from_secs(150));
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, _) in &bench.sent {
        *counts.entry(at.as_secs()).or_default() += 1;
    }
    let most = counts.values().max().unwrap();
    assert!((48..=54).contains(most), "{most} frames in a second");
}

#[test]
fn questions_for_our_addresses_are_answered_and_others_are_not() {
    let mut bench = Bench::new(&[(V4, None), (V6, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    let v6 = |text: &str| match ip(text) {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!(),
    };
    // A probe, a who-has by broadcast, a who-has to our MAC, a solicitation: ours.
    bench.hear(&probe(FOREIGN, V4));
    let who_has = frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap();
    bench.hear(&who_has);
    let mut unicast = who_has.clone();
    unicast[..6].copy_from_slice(&[2, 0, 0, 0, 0x0a, 0x0a]);
    bench.hear(&unicast);
    bench.hear(&frames::prime(FOREIGN, v6("fe80::66").into(), ip(V6)).unwrap());
    assert_eq!(bench.times(TransmitKind::Answer).len(), 4);
    assert!(
        bench
            .sent
            .iter()
            .all(|(_, t)| t.frame[..6] == [2, 0, 0, 0, 0, 0x66])
    );
    bench.sent.clear();
    // Other addresses, to another's MAC, from ourselves: not ours.
    bench.hear(&frames::prime(FOREIGN, ip("192.0.2.99"), ip("192.0.2.11")).unwrap());
    unicast[5] = 0x0b;
    bench.hear(&unicast);
    bench.hear(&probe(OWN, V4));
    assert_eq!(bench.sent, []);
}

#[test]
fn what_is_taken_from_us_falls_silent_at_once() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(100));
    bench.mine.clear();
    bench.view();
    bench.sent.clear();
    bench.hear(&frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap());
    bench.run(Duration::from_secs(600));
    assert_eq!(bench.sent, []);
    assert_eq!(
        bench.notices,
        [Notice::Began(ip(V4)), Notice::Stopped(ip(V4))]
    );
}

#[test]
fn we_yield_to_a_member_until_a_view_after_the_next_renewal() {
    let mut bench = Bench::new(&[(V4, None), (V6, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.notices.clear();
    bench.announced_by(PEER, V4);
    assert_eq!(
        bench.notices,
        [Notice::Yielded(ip(V4), PEER), Notice::Stopped(ip(V4))]
    );
    let who_has = frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap();
    bench.hear(&who_has);
    bench.view();
    bench.mine.remove(&ip(V4));
    bench.view();
    bench.mine.insert(ip(V4), None);
    bench.view();
    bench.hear(&who_has);
    bench.run(ms(10_000));
    assert!(
        bench.sent.iter().all(|(_, t)| t.address == ip(V6)),
        "{:?}",
        bench.sent
    );
    bench.renewals += 1;
    bench.view();
    bench.hear(&who_has);
    bench.run(ms(3000));
    assert_eq!(
        bench.times(TransmitKind::Announcement).len(),
        12,
        "a whole burst again"
    );
    assert_eq!(bench.times(TransmitKind::Answer).len(), 1);
    assert_eq!(bench.notices.last(), Some(&Notice::Began(ip(V4))));
}

impl Bench {
    /// Has the peer announce the address, and says how many own renewals it takes until it is
    /// spoken for again.
    fn renewals_after_yielding(&mut self, address: &str) -> u64 {
        self.announced_by(PEER, address);
        assert!(!self.speaker.permits(ip(address), self.now));
        for count in 1..100 {
            self.run(ms(200));
            self.renewals += 1;
            self.view();
            if self.speaker.permits(ip(address), self.now) {
                return count;
            }
        }
        panic!("never again");
    }
}

/// Two daemons whose views differ would otherwise take an address from each other with each
/// renewal, which is made at once after yielding.
#[test]
fn who_yields_again_and_again_waits_for_ever_more_renewals() {
    let mut bench = Bench::new(&[(V4, None), (V6, None)]);
    let waits: Vec<_> = (0..6).map(|_| bench.renewals_after_yielding(V4)).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 16]);
    assert_eq!(bench.renewals_after_yielding(V6), 1, "each address alone");
}

#[test]
fn yields_are_forgotten_once_there_was_peace_or_the_view_changed_its_mind() {
    let mut bench = Bench::new(&[(V4, None)]);
    let waits = [V4; 3].map(|address| bench.renewals_after_yielding(address));
    assert_eq!(waits, [1, 2, 4]);
    bench.run(Duration::from_secs(59));
    assert_eq!(bench.renewals_after_yielding(V4), 8, "not long enough");
    bench.run(Duration::from_secs(60));
    assert_eq!(bench.renewals_after_yielding(V4), 1);
    assert_eq!(bench.renewals_after_yielding(V4), 2);
    bench.announced_by(PEER, V4);
    bench.mine.clear();
    bench.view();
    bench.mine.insert(ip(V4), None);
    bench.view();
    assert!(!bench.speaker.permits(ip(V4), bench.now), "one at least");
    bench.renewals += 1;
    bench.view();
    assert!(bench.speaker.permits(ip(V4), bench.now));
    assert_eq!(bench.renewals_after_yielding(V4), 1);
}

#[test]
fn a_lost_link_does_not_shorten_the_wait_after_yielding() {
    let mut bench = Bench::new(&[(V4, None)]);
    let waits = [V4; 2].map(|address| bench.renewals_after_yielding(address));
    assert_eq!(waits, [1, 2]);
    bench.announced_by(PEER, V4);
    for up in [None, Some(OWN)] {
        bench.speaker.set_link(up, bench.now);
    }
    for _ in 0..3 {
        bench.renewals += 1;
        bench.view();
        assert!(!bench.speaker.permits(ip(V4), bench.now));
    }
}

#[test]
fn answers_that_wait_are_not_sent_after_a_member_spoke() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    let who_has = frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap();
    assert!(bench.speaker.frame_received(&who_has, bench.now));
    bench.announced_by(PEER, V4);
    assert_eq!(bench.sent, []);
}

#[test]
fn a_foreign_claim_is_defended_once_in_ten_seconds() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.notices.clear();
    for _ in 0..25 {
        bench.announced_by(FOREIGN, V4);
        bench.run(ms(1000));
    }
    assert_eq!(
        bench.times(TransmitKind::Announcement),
        [3000, 3000, 13_000, 13_000, 23_000, 23_000]
    );
    assert_eq!(bench.notices, vec![Notice::Conflict(ip(V4), FOREIGN); 3]);
    assert!(
        bench.speaker.permits(ip(V4), bench.now),
        "a foreigner does not take it"
    );
}

#[test]
fn a_daemon_that_has_lost_its_lease_is_told_and_is_no_conflict() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.notices.clear();
    bench.announced_by(GONE, V4);
    assert_eq!(bench.times(TransmitKind::Announcement), [3000, 3000]);
    assert_eq!(bench.notices, []);
}

#[test]
fn claims_of_ours_or_about_others_are_no_conflict() {
    let mut bench = Bench::new(&[(V4, None), (V6, None)]);
    bench.run(ms(3000));
    bench.notices.clear();
    bench.announced_by(OWN, V4);
    bench.announced_by(FOREIGN, "192.0.2.11");
    bench.announced_by(PEER, "2001:db8::11");
    assert_eq!(bench.notices, []);
}

/// A cable that is plugged in again must not bring a second speaker: whoever was cut off does not
/// know who has taken over.
#[test]
fn after_a_lost_link_nothing_is_said_before_the_next_renewal() {
    let mut bench = Bench::new(&[(V4, Some("192.0.2.1"))]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.speaker.set_link(None, bench.now);
    assert!(!bench.speaker.permits(ip(V4), bench.now));
    bench.hear(&frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap());
    bench.run(Duration::from_secs(300));
    bench.speaker.set_link(Some(OWN), bench.now);
    bench.hear(&frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap());
    bench.view();
    bench.run(ms(3000));
    assert_eq!(bench.sent, []);
    bench.renewals += 1;
    bench.view();
    bench.run(ms(3000));
    assert_eq!(bench.times(TransmitKind::Announcement).len(), 12);
}

#[test]
fn rounds_repeat_when_the_mac_address_changes() {
    let mut bench = Bench::new(&[(V4, Some("192.0.2.1"))]);
    bench.run(ms(3000));
    bench.sent.clear();
    let moved = Mac::new([2, 0, 0, 0, 0, 0x77]);
    bench.start = bench.now;
    bench.speaker.set_link(Some(moved), bench.now);
    bench.run(ms(3000));
    assert_eq!(
        bench.times(TransmitKind::Announcement),
        [0, 0, 200, 200, 1100, 1100]
    );
    assert_eq!(bench.times(TransmitKind::Prime), [0, 200, 1100]);
    let source = |(_, t): &(Duration, Transmit)| t.frame[6..12] == [2, 0, 0, 0, 0, 0x77];
    assert!(bench.sent.iter().all(source));
}

#[test]
fn a_view_that_comes_before_the_link_is_announced_when_the_link_comes() {
    let mut bench = Bench::new(&[]);
    bench.speaker.set_link(None, bench.now);
    bench.mine.insert(ip(V6), None);
    bench.view();
    bench.run(ms(5000));
    assert_eq!((bench.sent.len(), bench.notices.len()), (0, 0));
    bench.speaker.set_link(Some(OWN), bench.now);
    bench.run(ms(5000));
    assert_eq!(bench.notices, [Notice::Began(ip(V6))]);
    assert!(bench.sent.len() >= 3);
}

#[test]
fn after_being_held_up_nothing_is_said_before_the_next_renewal() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.notices.clear();
    bench.now += GAP;
    bench.speaker.tick(bench.now);
    bench.hear(&frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap());
    bench.view();
    bench.run(Duration::from_secs(300));
    assert_eq!(bench.sent, []);
    assert_eq!(
        bench.notices,
        [Notice::Stopped(ip(V4)), Notice::HeldUp(GAP)]
    );
    bench.renewals += 1;
    bench.view();
    bench.run(ms(3000));
    assert_eq!(bench.times(TransmitKind::Announcement).len(), 12);
}

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
