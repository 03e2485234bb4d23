//! Addresses of Nodes (scenarios AD-…): at initialisation, and ever after.

mod at_initialization;
mod ever_after;
mod unchanged;

use k8s_openapi::api::core::v1::Node;
use mooring_test_cluster::cluster::{Cluster, addresses};
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};
use mooring_test_cluster::objects::{NodeBuilder, unique};
use serde_json::json;

fn file(machines: impl IntoIterator<Item = Machine>) -> MachinesFile {
    MachinesFile::new(&Machines::of(machines)).expect("a machines file")
}

/// Whether these are a Node's addresses, in this order.
fn has(expected: &[&str]) -> impl Fn(&Node) -> bool {
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    move |node| addresses(node) == expected
}

/// A Node that is there to prove that time has passed: each time that its addresses are spoiled
/// and corrected, a period has passed for every Node.
struct Marker {
    name: String,
}

impl Marker {
    fn new() -> Self {
        Self {
            name: unique("marker"),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn machine(&self) -> Machine {
        Machine::named(&self.name).internal("10.9.9.9")
    }

    async fn create(&self, cluster: &Cluster) {
        let node = NodeBuilder::new(&self.name).ready();
        node.create(&cluster.admin).await.unwrap();
        self.corrected(cluster).await;
    }

    async fn corrected(&self, cluster: &Cluster) {
        let right = has(&["InternalIP 10.9.9.9"]);
        cluster.is(&self.name, "corrected", right).await;
    }

    /// Waits until so many periods have passed, and one more has begun.
    async fn periods(&self, cluster: &Cluster, count: u32) {
        for _ in 0..=count {
            cluster.set_addresses(&self.name, &json!(null)).await;
            self.corrected(cluster).await;
        }
    }
}
