//! Initialisation of Nodes (scenarios NI-…), by the real programs on a real API server.
//!
//! What both programs must do alike is proven twice: `by_central` and `by_daemon`.

mod daemon_and_central;
mod hindered;
mod scenarios;
mod unknown;

use k8s_openapi::api::core::v1::Node;
use mooring_test_cluster::machines_file::{Machine, Machines, MachinesFile};

/// Runs scenarios twice: with `mooring-central` alone, and with the Node's `mooring-node` alone.
macro_rules! by_either_program {
    ($($scenario:ident)*) => { $(
        mod $scenario {
            use mooring_test_cluster::cluster::Initializer;

            #[tokio::test]
            async fn by_central() {
                super::$scenario(Initializer::Central).await;
            }

            #[tokio::test]
            async fn by_daemon() {
                super::$scenario(Initializer::Daemon).await;
            }
        }
    )* };
}
pub(crate) use by_either_program;

/// A machine with an address.
fn machine(node: &str) -> Machine {
    Machine::named(node).internal("10.1.0.1")
}

/// A machines file with one machine.
fn file_of(machine: Machine) -> MachinesFile {
    file(&Machines::of([machine]))
}

fn file(machines: &Machines) -> MachinesFile {
    MachinesFile::new(machines).expect("a machines file")
}

/// The taints of a Node as "key=value:effect", in order.
fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints
        .into_iter()
        .flatten()
        .map(|t| {
            format!(
                "{}={}:{}",
                t.key,
                t.value.as_deref().unwrap_or(""),
                t.effect
            )
        })
        .collect()
}
