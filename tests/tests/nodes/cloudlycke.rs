//! The provider `cloudlycke`: what the Go provider of that name does (`builtin`), and what the
//! machines file adds to it. Section numbers are those of specs/cloudlycke.md.

mod builtin;
mod identity;
mod reload;
mod start;

use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::machines_file::{Machines, MachinesFile};

fn file(machines: &Machines) -> MachinesFile {
    MachinesFile::new(machines).expect("a machines file")
}

/// Asserts that neither program has written on a Node, and that nothing but one Event was said.
async fn left_alone(cluster: &Cluster, node: &str) {
    let writes = cluster.written_on(node).await;
    assert!(writes.is_empty(), "{}", writes.summary());
    let events = cluster.event_writes(node).await;
    assert!(events.len() <= 1, "{}", events.summary());
}
