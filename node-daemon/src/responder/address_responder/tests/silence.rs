//! When nothing is said: what is not ours any more, what others claim, and what is to be quiet.

use super::*;

/// Somebody wants to know where the address is.
fn who_has(address: &str) -> Vec<u8> {
    frames::prime(FOREIGN, ip("192.0.2.99"), ip(address)).unwrap()
}

#[test]
fn stop_silences_at_once() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(100));
    bench.sent.clear();
    // A question came just before, and a round of the burst is to come.
    assert!(bench.hear_late(&who_has(V4), bench.now).asked);
    bench.stop(0, Cause::HandedOver);
    bench.hear(&who_has(V4));
    bench.run(Duration::from_secs(600));
    assert_eq!(bench.sent, []);
    assert_eq!(
        bench.notices,
        [
            began(V4, Cause::Unclaimed),
            Notice::Stopped(ip(V4), Cause::HandedOver)
        ]
    );
}

#[test]
fn expired_lease_sends_nothing() {
    let mut bench = Bench::new(&[(V4, Some("192.0.2.1")), (V6, None)]);
    bench.rights.0.insert(key(0), START + ms(600));
    bench.run(ms(599));
    bench.sent.clear();
    bench.now = START + ms(600);
    assert!(!bench.hear(&who_has(V4)).asked);
    bench.run(ms(3000));
    assert!(bench.sent.iter().all(|(_, t)| t.address == ip(V6)));
    assert_eq!(bench.times(TransmitKind::Announcement), [600, 1100, 2000]);
}

#[test]
fn expired_lease_drops_queued_answer() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    assert!(bench.hear_late(&who_has(V4), bench.now).asked);
    bench.rights.0.insert(key(0), bench.now);
    bench.collect();
    assert_eq!(bench.sent, []);
}

#[test]
fn on_request_mode_announces_nothing() {
    let mut bench = Bench::silent(&[(V4, Some("192.0.2.1"))]);
    bench.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    bench.run(Duration::from_secs(600));
    assert_eq!(bench.sent, []);
    assert!(bench.hear(&who_has(V4)).asked);
    assert_eq!(bench.times(TransmitKind::Answer).len(), 1);
    assert_eq!(bench.notices, [began(V4, Cause::TakenOver)]);
}

#[test]
fn burst_ends_on_request_mode() {
    let mut bench = Bench::silent(&[(V4, Some("192.0.2.1"))]);
    bench.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    bench.run(ms(1000));
    bench.start = bench.now;
    bench.responder.burst(key(0), bench.now);
    bench.run(Duration::from_secs(300));
    let times = bench.times(TransmitKind::Announcement);
    let burst = [0, 0, 50, 50, 200, 200, 600, 600, 1100, 1100, 2000, 2000];
    assert_eq!(times[..12], burst);
    assert!(times.len() >= 16, "refreshes follow: {times:?}");
    assert_eq!(bench.notices.len(), 1, "it has begun once");
}

#[test]
fn no_burst_without_key() {
    let mut bench = Bench::silent(&[(V4, None)]);
    bench.responder.burst(key(0), bench.now);
    bench.run(ms(3000));
    assert_eq!(bench.sent, []);
}

/// Nothing has changed for neighbours, but switches forget.
#[test]
fn inherited_key_is_only_refreshed() {
    let mut bench = Bench::silent(&[(V4, Some("192.0.2.1"))]);
    bench.begin(0, AnnounceMode::Unsolicited, Cause::Inherited);
    assert!(bench.hear(&who_has(V4)).asked);
    bench.sent.clear();
    bench.run(ms(59_000));
    assert_eq!(bench.sent, []);
    bench.run(ms(62_000));
    assert_eq!(bench.times(TransmitKind::Announcement).len(), 2);
    assert_eq!(bench.times(TransmitKind::Prime).len(), 0);
}

#[test]
fn knows_unfinished_bursts() {
    let mut bench = Bench::new(&[(V4, None), (V6, None)]);
    assert_eq!(bench.responder.unfinished(), [key(0), key(1)].into());
    bench.stop(1, Cause::Withdrawn);
    assert_eq!(bench.responder.unfinished(), [key(0)].into());
    bench.run(ms(2001));
    assert_eq!(bench.responder.unfinished(), BTreeSet::new());
}

#[test]
fn defends_once_in_ten_seconds() {
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
}

#[test]
fn corrects_member_without_conflict() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.notices.clear();
    for _ in 0..11 {
        bench.announced_by(PEER, V4);
        bench.run(ms(1000));
    }
    let times = bench.times(TransmitKind::Announcement);
    assert_eq!(times, [3000, 3000, 13_000, 13_000]);
    assert_eq!(bench.notices, []);
}

/// The former speaker's node forwards on: its frames are right for those who have them.
#[test]
fn on_request_mode_corrects_no_member() {
    let mut bench = Bench::silent(&[(V4, None)]);
    bench.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    bench.announced_by(PEER, V4);
    bench.run(ms(1000));
    assert_eq!(bench.sent, []);
    bench.announced_by(FOREIGN, V4);
    assert_eq!(bench.times(TransmitKind::Announcement).len(), 2);
    assert_eq!(
        bench.notices.last(),
        Some(&Notice::Conflict(ip(V4), FOREIGN))
    );
}

#[test]
fn own_and_unrelated_claims_are_no_conflict() {
    let mut bench = Bench::new(&[(V4, None), (V6, None)]);
    bench.run(ms(3000));
    bench.notices.clear();
    bench.announced_by(OWN, V4);
    bench.announced_by(FOREIGN, "192.0.2.11");
    bench.announced_by(PEER, "2001:db8::11");
    bench.stop(0, Cause::Lapsed);
    bench.notices.clear();
    bench.announced_by(FOREIGN, V4);
    assert_eq!(bench.notices, []);
}

#[test]
fn sends_nothing_without_link() {
    let mut bench = Bench::new(&[(V4, Some("192.0.2.1"))]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.responder.set_link(None, bench.now);
    bench.hear(&who_has(V4));
    bench.run(Duration::from_secs(300));
    assert_eq!(bench.sent, []);
}

#[test]
fn repeats_rounds_on_new_mac() {
    let mut bench = Bench::new(&[(V4, Some("192.0.2.1"))]);
    bench.run(ms(3000));
    bench.sent.clear();
    let moved = Mac::new([2, 0, 0, 0, 0, 0x77]);
    bench.start = bench.now;
    bench.responder.set_link(Some(moved), bench.now);
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
fn held_key_gains_and_loses_addresses() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.run(ms(3000));
    bench.sent.clear();
    bench.notices.clear();
    bench.addresses.insert(key(0), [(ip(V6), None)].into());
    bench.view();
    bench.run(ms(3000));
    assert_eq!(
        bench.notices,
        [
            Notice::Stopped(ip(V4), Cause::Withdrawn),
            began(V6, Cause::Unclaimed)
        ]
    );
    assert_eq!(bench.times(TransmitKind::Announcement).len(), 6);
    assert!(bench.sent.iter().all(|(_, t)| t.address == ip(V6)));
}

#[test]
fn key_without_addresses_stops_once() {
    let mut bench = Bench::new(&[(V4, None)]);
    bench.addresses.clear();
    bench.view();
    bench.stop(0, Cause::Withdrawn);
    bench.sent.clear();
    bench.run(ms(3000));
    assert_eq!(bench.sent, []);
    let stopped = Notice::Stopped(ip(V4), Cause::Withdrawn);
    assert_eq!(bench.notices, [began(V4, Cause::Unclaimed), stopped]);
}

/// It has waited in the socket while this process stood still. Who spoke then has answered.
#[test]
fn ignores_request_from_before_the_lease() {
    let mut bench = Bench::silent(&[(V4, None)]);
    bench.begin(0, AnnounceMode::OnRequest, Cause::GivenBack);
    let begun = bench.now;
    bench.run(ms(5));
    let just_before = Moment(begun.0 - 1);
    assert!(!bench.hear_late(&who_has(V4), just_before).asked);
    bench.collect();
    assert_eq!(bench.sent, []);
    assert!(bench.hear_late(&who_has(V4), begun).asked);
    bench.collect();
    assert_eq!(bench.times(TransmitKind::Answer).len(), 1);
    bench.stop(0, Cause::Lapsed);
    bench.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    assert!(
        !bench.hear_late(&who_has(V4), begun).asked,
        "of before the lapse"
    );
}
