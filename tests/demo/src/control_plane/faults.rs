//! What befalls the nodes, one after the other.

use std::time::Duration;

use anyhow::Result;
use futures::future::LocalBoxFuture;

use super::super::console::Step;
use super::NODES;
use mooring_test_netlab::control_plane_nodes::{ControlPlaneNodes, Part};

/// What becomes of the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Another node has it.
    Moves,
    /// It stays where it is: nothing is left to serve.
    Stays,
    /// Another node answers for a while, and gives it back.
    Returns,
    /// Whoever is ready first has it.
    Restarts,
}

type Strike = for<'a> fn(&'a mut ControlPlaneNodes, &'a str) -> LocalBoxFuture<'a, Result<()>>;

/// A fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) outcome: Outcome,
    /// Makes it; the name is that of the node with the address.
    pub(super) strike: Strike,
}

/// All of them.
pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "its API server is killed",
        outcome: Outcome::Moves,
        strike: |nodes, speaker| {
            Box::pin(async move {
                nodes.node_mut(speaker).kill(Part::ApiServer);
                Ok(())
            })
        },
    },
    Fault {
        name: "its API server hangs",
        outcome: Outcome::Moves,
        strike: |nodes, speaker| {
            Box::pin(async move { nodes.node(speaker).process(Part::ApiServer)?.freeze() })
        },
    },
    Fault {
        name: "its member of etcd is killed",
        outcome: Outcome::Moves,
        strike: |nodes, speaker| {
            Box::pin(async move {
                nodes.node_mut(speaker).kill(Part::Etcd);
                Ok(())
            })
        },
    },
    Fault {
        name: "its node crashes",
        outcome: Outcome::Moves,
        strike: |nodes, speaker| Box::pin(async move { nodes.node_mut(speaker).crash() }),
    },
    Fault {
        name: "its cable is pulled",
        outcome: Outcome::Moves,
        strike: |nodes, speaker| Box::pin(async move { nodes.node(speaker).host.pull_cable() }),
    },
    Fault {
        name: "etcd loses its quorum",
        outcome: Outcome::Stays,
        strike: |nodes, speaker| {
            Box::pin(async move {
                for name in NODES.into_iter().filter(|name| *name != speaker) {
                    nodes.node_mut(name).kill(Part::Etcd);
                }
                Ok(())
            })
        },
    },
    Fault {
        name: "its static Pod is updated",
        outcome: Outcome::Returns,
        strike: |nodes, speaker| Box::pin(update(nodes, speaker)),
    },
    Fault {
        name: "all nodes restart at once",
        outcome: Outcome::Restarts,
        strike: |nodes, _| Box::pin(async move { restart(nodes) }),
    },
];

/// As after a power cut.
fn restart(nodes: &mut ControlPlaneNodes) -> Result<()> {
    for name in NODES {
        nodes.node_mut(name).crash()?;
    }
    NODES
        .into_iter()
        .try_for_each(|name| nodes.node_mut(name).boot(true))
}

/// As the kubelet does: the old process ends before the new one starts.
async fn update(nodes: &mut ControlPlaneNodes, speaker: &str) -> Result<()> {
    let old = nodes.node_mut(speaker).take(Part::Announcer)?;
    old.terminate()?;
    old.wait_for_exit(Duration::from_secs(15)).await;
    nodes.node_mut(speaker).start(Part::Announcer)?;
    let step = Step::new("the address is given back", 30, &[]);
    step.until(async || {
        let state = nodes.node(speaker).state().await?;
        anyhow::ensure!(state.announced == 2, "it announces {}", state.announced);
        Ok(())
    })
    .await
}
