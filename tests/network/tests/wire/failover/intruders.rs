//! Frames of those who have no business here.

use std::time::{Duration, Instant};

use mooring_test_cluster::objects::events_for;
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{APP, FailoverCluster};
use mooring_test_netlab::netlab::raw::ArpToSend;
use mooring_test_netlab::netlab::{Frame, claims};
use mooring_test_support::wait::eventually;

use crate::failover::alone::{MS, SOON};

/// How often an address is defended at most.
const DEFENCE: Duration = Duration::from_secs(10);

pub async fn case_23_a_foreign_host_is_told_of_and_withstood_once_in_ten_seconds(
    cluster: &mut FailoverCluster,
) {
    let owner = cluster.speaker().await.unwrap();
    let own = cluster.mac_of(&owner);
    let [v4, _] = cluster.addresses();
    let std::net::IpAddr::V4(address) = v4 else {
        unreachable!("the first is of IPv4")
    };
    let foreign = cluster.asker.mac();
    let claim = ArpToSend::who_has(address, address, foreign).bytes();
    let start = Instant::now();
    let mut turn = start;
    while turn < start + DEFENCE + Duration::from_secs(2) {
        cluster.asker.inject(&claim).unwrap();
        turn += 200 * MS;
        until(turn).await;
    }
    let frames = cluster.capture.since(start);
    let mut defences = claims::announcements(&frames, v4);
    defences.retain(|claim| claim.mac == own);
    println!("{} frames in defence", defences.len());
    let first = defences.first().expect("the address is defended").at;
    assert!(first - start < 1000 * MS);
    // A defence may have several frames, in several rounds of two seconds at most.
    let mut times: Vec<Instant> = defences.iter().map(|claim| claim.at).collect();
    times.dedup_by(|later, earlier| *later - *earlier < 3000 * MS);
    let last = times.last().copied().unwrap_or(first);
    assert!(
        times.len() == 1 || (times.len() == 2 && last - first >= DEFENCE - 100 * MS),
        "defended at {:?}",
        times.iter().map(|at| *at - start).collect::<Vec<_>>()
    );
    let admin = cluster.netlab.admin();
    let event = eventually("the Service says so", SOON, async || {
        let events = events_for(&admin, "Service", Some(APP), "web").await.ok()?;
        let conflict = |event: &&_| event_is_conflict(event);
        events.iter().find(conflict).map(|event| event.note.clone())
    })
    .await;
    assert!(event.contains(&foreign.to_string()), "{event}");
    assert_eq!(cluster.speaker().await.unwrap(), owner);
    // The client believes the stranger, which the next test would not expect.
    cluster.netlab.client.forget_neighbours().unwrap();
    cluster.tcp.forget_neighbours().unwrap();
}

fn event_is_conflict(event: &mooring_test_cluster::objects::EventNote) -> bool {
    event.reason == "AddressConflict"
}

/// Who hears the heartbeats of a dead node again does not take it for alive; and what is garbled is
/// no heartbeat.
pub async fn case_24_replayed_and_garbled_heartbeats_change_nothing(cluster: &mut FailoverCluster) {
    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let own = cluster.mac_of(&speaker);
    let heard = Instant::now();
    let recorded: Vec<Frame> = eventually("heartbeats are heard", SOON, async || {
        let frames = cluster.capture.since(heard);
        let own = frames
            .into_iter()
            .filter(|frame| claims::is_segment_heartbeat(frame) && frame.source() == Some(own));
        let own: Vec<Frame> = own.collect();
        (own.len() >= 20).then_some(own)
    })
    .await;

    watch.begin();
    let mut turn = Instant::now();
    for (index, frame) in recorded.iter().enumerate() {
        let mut garbled = frame.bytes.clone();
        for byte in garbled.iter_mut().skip(20 + index).step_by(7) {
            *byte ^= 0x5a;
        }
        garbled.truncate(frame.bytes.len() - index % 3);
        cluster.asker.inject(&garbled).unwrap();
        cluster.asker.inject(&frame.bytes).unwrap();
        turn += 50 * MS;
        until(turn).await;
    }
    watch.settle(1500 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("while it lives: {seen}");
    seen.assert_safe();
    assert_eq!(seen.moves, 0, "{seen}");
    assert_eq!(seen.speakers, [speaker.as_str()], "{seen}");
    // The switch believes the speaker to be where its frames came from, until it speaks again: what
    // is lost meanwhile is the switch's doing.

    let (mut watch, speaker) = cluster.watch_speaker().await.unwrap();
    let recorded: Vec<&Frame> = recorded
        .iter()
        .filter(|frame| frame.source() == Some(cluster.mac_of(&speaker)))
        .collect();
    assert!(
        !recorded.is_empty(),
        "the speaker is still the one recorded"
    );
    watch.begin();
    cluster.crash(&speaker).unwrap();
    let mut turn = Instant::now();
    for frame in recorded.iter().cycle().take(60) {
        cluster.asker.inject(&frame.bytes).unwrap();
        turn += 50 * MS;
        until(turn).await;
    }
    watch.settle(3000 * MS, SOON).await;
    let seen = watch.end(cluster);
    println!("after its death: {seen}");
    seen.assert_safe();
    if seen.counts() {
        assert!(seen.outage <= 1000 * MS, "{seen}");
    }
}
