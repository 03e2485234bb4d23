//! SEC-15: a daemon that finds no fence writes nothing, says so, and begins once there is one.

use mooring_common::names::reasons;
use mooring_test_cluster::objects::events_for;
use mooring_test_netlab::netlab::Host;
use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{Fence, NetlabCluster, Network};
use mooring_test_support::process::Process;
use mooring_test_support::wait::{eventually, never};

use crate::fence::policies::{SOON, can_speak, lease_of, requests_of};

#[test]
fn sec_15_without_a_fence_a_daemon_writes_nothing_and_begins_once_there_is_one() {
    in_netlab(async || {
        let cluster = NetlabCluster::start(&["n1", "n2"]).await.unwrap();
        let _kubelets = cluster.register().await.unwrap();
        let fence = Fence::take_down(&cluster).await;
        let _central = cluster.start_central(&[]).await.unwrap();
        let [n1, n2] = ["n1", "n2"].map(|name| cluster.node(name));
        let careful = cluster.start_daemon(n1, &[]).await.unwrap();
        let careless = cluster.start_daemon(n2, &["--allow-unfenced"]).await;
        let careless = careless.unwrap();
        Network::of_the_bridge().create(&cluster).await.unwrap();

        // The marker: what a daemon writes that does not mind.
        can_speak(&cluster, "n2").await;
        assert!(careless.log().contains("--allow-unfenced"));
        never(
            "a write without a fence",
            SOON,
            async || is_told(&cluster, &careful).await,
            async || writes_of(&cluster, "n1").await,
        )
        .await;
        assert!(lease_of(&cluster, "n1").await.is_none());
        it_lives_and_is_not_ready(n1, &careful).await;

        fence.put_up(&cluster).await;
        can_speak(&cluster, "n1").await;
        assert_eq!(n1.get(READYZ).await.unwrap().status, 200);
        metric_is(n1, "mooring_node_fence{state=\"standing\"} 1").await;
        assert!(careful.log().contains("the fence stands"));
        metric_is(n2, "mooring_node_fence{state=\"waived\"} 1").await;
        cluster.assert_nothing_refused().await;
    });
}

const READYZ: &str = "http://127.0.0.1:10266/readyz";

/// The Event on its Node, in spite of all.
async fn is_told(cluster: &NetlabCluster, daemon: &Process) -> bool {
    let told = events_for(&cluster.admin, "Node", None, "n1").await;
    let mut told = told.unwrap();
    told.retain(|event| event.reason == reasons::FENCE_MISSING);
    for event in &told {
        assert_eq!(event.kind, "Warning");
        assert!(event.note.contains("--allow-unfenced"), "{}", event.note);
        assert!(event.note.contains("nodeDaemon.fence"), "{}", event.note);
    }
    assert!(told.len() <= 1, "{told:?}");
    !told.is_empty() && daemon.log().contains("nothing is written")
}

/// All that the daemon has written, but for that Event.
async fn writes_of(cluster: &NetlabCluster, node: &str) -> Option<String> {
    let writes = requests_of(cluster, node).await.writes();
    let others = writes.filter(|record| {
        let reason = record.body.as_ref().map(|body| body["reason"].clone());
        record.resource != "events" || reason != Some(reasons::FENCE_MISSING.into())
    });
    (!others.is_empty()).then(|| others.summary())
}

/// Restarting it would not help, and a rolling update must not go on.
async fn it_lives_and_is_not_ready(node: &Host, daemon: &Process) {
    assert!(daemon.is_running());
    let livez = node.get("http://127.0.0.1:10266/livez").await.unwrap();
    assert_eq!(livez.status, 200, "{}", livez.body);
    let readyz = node.get(READYZ).await.unwrap();
    assert_eq!(readyz.status, 503);
    assert!(readyz.body.contains("admission policy"), "{}", readyz.body);
    metric_is(node, "mooring_node_fence{state=\"missing\"} 1").await;
}

async fn metric_is(node: &Host, line: &str) {
    eventually(line, SOON, async || {
        let answer = node.get("http://127.0.0.1:10267/metrics").await?;
        anyhow::ensure!(answer.body.contains(line), "{}", answer.body);
        anyhow::Ok(())
    })
    .await;
}
