//! What a daemon costs that has nothing to do.

use mooring_test_netlab::netlab::in_netlab;
use mooring_test_netlab::netlab_cluster::{NetlabCluster, Network};
use mooring_test_support::figures::figure;
use mooring_test_support::program::Program;
use mooring_test_support::wait::eventually;

use crate::announce::cluster::SOON;

/// What is aimed at, in KiB.
const TARGET: u64 = 15 * 1024;

/// With one segment that it can speak on, and everything else switched on as it is shipped.
#[test]
fn an_idle_daemon_is_small() {
    in_netlab(async || {
        let cluster = NetlabCluster::start(&["n1"]).await.unwrap();
        let _kubelets = cluster.register().await.unwrap();
        let _central = cluster.start_central(&[]).await.unwrap();
        Network::of_the_bridge().create(&cluster).await.unwrap();
        let node = cluster.node("n1");
        let mut spec = cluster.daemon_spec(node, &[]).await.unwrap();
        let (profile, program) = Program::Node.release_or_own().unwrap();
        spec.program = program;
        let daemon = node.start(spec).unwrap();
        eventually("it is on air and has settled", SOON * 2, async || {
            let metrics = node.get("http://127.0.0.1:10267/metrics").await.ok()?;
            (daemon.log().contains("segment can be spoken on") && metrics.status == 200)
                .then_some(())
        })
        .await;
        let resident = daemon.resident_kib().unwrap();
        figure(
            "Resident memory of an idle mooring-node",
            format_args!("{resident} KiB ({profile} build, target {TARGET} KiB)"),
        );
        let limit = if profile == "release" {
            TARGET
        } else {
            TARGET * 4
        };
        assert!(resident < limit, "{resident} KiB resident");
    });
}
