//! When nothing is said: what is not ours any more, what others claim, and what is to be quiet.

use super::*;

/// Somebody wants to know where the address is.
fn who_has(address: &str) -> Vec<u8> {
    frames::prime(FOREIGN, ip("192.0.2.99"), ip(address)).unwrap()
}

#[test]
fn stop_silences_at_once() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.run(ms(100));
    fixture.sent.clear();
    // A question came just before, and a round of the burst is to come.
    assert!(fixture.hear_late(&who_has(V4), fixture.now).asked);
    fixture.stop(0, Cause::HandedOver);
    fixture.hear(&who_has(V4));
    fixture.run(Duration::from_secs(600));
    assert_eq!(fixture.sent, []);
    assert_eq!(
        fixture.notices,
        [
            began(V4, Cause::Unclaimed),
            Notice::Stopped(ip(V4), Cause::HandedOver)
        ]
    );
}

#[test]
fn expired_lease_sends_nothing() {
    let mut fixture = Fixture::new(&[(V4, Some("192.0.2.1")), (V6, None)]);
    fixture.rights.0.insert(key(0), START + ms(600));
    fixture.run(ms(599));
    fixture.sent.clear();
    fixture.now = START + ms(600);
    assert!(!fixture.hear(&who_has(V4)).asked);
    fixture.run(ms(3000));
    assert!(fixture.sent.iter().all(|(_, t)| t.address == ip(V6)));
    assert_eq!(fixture.times(TransmitKind::Announcement), [600, 1100, 2000]);
}

#[test]
fn expired_lease_drops_queued_answer() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    assert!(fixture.hear_late(&who_has(V4), fixture.now).asked);
    fixture.rights.0.insert(key(0), fixture.now);
    fixture.collect();
    assert_eq!(fixture.sent, []);
}

#[test]
fn on_request_mode_announces_nothing() {
    let mut fixture = Fixture::silent(&[(V4, Some("192.0.2.1"))]);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    fixture.run(Duration::from_secs(600));
    assert_eq!(fixture.sent, []);
    assert!(fixture.hear(&who_has(V4)).asked);
    assert_eq!(fixture.times(TransmitKind::Answer).len(), 1);
    assert_eq!(fixture.notices, [began(V4, Cause::TakenOver)]);
}

#[test]
fn burst_ends_on_request_mode() {
    let mut fixture = Fixture::silent(&[(V4, Some("192.0.2.1"))]);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    fixture.run(ms(1000));
    fixture.start = fixture.now;
    fixture.responder.burst(key(0), fixture.now);
    fixture.run(Duration::from_secs(300));
    let times = fixture.times(TransmitKind::Announcement);
    let burst = [0, 0, 50, 50, 200, 200, 600, 600, 1100, 1100, 2000, 2000];
    assert_eq!(times[..12], burst);
    assert!(times.len() >= 16, "refreshes follow: {times:?}");
    assert_eq!(fixture.notices.len(), 1, "it has begun once");
}

#[test]
fn no_burst_without_key() {
    let mut fixture = Fixture::silent(&[(V4, None)]);
    fixture.responder.burst(key(0), fixture.now);
    fixture.run(ms(3000));
    assert_eq!(fixture.sent, []);
}

/// Nothing has changed for neighbours, but switches forget.
#[test]
fn inherited_key_is_only_refreshed() {
    let mut fixture = Fixture::silent(&[(V4, Some("192.0.2.1"))]);
    fixture.begin(0, AnnounceMode::Unsolicited, Cause::Inherited);
    assert!(fixture.hear(&who_has(V4)).asked);
    fixture.sent.clear();
    fixture.run(ms(59_000));
    assert_eq!(fixture.sent, []);
    fixture.run(ms(62_000));
    assert_eq!(fixture.times(TransmitKind::Announcement).len(), 2);
    assert_eq!(fixture.times(TransmitKind::Prime).len(), 0);
}

#[test]
fn knows_unfinished_bursts() {
    let mut fixture = Fixture::new(&[(V4, None), (V6, None)]);
    assert_eq!(fixture.responder.unfinished(), [key(0), key(1)].into());
    fixture.stop(1, Cause::Withdrawn);
    assert_eq!(fixture.responder.unfinished(), [key(0)].into());
    fixture.run(ms(2001));
    assert_eq!(fixture.responder.unfinished(), BTreeSet::new());
}

#[test]
fn defends_once_in_ten_seconds() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    fixture.notices.clear();
    for _ in 0..25 {
        fixture.announced_by(FOREIGN, V4);
        fixture.run(ms(1000));
    }
    assert_eq!(
        fixture.times(TransmitKind::Announcement),
        [3000, 3000, 13_000, 13_000, 23_000, 23_000]
    );
    assert_eq!(fixture.notices, vec![Notice::Conflict(ip(V4), FOREIGN); 3]);
}

#[test]
fn corrects_member_without_conflict() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    fixture.notices.clear();
    for _ in 0..11 {
        fixture.announced_by(PEER, V4);
        fixture.run(ms(1000));
    }
    let times = fixture.times(TransmitKind::Announcement);
    assert_eq!(times, [3000, 3000, 13_000, 13_000]);
    assert_eq!(fixture.notices, []);
}

/// The former speaker's node forwards on: its frames are right for those who have them.
#[test]
fn on_request_mode_corrects_no_member() {
    let mut fixture = Fixture::silent(&[(V4, None)]);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    fixture.announced_by(PEER, V4);
    fixture.run(ms(1000));
    assert_eq!(fixture.sent, []);
    fixture.announced_by(FOREIGN, V4);
    assert_eq!(fixture.times(TransmitKind::Announcement).len(), 2);
    assert_eq!(
        fixture.notices.last(),
        Some(&Notice::Conflict(ip(V4), FOREIGN))
    );
}

#[test]
fn own_and_unrelated_claims_are_no_conflict() {
    let mut fixture = Fixture::new(&[(V4, None), (V6, None)]);
    fixture.run(ms(3000));
    fixture.notices.clear();
    fixture.announced_by(OWN, V4);
    fixture.announced_by(FOREIGN, "192.0.2.11");
    fixture.announced_by(PEER, "2001:db8::11");
    fixture.stop(0, Cause::Lapsed);
    fixture.notices.clear();
    fixture.announced_by(FOREIGN, V4);
    assert_eq!(fixture.notices, []);
}

#[test]
fn sends_nothing_without_link() {
    let mut fixture = Fixture::new(&[(V4, Some("192.0.2.1"))]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    fixture.responder.set_link(None, fixture.now);
    fixture.hear(&who_has(V4));
    fixture.run(Duration::from_secs(300));
    assert_eq!(fixture.sent, []);
}

#[test]
fn repeats_rounds_on_new_mac() {
    let mut fixture = Fixture::new(&[(V4, Some("192.0.2.1"))]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    let moved = Mac::new([2, 0, 0, 0, 0, 0x77]);
    fixture.start = fixture.now;
    fixture.responder.set_link(Some(moved), fixture.now);
    fixture.run(ms(3000));
    assert_eq!(
        fixture.times(TransmitKind::Announcement),
        [0, 0, 200, 200, 1100, 1100]
    );
    assert_eq!(fixture.times(TransmitKind::Prime), [0, 200, 1100]);
    let source = |(_, t): &(Duration, Transmit)| t.frame[6..12] == [2, 0, 0, 0, 0, 0x77];
    assert!(fixture.sent.iter().all(source));
}

#[test]
fn held_key_gains_and_loses_addresses() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.run(ms(3000));
    fixture.sent.clear();
    fixture.notices.clear();
    fixture.addresses.insert(key(0), [(ip(V6), None)].into());
    fixture.view();
    fixture.run(ms(3000));
    assert_eq!(
        fixture.notices,
        [
            Notice::Stopped(ip(V4), Cause::Withdrawn),
            began(V6, Cause::Unclaimed)
        ]
    );
    assert_eq!(fixture.times(TransmitKind::Announcement).len(), 6);
    assert!(fixture.sent.iter().all(|(_, t)| t.address == ip(V6)));
}

#[test]
fn key_without_addresses_stops_once() {
    let mut fixture = Fixture::new(&[(V4, None)]);
    fixture.addresses.clear();
    fixture.view();
    fixture.stop(0, Cause::Withdrawn);
    fixture.sent.clear();
    fixture.run(ms(3000));
    assert_eq!(fixture.sent, []);
    let stopped = Notice::Stopped(ip(V4), Cause::Withdrawn);
    assert_eq!(fixture.notices, [began(V4, Cause::Unclaimed), stopped]);
}

/// It has waited in the socket while this process stood still. Who spoke then has answered.
#[test]
fn ignores_request_from_before_the_lease() {
    let mut fixture = Fixture::silent(&[(V4, None)]);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::GivenBack);
    let begun = fixture.now;
    fixture.run(ms(5));
    let just_before = Moment(begun.0 - 1);
    assert!(!fixture.hear_late(&who_has(V4), just_before).asked);
    fixture.collect();
    assert_eq!(fixture.sent, []);
    assert!(fixture.hear_late(&who_has(V4), begun).asked);
    fixture.collect();
    assert_eq!(fixture.times(TransmitKind::Answer).len(), 1);
    fixture.stop(0, Cause::Lapsed);
    fixture.begin(0, AnnounceMode::OnRequest, Cause::TakenOver);
    assert!(
        !fixture.hear_late(&who_has(V4), begun).asked,
        "of before the lapse"
    );
}
