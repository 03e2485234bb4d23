//! Networks and machines that do some of what they should.

use std::time::Duration;

use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{FailoverCluster, Seen};
use mooring_test_netlab::netlab::{Mischief, Quota};

/// How long each kind of trouble lasts.
const SPAN: Duration = Duration::from_secs(12);

/// All clients at work during some trouble, which lasts as long as what `begin` gives. What must never
/// be is asserted.
async fn during<T>(
    cluster: &FailoverCluster,
    what: &str,
    begin: impl FnOnce(&FailoverCluster) -> T,
) -> (Seen, T) {
    let (mut watch, _) = cluster.watch_speaker().await.unwrap();
    watch.begin();
    let trouble = begin(cluster);
    until(watch.began() + SPAN).await;
    let seen = watch.end(cluster);
    println!("{what}: {seen}");
    seen.assert_safe();
    (seen, trouble)
}

pub async fn case_11_heartbeats_lost_at_random_never_make_two_speakers(
    cluster: &mut FailoverCluster,
) {
    for percent in [1, 5, 20] {
        let what = format!("{percent} % lost");
        let lose = |cluster: &FailoverCluster| cluster.lose_heartbeats(percent).unwrap();
        let (seen, ()) = during(cluster, &what, lose).await;
        if percent == 1 {
            assert_eq!(seen.moves, 0, "{seen}");
        }
        if percent == 5 && seen.counts() {
            assert!(seen.moves <= 1, "{seen}");
        }
        for name in cluster.members() {
            cluster.port(name).mend().unwrap();
        }
        cluster.restore().await.unwrap();
    }
}

/// What daemons and neighbours say passes a relay that does to it what networks do, more often.
pub async fn case_11_delay_disorder_and_duplicates_never_make_two_speakers(
    cluster: &mut FailoverCluster,
) {
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
        let owner = cluster.speaker().await.unwrap();
        let relay = |cluster: &FailoverCluster| -> Vec<_> {
            let relay = |name: &str| {
                let share = if name == owner { 2 } else { 1 };
                let (least, most) = mischief.delay;
                let mischief = Mischief {
                    delay: (least * share, most * share),
                    ..mischief
                };
                cluster.port(name).relay(mischief).unwrap()
            };
            cluster.members().map(relay).collect()
        };
        let (_, relays) = during(cluster, &format!("{mischief:?}"), relay).await;
        let passed: Vec<usize> = relays.iter().map(|relay| relay.passed()).collect();
        println!("relayed: {passed:?}");
        assert!(passed.iter().all(|frames| *frames > 0), "{passed:?}");
        drop(relays);
        cluster.restore().await.unwrap();
    }
}

pub async fn case_25_a_daemon_without_processor_time_never_makes_two_speakers(
    cluster: &mut FailoverCluster,
) {
    let owner = cluster.speaker().await.unwrap();
    let keep_short = |cluster: &FailoverCluster| Quota::of(&cluster.daemons[&owner], 5).unwrap();
    // It may answer late, as long as it is the one who may answer.
    let (_, quota) = during(cluster, "5 % of a processor", keep_short).await;
    drop(quota);
}
