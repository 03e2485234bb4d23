//! Section 6.5, rules 3, 5 and 8: what is wrong with a file is told at once and whole, and nothing
//! starts.

use mooring_test_cluster::cluster::{Cluster, Initializer, SOON};
use mooring_test_cluster::machines_file::MachinesFile;
use mooring_test_cluster::objects::{NodeBuilder, unique};

/// Everything that two people can do to one file.
const FAULTY: &str = "
version: 1
scheme: cloudlycke
nodes:
  - match: {name: a, systemUUID: 4C4C4544-0031-4810-8036-B4C04F4E3232}
    id: x
    zone: 'not a label!'
  - match: {name: b, systemUUID: 4c4c4544-0031-4810-8036-b4c04f4e3232}
    id: y
    addresses: [{type: InternalIP, address: 10.0.0.300}]
  - match: {name: c, machineID: a37e5b7c0d1f4e2a9b8c7d6e5f4a3b2c}
    id: x
    sate: running
  - match: {name: d, machineID: a37e5b7c0d1f4e2a9b8c7d6e5f4a3b2c}
    labels: {'example.com/rack': 'r 7'}
";

/// What each fault's line must say: its place, and the machines or the value.
const TOLD: [(&str, &[&str]); 7] = [
    ("nodes[0].zone", &["not a label!"]),
    ("nodes[1].addresses[0].address", &["10.0.0.300"]),
    ("nodes[2].sate", &["no key here"]),
    ("nodes[3].labels", &["r 7"]),
    ("nodes[1].match.systemUUID", &["(a)", "(b)"]),
    ("nodes[2].id", &["cloudlycke://x", "(a)", "(c)"]),
    ("nodes[3].match.machineID", &["(c)", "(d)"]),
];

async fn refuses_to_start(by: Initializer) {
    let cluster = Cluster::exclusive_with_controllers().await;
    let node = unique("n");
    NodeBuilder::new(&node)
        .tainted()
        .create(&cluster.admin)
        .await
        .unwrap();
    let machines = MachinesFile::with_text(FAULTY).unwrap();
    let program = cluster
        .initializer(by, &node)
        .machines(&machines)
        .try_start()
        .await;
    assert_eq!(program.wait_for_code(SOON).await, 1);
    let log = program.log();
    for (place, words) in TOLD {
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.trim_start().starts_with(place))
            .collect();
        assert_eq!(lines.len(), 1, "{place} is to be told of once:\n{log}");
        for word in words {
            assert!(lines[0].contains(word), "{word:?} is missing: {}", lines[0]);
        }
    }
    assert!(log.contains("has 7 faults"), "{log}");
    assert!(cluster.written_on(&node).await.is_empty());
    cluster.finish().await;
}

#[tokio::test]
async fn cl_6_5_5_central_does_not_start_with_a_faulty_file_and_tells_all_faults() {
    refuses_to_start(Initializer::Central).await;
}

#[tokio::test]
async fn cl_6_5_5_the_daemon_does_not_start_with_a_faulty_file_and_tells_all_faults() {
    refuses_to_start(Initializer::Daemon).await;
}

#[tokio::test]
async fn cl_6_5_3_without_its_file_nothing_starts() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let machines = MachinesFile::with_text("").unwrap();
    machines.take_away().unwrap();
    for by in [Initializer::Central, Initializer::Daemon] {
        let program = cluster
            .initializer(by, "n1")
            .machines(&machines)
            .try_start()
            .await;
        assert_eq!(program.wait_for_code(SOON).await, 1);
        let log = program.log();
        assert!(
            log.contains("check the path, the mount and its permissions"),
            "{log}"
        );
    }
    cluster.finish().await;
}

#[tokio::test]
async fn cl_6_5_3_an_empty_file_starts_nothing() {
    let cluster = Cluster::exclusive_with_controllers().await;
    let machines = MachinesFile::with_text("").unwrap();
    for by in [Initializer::Central, Initializer::Daemon] {
        let program = cluster
            .initializer(by, "n1")
            .machines(&machines)
            .try_start()
            .await;
        assert_eq!(program.wait_for_code(SOON).await, 1, "{}", program.log());
    }
    cluster.finish().await;
}
