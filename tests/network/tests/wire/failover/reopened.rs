//! Segments that one process closes and opens again.

use std::time::Instant;

use mooring_test_netlab::failover::FailoverCluster;
use mooring_test_netlab::netlab::claims;
use mooring_test_support::wait::eventually;
use serde_json::json;

use crate::failover::alone::{MS, SOON};

/// Two of three voters lose the label by which the L2Network selects them, and get it back, one after the
/// other. Without them nobody could take over from the third.
pub async fn nodes_that_lost_their_label_and_got_it_back_vote_within_a_second(
    cluster: &mut FailoverCluster,
) {
    let speaker = cluster.speaker().await.unwrap();
    let mut took = Vec::new();
    let others: Vec<_> = cluster.members().filter(|name| *name != speaker).collect();
    for name in others {
        cluster
            .label_node(name, json!({ "segment": "no" }))
            .await
            .unwrap();
        let own = cluster.mac_of(name);
        eventually("it has closed the segment", SOON, async || {
            let frames = cluster.capture.since(Instant::now() - 500 * MS);
            !claims::heartbeats(&frames).contains_key(&own)
        })
        .await;
        let since = Instant::now();
        cluster
            .label_node(name, json!({ "segment": "yes" }))
            .await
            .unwrap();
        let at = eventually("it takes part again", SOON, async || {
            cluster.took_part(name, since)
        })
        .await;
        println!("{name} takes part after {:?}", at - since);
        took.push(at - since);
    }
    // The second that it may take, for one of them at least: a busy machine takes its time, too. What it
    // must not take is as long as the segment was open before.
    took.sort();
    assert!(took[0] <= 1000 * MS && took[1] <= 5000 * MS, "{took:?}");
    let seen = cluster.suffer_crash().await.unwrap();
    println!("a crash then: {seen}");
    seen.assert_safe();
    if seen.counts() {
        assert!(seen.outage <= 1000 * MS, "{seen}");
    }
}
