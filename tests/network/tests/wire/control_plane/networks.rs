//! Heartbeats go over the segment and over the node network: either suffices.

use mooring_common::control_plane::DEFAULT_HEARTBEAT_PORT;
use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Part};
use mooring_test_netlab::failover::Seen;
use mooring_test_netlab::failover::faults::until_measured;
use mooring_test_netlab::netlab::{HeartbeatPath, in_netlab};
use mooring_test_support::wait::eventually;

use super::{MS, SOON, THREE, assert_short, three_nodes};

/// No node hears another on this path. Gives what is seen of that.
async fn cut(nodes: &ControlPlaneNodes, path: HeartbeatPath, label: &str) -> Seen {
    let mut watch = nodes.watch().await.unwrap();
    watch.begin();
    // At the same moment, though not all notice it at the same moment.
    path.lose(&THREE.map(|name| nodes.node(name).host.port()))
        .unwrap();
    for name in THREE {
        eventually(&format!("{name} hears nobody there"), SOON, async || {
            nodes
                .node(name)
                .heard_on(label)
                .await
                .is_ok_and(|heard| heard == 0)
        })
        .await;
    }
    watch.is_well(500 * MS, SOON).await.unwrap();
    let seen = watch.end(nodes);
    println!("{seen}");
    seen.assert_safe();
    assert_eq!(seen.speakers.len(), 1, "{seen}");
    seen
}

async fn one_path_suffices(cut_path: HeartbeatPath, label: &str, what: &str) {
    let (mut nodes, members) = three_nodes().await;
    let killed = until_measured(1, async || {
        let seen = cut(&nodes, cut_path, label).await;
        assert!(!seen.counts() || seen.outage.is_zero(), "{seen}");
        let (mut watch, speaker) = nodes.watch_speaker().await?;
        watch.begin();
        nodes.node_mut(&speaker).kill(Part::ApiServer);
        watch.settle(1500 * MS, SOON).await;
        let seen = watch.end(&nodes);
        println!("{seen}");
        seen.assert_safe();
        assert_ne!(seen.speakers.last(), Some(&speaker), "{seen}");
        for name in THREE {
            nodes.node(name).host.port().mend()?;
        }
        nodes.restore(&members).await?;
        Ok(seen)
    });
    assert_short(what, &killed.await.unwrap());
}

#[test]
fn without_heartbeats_on_the_segment_another_node_takes_the_address() {
    in_netlab(async || {
        let what = "its API server is killed, without heartbeats on the segment";
        one_path_suffices(HeartbeatPath::Segment, "segment", what).await;
    });
}

#[test]
fn without_heartbeats_on_the_node_network_another_node_takes_the_address() {
    in_netlab(async || {
        let path = HeartbeatPath::NodeNetwork(DEFAULT_HEARTBEAT_PORT);
        let what = "its API server is killed, without heartbeats on the node network";
        one_path_suffices(path, "node_network", what).await;
    });
}
