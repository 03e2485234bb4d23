mod scenarios;
mod silence;

use super::*;

const OWN: Mac = Mac::new([2, 0, 0, 0, 0x0a, 0x0a]);
const PEER: Mac = Mac::new([2, 0, 0, 0, 0x0b, 0x0b]);
const FOREIGN: Mac = Mac::new([2, 0, 0, 0, 0, 0x66]);
const START: Moment = Moment(3_600_000_000_000);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// The key of the address of the test with this number.
fn key(of: usize) -> Key {
    Key(u64::try_from(of).unwrap() + 1)
}

/// Until when frames may leave, by key.
#[derive(Default)]
struct Rights(BTreeMap<Key, Moment>);

impl SpeakingRight for Rights {
    fn permits(&self, key: Key, now: Moment) -> bool {
        self.0.get(&key).is_some_and(|until| now < *until)
    }
}

/// A speaker and its clock; sends are recorded with their time since the start.
struct Fixture {
    responder: AddressResponder,
    start: Moment,
    now: Moment,
    rights: Rights,
    sent: Vec<(Duration, Transmit)>,
    notices: Vec<Notice>,
    addresses: Addresses,
}

impl Fixture {
    /// It speaks for these, each of a key of its own, numbered from zero.
    fn new(mine: &[(&str, Option<&str>)]) -> Self {
        let mut fixture = Self::silent(mine);
        for n in 0..mine.len() {
            fixture.begin(n, AnnounceMode::Unsolicited, Cause::Unclaimed);
        }
        fixture
    }

    fn silent(known: &[(&str, Option<&str>)]) -> Self {
        let mut fixture = Self {
            responder: AddressResponder::new(1),
            start: START,
            now: START,
            rights: Rights::default(),
            sent: Vec::new(),
            notices: Vec::new(),
            addresses: known
                .iter()
                .enumerate()
                .map(|(n, (a, gw))| (key(n), [(ip(a), gw.map(ip))].into()))
                .collect(),
        };
        fixture.responder.set_link(Some(OWN), START);
        fixture.responder.set_members([PEER].into());
        fixture.view();
        fixture
    }

    fn view(&mut self) {
        self.responder
            .set_addresses(self.addresses.clone(), self.now);
        self.collect();
    }

    fn begin(&mut self, n: usize, mode: AnnounceMode, cause: Cause) {
        self.rights.0.insert(key(n), Moment::NEVER);
        let beginning = Beginning {
            key: key(n),
            mode,
            cause,
            former: None,
            silent_since: None,
        };
        self.responder.begin(&beginning, self.now);
        self.collect();
    }

    fn stop(&mut self, n: usize, cause: Cause) {
        self.rights.0.remove(&key(n));
        self.responder.stop(key(n), cause);
        self.collect();
    }

    /// Runs the clock, deadline by deadline, as the thread does.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.collect();
            let next = self.responder.next_deadline(self.now);
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
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(transmit) = self.responder.poll_transmit(&self.rights, self.now) {
            self.sent.push((self.now.since(self.start), transmit));
        }
        while let Some(notice) = self.responder.poll_notice() {
            self.notices.push(notice);
        }
    }

    fn hear(&mut self, frame: &[u8]) -> Heard {
        let heard = self.hear_late(frame, self.now);
        self.collect();
        heard
    }

    /// Hears a frame that has waited since then; nothing is sent yet.
    fn hear_late(&mut self, frame: &[u8], came: Moment) -> Heard {
        let (rights, now) = (&self.rights, self.now);
        self.responder.frame_received(frame, came, rights, now)
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

fn began(address: &str, cause: Cause) -> Notice {
    Notice::Began {
        address: ip(address),
        cause,
        former: None,
        dark_for: None,
    }
}

/// Asks whether anybody has the address (RFC 5227 section 2.1.1).
fn probe(mac: Mac, address: &str) -> Vec<u8> {
    frames::prime(mac, ip("0.0.0.0"), ip(address)).unwrap()
}

const V4: &str = "192.0.2.10";
const V6: &str = "2001:db8::10";

#[test]
fn ipv4_burst_has_six_rounds_and_three_router_requests() {
    let mut fixture = Fixture::new(&[(V4, Some("192.0.2.1"))]);
    fixture.run(ms(3000));
    assert_eq!(
        fixture.times(TransmitKind::Announcement),
        [0, 0, 50, 50, 200, 200, 600, 600, 1100, 1100, 2000, 2000]
    );
    assert_eq!(fixture.times(TransmitKind::Prime), [0, 200, 1100]);
    assert_eq!(
        fixture.sent[0].1.kind,
        TransmitKind::Prime,
        "the router first"
    );
    let forms: Vec<_> = fixture.sent[1..3]
        .iter()
        .map(|(_, t)| t.frame.clone())
        .collect();
    assert_eq!(forms, frames::announcement(OWN, ip(V4)));
    assert_eq!(fixture.notices, [began(V4, Cause::Unclaimed)]);
}

#[test]
fn ipv6_burst_has_one_advertisement_per_round() {
    let mut fixture = Fixture::new(&[(V6, None)]);
    fixture.run(ms(3000));
    assert_eq!(
        fixture.times(TransmitKind::Announcement),
        [0, 50, 200, 600, 1100, 2000]
    );
    assert!(fixture.times(TransmitKind::Prime).is_empty());
}

#[test]
fn asks_for_router_only_from_announced_address() {
    let gateway = "192.0.2.1";
    let mut fixture = Fixture::silent(&[("192.0.2.9", Some(gateway)), (V4, Some(gateway))]);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    assert!(!fixture.responder.speaks_by(ip(gateway)));
    fixture.begin(1, AnnounceMode::Unsolicited, Cause::Inherited);
    assert!(fixture.responder.speaks_by(ip(gateway)) && !fixture.responder.speaks_by(ip(V4)));
    assert_eq!(fixture.sent, []);
    fixture.responder.prime(ip(gateway));
    fixture.collect();
    let frames: Vec<_> = fixture
        .sent
        .iter()
        .map(|(_, sent)| sent.frame.clone())
        .collect();
    assert_eq!(frames, [frames::prime(OWN, ip(V4), ip(gateway)).unwrap()]);
}

#[test]
fn announces_whatever_it_speaks_for_from_another_mac_address() {
    let mut fixture = Fixture::silent(&[(V4, None)]);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::GivenBack);
    let link = |fixture: &mut Fixture, own| {
        fixture.responder.set_link(None, fixture.now);
        fixture.responder.set_link(Some(own), fixture.now);
        fixture.run(ms(100));
        fixture.times(TransmitKind::Announcement).len()
    };
    assert_eq!(link(&mut fixture, OWN), 0, "neighbours know it");
    assert!(link(&mut fixture, Mac::new([2, 0, 0, 0, 0, 99])) > 0);
}

#[test]
fn refreshes_every_one_to_two_minutes() {
    let mut fixture = Fixture::new(&[(V6, Some("2001:db8::1"))]);
    fixture.run(Duration::from_secs(3600));
    let times = fixture.times(TransmitKind::Announcement);
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
        fixture.times(TransmitKind::Prime).len(),
        3,
        "no primes when refreshing"
    );
}

#[test]
fn thousand_addresses_start_within_a_second() {
    let many: Vec<String> = (0..1000)
        .map(|i| format!("10.0.{}.{}", i / 250, i % 250))
        .collect();
    let mine: Vec<_> = many
        .iter()
        .map(|a| (a.as_str(), Some("10.0.255.1")))
        .collect();
    let mut fixture = Fixture::new(&mine);
    fixture.run(ms(12_000));
    let mut first: BTreeMap<IpAddr, Duration> = BTreeMap::new();
    let mut rounds: BTreeMap<IpAddr, Vec<Duration>> = BTreeMap::new();
    for (at, transmit) in &fixture.sent {
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
        let count = fixture
            .sent
            .iter()
            .filter(|(at, _)| (from..to).contains(at))
            .count();
        assert!(count <= 2052, "{count} frames in second {window}");
    }
}

#[test]
fn refreshes_stay_below_rate_limit() {
    // At one refresh a minute and a half these would be about 90 frames a second.
    let many: Vec<String> = (0..4000)
        .map(|i| format!("10.0.{}.{}", i / 250, i % 250))
        .collect();
    let mine: Vec<_> = many.iter().map(|a| (a.as_str(), None)).collect();
    let mut fixture = Fixture::new(&mine);
    fixture.run(Duration::from_secs(50));
    fixture.sent.clear();
    fixture.run(Duration::from_secs(150));
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, _) in &fixture.sent {
        *counts.entry(at.as_secs()).or_default() += 1;
    }
    let most = counts.values().max().unwrap();
    assert!((48..=54).contains(most), "{most} frames in a second");
}

#[test]
fn answers_only_for_own_addresses() {
    let mut fixture = Fixture::new(&[(V4, None), (V6, None)]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    let v6 = |text: &str| match ip(text) {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!(),
    };
    // A probe, a who-has by broadcast, a who-has to our MAC, a solicitation: ours.
    fixture.hear(&probe(FOREIGN, V4));
    let who_has = frames::prime(FOREIGN, ip("192.0.2.99"), ip(V4)).unwrap();
    fixture.hear(&who_has);
    let mut unicast = who_has.clone();
    unicast[..6].copy_from_slice(&[2, 0, 0, 0, 0x0a, 0x0a]);
    fixture.hear(&unicast);
    fixture.hear(&frames::prime(FOREIGN, v6("fe80::66").into(), ip(V6)).unwrap());
    assert_eq!(fixture.times(TransmitKind::Answer).len(), 4);
    assert!(
        fixture
            .sent
            .iter()
            .all(|(_, t)| t.frame[..6] == [2, 0, 0, 0, 0, 0x66])
    );
    fixture.sent.clear();
    // Other addresses, to another's MAC, from ourselves: not ours.
    fixture.hear(&frames::prime(FOREIGN, ip("192.0.2.99"), ip("192.0.2.11")).unwrap());
    unicast[5] = 0x0b;
    fixture.hear(&unicast);
    fixture.hear(&probe(OWN, V4));
    assert_eq!(fixture.sent, []);
}

#[test]
fn kernel_mode_answers_nothing() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.responder.set_kernel_answers(true);
    fixture.run(ms(3000));
    assert!(!fixture.times(TransmitKind::Announcement).is_empty());
    fixture.sent.clear();
    assert!(fixture.hear(&probe(FOREIGN, V4)).asked);
    assert_eq!(fixture.sent, []);
    fixture.responder.set_kernel_answers(false);
    fixture.hear(&probe(FOREIGN, V4));
    assert_eq!(fixture.times(TransmitKind::Answer).len(), 1);
}

#[test]
fn returns_every_foreign_claim() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    let frames = frames::announcement(FOREIGN, ip("192.0.2.1"));
    let claim = Claim {
        address: ip("192.0.2.1"),
        mac: FOREIGN,
    };
    assert_eq!(fixture.hear(&frames[0]).claim, Some(claim));
    let own = frames::announcement(OWN, ip("192.0.2.1"));
    assert_eq!(fixture.hear(&own[0]), Heard::default());
}

#[test]
fn request_is_claim_but_no_answer() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    let question = frames::prime(FOREIGN, ip("192.0.2.1"), ip("192.0.2.2")).unwrap();
    let heard = fixture.hear(&question);
    assert_eq!((heard.claim.is_some(), heard.answers), (true, false));
    let reply = frames::announcement(FOREIGN, ip("192.0.2.1")).remove(1);
    let heard = fixture.hear(&reply);
    assert_eq!((heard.claim.is_some(), heard.answers), (true, true));
}

#[test]
fn reports_former_speaker_and_gap() {
    let mut fixture = Fixture::silent(&[(V4, None)]);
    fixture.run(ms(500));
    let beginning = Beginning {
        key: key(0),
        mode: AnnounceMode::Unsolicited,
        cause: Cause::TakenOver,
        former: Some(NodeId(7)),
        silent_since: Some(START + ms(100)),
    };
    fixture.responder.begin(&beginning, fixture.now);
    fixture.collect();
    let expected = Notice::Began {
        address: ip(V4),
        cause: Cause::TakenOver,
        former: Some(NodeId(7)),
        dark_for: Some(ms(400)),
    };
    assert_eq!(fixture.notices, [expected]);
}
