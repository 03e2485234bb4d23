//! Networks and machines that do some of what they should.

use std::time::Duration;

use mooring_tests::failover::faults::until;
use mooring_tests::failover::{Scene, Seen};
use mooring_tests::netlab::{Mischief, Quota, Relay, TOLERABLE};

/// How long each kind of trouble lasts.
const SPAN: Duration = Duration::from_secs(12);
/// So often, if the relays were late.
const ATTEMPTS: usize = 4;

/// All clients at work during some trouble, which lasts as long as what `begin` gives.
async fn during<T>(scene: &Scene, what: &str, begin: impl FnOnce(&Scene) -> T) -> (Seen, T) {
    let (mut watch, _) = scene.watch_speaker().await.unwrap();
    watch.begin();
    let trouble = begin(scene);
    until(watch.began() + SPAN).await;
    let seen = watch.end(scene);
    println!("{what}: {seen}");
    (seen, trouble)
}

pub async fn case_11_heartbeats_lost_at_random_never_make_two_speakers(scene: &mut Scene) {
    for percent in [1, 5, 20] {
        let what = format!("{percent} % lost");
        let lose = |scene: &Scene| scene.lose_heartbeats(percent).unwrap();
        let (seen, ()) = during(scene, &what, lose).await;
        seen.assert_safe();
        if percent == 1 {
            assert_eq!(seen.moves, 0, "{seen}");
        }
        if percent == 5 && seen.counts() {
            assert!(seen.moves <= 1, "{seen}");
        }
        for name in scene.members() {
            scene.port(name).mend().unwrap();
        }
        scene.restore().await.unwrap();
    }
}

/// What daemons and neighbours say passes a relay that does to it what networks do, more often.
pub async fn case_11_delay_disorder_and_duplicates_never_make_two_speakers(scene: &mut Scene) {
    // The owner's words take longer than those of the others.
    let mischiefs = [
        Mischief {
            delay: (Duration::from_millis(1), Duration::from_millis(30)),
            duplicated: 10,
            ..Mischief::seeded(1)
        },
        Mischief {
            delay: (Duration::from_millis(5), Duration::from_millis(120)),
            lost: 5,
            duplicated: 5,
            ..Mischief::seeded(2)
        },
    ];
    for mischief in mischiefs {
        let mut attempts = 0;
        while !survives(scene, mischief).await {
            attempts += 1;
            assert!(attempts < ATTEMPTS, "the machine is too busy for relays");
        }
    }
}

/// Whether what was seen counts: answers that the relays themselves held back are no late answers.
async fn survives(scene: &mut Scene, mischief: Mischief) -> bool {
    let owner = scene.speaker().await.unwrap();
    let relay = |scene: &Scene| -> Vec<_> {
        let relay = |name: &str| {
            let share = if name == owner { 2 } else { 1 };
            let (least, most) = mischief.delay;
            let mischief = Mischief {
                delay: (least * share, most * share),
                ..mischief
            };
            scene.port(name).relay(mischief).unwrap()
        };
        scene.members().map(relay).collect()
    };
    let (seen, relays) = during(scene, &format!("{mischief:?}"), relay).await;
    let passed: Vec<usize> = relays.iter().map(Relay::passed).collect();
    let late = relays.iter().map(Relay::late).max().unwrap_or_default();
    println!("relayed: {passed:?}, late by {late:?} at most");
    assert!(passed.iter().all(|frames| *frames > 0), "{passed:?}");
    if late <= TOLERABLE {
        seen.assert_safe();
    }
    drop(relays);
    scene.restore().await.unwrap();
    late <= TOLERABLE
}

pub async fn case_25_a_daemon_without_processor_time_never_makes_two_speakers(scene: &mut Scene) {
    let owner = scene.speaker().await.unwrap();
    let keep_short = |scene: &Scene| Quota::of(&scene.daemons[&owner], 5).unwrap();
    // It may answer late, as long as it is the one who may answer.
    let (seen, quota) = during(scene, "5 % of a processor", keep_short).await;
    seen.assert_safe();
    drop(quota);
}
