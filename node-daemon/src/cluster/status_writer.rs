//! Writes what the L2Networks are to say of this Node: `status.nodes`.
//!
//! # Guarantees
//! * Each write names the own entry alone (server-side apply, every daemon as a manager of its own),
//!   so that daemons that write at once do not collide.
//! * Nothing is written where nothing has changed.
//! * All daemons write to one object, and the API server lets them do so one after the other. Whoever
//!   had to wait for that makes room for the others, and nobody tries again when the others do: or else
//!   each write of fifty would take until it is given up.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::l2_network::{L2Network, SegmentNode};
use mooring_common::names::segment_reasons;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::protocol::random::SplitMix;

/// The shortest time between two rounds, so that a link that flaps does not become a storm.
const SHORTEST_GAP: Duration = Duration::from_secs(1);
/// Up to so many times as long as a round took, no other follows; for this long at most.
const ROOM: u32 = 10;
const MOST_ROOM: Duration = Duration::from_secs(30);
/// If a write was given up, twice as long as before; for this long at most.
const LONGEST_ROOM: Duration = Duration::from_secs(300);
/// How soon to look again at what is not as it should be: on average, and half as long at least.
const RETRY: Duration = Duration::from_secs(10);
/// The same where the API server has refused it: the list is full, or the CRD is an older one.
const RETRY_REFUSED: Duration = Duration::from_secs(300);
/// How long one write may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest name of a manager that the API server takes, in bytes.
const LONGEST_MANAGER: usize = 128;

/// What is to be done about the entries of this Node, by L2Network.
pub type Entries = BTreeMap<String, Change>;

/// What is to be done about one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is to be this.
    Put(Box<SegmentNode>),
    /// It is to go.
    Take,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put(_) => "wrote the entry of this Node",
            Self::Take => "removed the entry of this Node",
        })
    }
}

/// Writes the entries of one Node.
pub struct StatusWriter {
    networks: Api<L2Network>,
    manager: String,
}

/// What became of one write.
enum Written {
    Done,
    Refused(String),
    Failed(String),
}

impl StatusWriter {
    /// Writes for this Node.
    #[must_use]
    pub fn new(client: Client, node_name: &str) -> Self {
        Self {
            networks: Api::all(client),
            manager: manager(node_name),
        }
    }

    /// Writes what is wanted until nobody wants anything any more.
    pub async fn run(self, mut wanted: watch::Receiver<Entries>) {
        let mut done = Entries::new();
        let mut faults: BTreeMap<String, String> = BTreeMap::new();
        let mut random = SplitMix::new(RandomState::new().build_hasher().finish());
        let mut room = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let entries = wanted.borrow_and_update().clone();
            done.retain(|network, change| entries.get(network) == Some(change));
            faults.retain(|network, _| entries.contains_key(network));
            let mut wait = RETRY / 2 + random.up_to(RETRY);
            for (network, change) in &entries {
                if done.get(network) == Some(change) {
                    continue;
                }
                let fault = match self.write(network, change).await {
                    Written::Done => {
                        tracing::info!(network, "{change}");
                        done.insert(network.clone(), change.clone());
                        faults.remove(network);
                        continue;
                    }
                    Written::Refused(fault) => {
                        wait = RETRY_REFUSED;
                        fault
                    }
                    Written::Failed(fault) => fault,
                };
                if faults.get(network) != Some(&fault) {
                    tracing::warn!(network, fault, "cannot say of this Node how it is");
                    faults.insert(network.clone(), fault);
                }
            }
            let took = begun.elapsed();
            room = if is_cut_off(&entries) || is_cut_off(&wanted.borrow()) {
                // What the own cable holds up says nothing of the others.
                Duration::ZERO
            } else if took < LIMIT {
                (took * ROOM).min(MOST_ROOM)
            } else {
                (room * 2).clamp(MOST_ROOM, LONGEST_ROOM)
            };
            sleep(SHORTEST_GAP + random.up_to(room)).await;
            let again = (!entries.is_empty()).then(|| Instant::now() + wait);
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                // What was written and is still wanted, somebody has undone.
                () = until(again) => done.clear(),
            }
        }
    }

    async fn write(&self, network: &str, change: &Change) -> Written {
        let nodes = match change {
            Change::Put(entry) => json!([entry]),
            Change::Take => json!([]),
        };
        let patch = Patch::Apply(json!({
            "apiVersion": L2Network::api_version(&()),
            "kind": L2Network::kind(&()),
            "metadata": { "name": network },
            "status": { "nodes": nodes },
        }));
        // Nobody else may have a say in the own entry.
        let params = PatchParams::apply(&self.manager).force();
        let request = self.networks.patch_status(network, &params, &patch);
        match timeout(LIMIT, request).await {
            Ok(Ok(_)) => Written::Done,
            Ok(Err(error)) => match classify(&error) {
                // The L2Network is gone, and its entries with it.
                ApiFailure::NotFound => Written::Done,
                ApiFailure::Refused => Written::Refused(with_causes(&error)),
                ApiFailure::Conflict | ApiFailure::Transient => {
                    Written::Failed(with_causes(&error))
                }
            },
            Err(_) => Written::Failed(format!("no answer within {LIMIT:?}")),
        }
    }
}

/// Whether this Node says that a cable of its own is out.
fn is_cut_off(entries: &Entries) -> bool {
    entries.values().any(
        |change| matches!(change, Change::Put(entry) if entry.reason == segment_reasons::INTERFACE_DOWN),
    )
}

/// The name under which one Node's daemon manages its entries. Of a name that is too long, the end
/// is replaced by a digest.
pub(super) fn manager(node_name: &str) -> String {
    let name = format!("mooring-node-{node_name}");
    if name.len() <= LONGEST_MANAGER {
        return name;
    }
    let digest: String = Sha256::digest(&name)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // Names of Nodes are ASCII.
    let start: String = name
        .chars()
        .take(LONGEST_MANAGER - 1 - digest.len())
        .collect();
    format!("{start}-{digest}")
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
