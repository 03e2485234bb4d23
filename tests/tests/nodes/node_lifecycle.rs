//! The life of Nodes (scenarios LC-…): deletion, the shutdown taint, and above all what must not
//! be deleted.

mod deletion;
mod doubt;
mod shutdown;

use mooring_common::names::reasons;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};

fn file(machines: &Machines) -> MachinesFile {
    MachinesFile::new(machines).expect("a machines file")
}

fn provider_id(name: &str) -> String {
    format!("cloudlycke://{name}")
}

/// An initialised Node, without a Ready condition yet. (It gets its status in a second request: one
/// whose machine is gone, but that is to be Ready, must be made before central looks.)
fn node(name: &str) -> NodeBuilder {
    NodeBuilder::new(name).provider_id(&provider_id(name))
}

fn running(name: &str) -> Machine {
    Machine::named(name)
}

fn gone(name: &str) -> Machine {
    Machine::named(name).state("terminated")
}

/// Machines that run, so that one that is gone is a small share.
struct Crowd(Vec<String>);

impl Crowd {
    fn of(count: usize) -> Self {
        Self((0..count).map(|_| unique("crowd")).collect())
    }

    fn machines(&self) -> impl Iterator<Item = Machine> + '_ {
        self.0.iter().map(|name| running(name))
    }

    async fn create(&self, cluster: &Cluster) {
        for name in &self.0 {
            node(name).ready().create(&cluster.admin).await.unwrap();
        }
    }
}

/// A Node whose machine is gone, made last: when it has been deleted, all Nodes before it have
/// been judged, since one pass judges all.
struct Marker {
    name: String,
}

impl Marker {
    fn new() -> Self {
        Self {
            name: unique("marker"),
        }
    }

    fn machine(&self) -> Machine {
        gone(&self.name)
    }

    /// Without any condition, so that it is whole at once: it may be gone before there is time for
    /// a second request.
    async fn create(&self, cluster: &Cluster) {
        node(&self.name).create(&cluster.admin).await.unwrap();
    }

    /// Waits for so many passes over all Nodes.
    async fn passes(&self, cluster: &Cluster, count: u32) {
        for _ in 0..count {
            self.create(cluster).await;
            cluster.is_gone(&self.name).await;
        }
    }
}

/// Asserts that a Node was never asked to go, and nothing said of it.
async fn is_untouched(cluster: &Cluster, name: &str) {
    assert!(cluster.node(name).await.is_some(), "{name} is gone");
    let writes = cluster.written_on(name).await;
    assert!(writes.is_empty(), "{}", writes.summary());
    let events = cluster.events(name, reasons::DELETING_NODE).await;
    assert!(events.is_empty(), "{events:?}");
}
