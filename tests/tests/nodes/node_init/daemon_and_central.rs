//! Both programs on one Node: the daemon goes first, central does what the daemon does not.

use std::time::{Duration, Instant};

use mooring_common::names::{reasons, taints::UNINITIALIZED};
use mooring_test_cluster::cluster::{Cluster, MARKER_LIMIT, addresses, has_taint};
use mooring_test_cluster::machines_file::Machines;
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::wait::never;

use crate::node_init::{file, file_of, machine};

#[tokio::test]
async fn ni_02_central_waits_for_the_daemon_and_leaves_the_node_to_it() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let name = unique("n");
    let machines = file_of(machine(&name));
    let central = cluster.central().machines(&machines);
    let _central = central.flag("--node-daemon-grace=1h").start().await;
    let _daemon = cluster.daemon(&name).machines(&machines).start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    node.create(&cluster.admin).await.unwrap();
    cluster.initialized(&name).await;
    cluster.told(&name, reasons::SYNCED).await;

    // The marker: a Node that nobody needs to wait for is looked after by central.
    let marker = unique("marker");
    machines
        .replace(&Machines::of([
            machine(&name),
            machine(&marker).internal("10.1.0.2"),
        ]))
        .unwrap();
    NodeBuilder::new(&marker)
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();
    cluster
        .is(&marker, "looked after", |node| !addresses(node).is_empty())
        .await;
    let users = |log: &[mooring_test_cluster::control_plane::Record]| -> Vec<String> {
        log.iter().map(|record| record.user.clone()).collect()
    };
    let by_whom = users(&cluster.written_on(&name).await);
    assert!(
        by_whom.iter().all(|user| user.ends_with(":mooring-node")),
        "{by_whom:?}"
    );
    assert_eq!(by_whom.len(), 2);
    assert_eq!(cluster.events(&name, reasons::SYNCED).await.len(), 1);
    cluster.finish().await;
}

#[tokio::test]
async fn ni_02_without_a_daemon_central_does_it_after_the_grace() {
    const GRACE: Duration = Duration::from_secs(3);
    let cluster = Cluster::exclusive_with_controllers().await;
    let (name, marker) = (unique("n"), unique("marker"));
    let both = [machine(&name), machine(&marker).internal("10.1.0.2")];
    let machines = file(&Machines::of(both));
    let central = cluster.central().machines(&machines);
    let _central = central.flag("--node-daemon-grace=3s").start().await;
    let node = NodeBuilder::new(&name).tainted().ready();
    let since = Instant::now();
    node.create(&cluster.admin).await.unwrap();
    NodeBuilder::new(&marker)
        .ready()
        .create(&cluster.admin)
        .await
        .unwrap();

    // The marker: central works, on a Node that came later and has no taint.
    never(
        "a write before the grace is over",
        MARKER_LIMIT,
        async || !addresses(&cluster.node(&marker).await.unwrap()).is_empty(),
        async || {
            let node = cluster.node(&name).await.unwrap();
            let early = since.elapsed() < GRACE;
            (early && !has_taint(&node, UNINITIALIZED)).then(|| "untainted".to_owned())
        },
    )
    .await;
    cluster.initialized(&name).await;
    assert!(since.elapsed() >= GRACE, "after {:?}", since.elapsed());
    let writes = cluster.written_on(&name).await;
    assert_eq!(writes.len(), 2, "{}", writes.summary());
    cluster.finish().await;
}
