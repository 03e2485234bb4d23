//! When nothing is said: what was taken away, what others claim, and what cannot be known.

use super::*;

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
