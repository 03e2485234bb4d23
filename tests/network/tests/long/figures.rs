//! Figures of initialisation, taken from the API server's own audit log.

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use mooring_common::names::reasons;
use mooring_test_cluster::cluster::{Cluster, event_writes, logged, requests_about};
use mooring_test_cluster::control_plane::AuditLog;
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use mooring_test_support::figures::figure;

/// How many Nodes register at the same moment, each with its daemon, and how many times. Each
/// daemon has a machine to itself in a cluster, but here all share this one: hence not all at once.
const AT_ONCE: usize = 10;
const ROUNDS: usize = 10;

#[tokio::test]
async fn ni_19_one_hundred_nodes_cost_two_patches_and_an_event_each() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let names: Vec<String> = (0..AT_ONCE * ROUNDS).map(|_| unique("n")).collect();
    let machine = |(i, name): (usize, &String)| {
        Machine::named(name)
            .placed("m.large", "attic", "home")
            .internal(&format!("10.3.0.{i}"))
    };
    let content = Machines::of(names.iter().enumerate().map(machine));
    let machines = MachinesFile::new(&content).unwrap();
    for round in names.chunks(AT_ONCE) {
        initialise(&cluster, &machines, round).await;
    }

    let log = cluster.audit().await;
    let mut times: Vec<SignedDuration> = names.iter().map(|name| time_of(&log, name)).collect();
    times.sort();
    let (p50, p99) = (
        times[times.len() / 2 - 1],
        times[times.len() * 99 / 100 - 1],
    );
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let count = names.len();
    figure(
        "node initialised with daemon",
        format!(
            "p50={} ms p99={} ms over {count} Nodes, {AT_ONCE} at once with their {AT_ONCE} daemons \
             on this machine, {build} build",
            p50.as_millis(),
            p99.as_millis(),
        ),
    );
    count_writes(&log, &names);
    cluster.finish().await;
}

/// Lets Nodes register whose daemons run already.
async fn initialise(cluster: &Cluster, machines: &MachinesFile, names: &[String]) {
    let start = async |name: &String| {
        let daemon = cluster.daemon(name).machines(machines).start().await;
        logged(&daemon, "the Node is not registered yet").await;
        daemon
    };
    let _daemons = join_all(names.iter().map(start)).await;
    let register = async |name: &String| {
        let node = NodeBuilder::new(name).tainted();
        node.create(&cluster.admin).await.unwrap();
        cluster.initialized(name).await;
        cluster.told(name, reasons::SYNCED).await;
    };
    join_all(names.iter().map(register)).await;
}

/// From the arrival of the Node's registration to the answer to the write that took its taint off.
fn time_of(log: &AuditLog, name: &str) -> SignedDuration {
    let on_node = log.of("nodes").named(name);
    let registered: Timestamp = on_node.with_verb("create")[0].received;
    let untainted = on_node
        .with_verb("patch")
        .filter(|r| r.subresource.is_empty());
    let last = untainted.last().expect("the taint went by a patch");
    last.at.duration_since(registered)
}

fn count_writes(log: &AuditLog, names: &[String]) {
    let (mut most_patches, mut most_events) = (0, 0);
    for name in names {
        let writes = requests_about(log, name).writes();
        assert_eq!(
            writes.len(),
            writes.with_verb("patch").len(),
            "{}",
            writes.summary()
        );
        assert!(writes.len() <= 2, "{}", writes.summary());
        let events = event_writes(log, name);
        assert!(events.len() <= 1, "{}", events.summary());
        most_patches = most_patches.max(writes.len());
        most_events = most_events.max(events.len());
    }
    figure(
        "writes per initialisation",
        format!(
            "at most {most_patches} patches, {most_events} event, 0 puts, over {} Nodes",
            names.len()
        ),
    );
}
