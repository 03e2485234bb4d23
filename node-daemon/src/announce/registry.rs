//! Asks the API server what the protocol wants to know: who votes, and whose Leases stand still.
//!
//! # Guarantees
//! * Voters are read by quorum reads, and replaced only if they are still of the generation that was
//!   looked at.
//! * An answer takes a second at most, and none is made up: what is not known is
//!   [`ApiAnswer::Unreachable`].
//! * A Lease stands still if two readings at least 30 s apart, by this node's monotonic clock, found it
//!   the same. What the Lease says about time is not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::l2_network::{L2Network, Voters};
use mooring_common::names::node_lease;
use serde_json::json;
use tokio::time::timeout;

use super::herald::manager;
use super::protocol::{ApiAnswer, NodeId, Request, VoterSet};
use super::segments::voter_set;

/// How long one request may take.
const LIMIT: Duration = Duration::from_millis(500);
/// How often a proposal is tried while others write elsewhere in the object.
const TRIES: usize = 5;
/// How long a Lease stands still until that means something.
const STILL: Duration = Duration::from_secs(30);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The API server refused, or could not be reached.
    #[error("the API server did not take it")]
    Api(#[from] kube::Error),
    /// The API server does not answer.
    #[error("the API server did not answer within {LIMIT:?}")]
    Silent,
    /// A voter cannot be named.
    #[error(
        "the L2Network's status does not name the node {0:016x} yet; it will when its daemon has \
         written its entry there"
    )]
    Nameless(u64),
    /// Others were faster too often.
    #[error("others wrote the L2Network's status {TRIES} times meanwhile")]
    Busy,
}

/// Asks the API server. Clones remember together.
#[derive(Clone)]
pub struct Registry {
    networks: Api<L2Network>,
    leases: Api<Lease>,
    node_name: String,
    manager: String,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

/// A Lease as it was read.
#[derive(Clone, Debug)]
struct Seen {
    /// `metadata.resourceVersion`; `None`: there was none.
    version: Option<String>,
    /// Since when it has been that.
    since: Instant,
}

impl Registry {
    /// Asks as whoever `client` is. `namespace` is that of the daemons' Leases.
    #[must_use]
    pub fn new(client: Client, namespace: &str, node_name: &str) -> Self {
        Self {
            networks: Api::all(client.clone()),
            leases: Api::namespaced(client, namespace),
            node_name: node_name.to_owned(),
            manager: manager(node_name),
            seen: Arc::default(),
        }
    }

    /// Answers one question about a segment. `names` are Nodes that may be asked about.
    pub async fn answer(
        &self,
        segment: &str,
        request: Request,
        names: &BTreeMap<NodeId, String>,
    ) -> ApiAnswer {
        let result = match request {
            Request::ReadVoters => self.read_voters(segment).await,
            Request::Propose { replacing, voters } => {
                self.propose(segment, replacing, &voters).await
            }
            Request::ReadLeases(nodes) => self.leases_unchanged(&nodes, names).await,
        };
        result.unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(segment, error, "the API server has no answer");
            ApiAnswer::Unreachable
        })
    }

    async fn read(&self, segment: &str) -> Result<L2Network, RegistryError> {
        // Without a resourceVersion the API server answers as a majority of etcd's members have it.
        within(self.networks.get(segment)).await
    }

    async fn read_voters(&self, segment: &str) -> Result<ApiAnswer, RegistryError> {
        let network = self.read(segment).await?;
        Ok(ApiAnswer::Voters(voters_of(&network)))
    }

    async fn propose(
        &self,
        segment: &str,
        replacing: u64,
        wanted: &VoterSet,
    ) -> Result<ApiAnswer, RegistryError> {
        for _ in 0..TRIES {
            let network = self.read(segment).await?;
            let current = voters_of(&network);
            if current.generation != replacing {
                return Ok(ApiAnswer::Conflict(current));
            }
            let voters = self.named(&network, wanted)?;
            let mut status = json!({ "voters": voters });
            if voters.primary.is_none()
                && let Some(voters) = status.get_mut("voters").and_then(|v| v.as_object_mut())
            {
                // In a merge patch, what is not named stays.
                voters.insert("primary".to_owned(), serde_json::Value::Null);
            }
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": network.metadata.resource_version },
                "status": status,
            }));
            let params = PatchParams {
                field_manager: Some(self.manager.clone()),
                ..PatchParams::default()
            };
            let written = within(self.networks.patch_status(segment, &params, &patch)).await;
            match written {
                Ok(_) => {
                    tracing::info!(segment, ?voters, "the segment has other voters");
                    return Ok(ApiAnswer::Written(wanted.clone()));
                }
                Err(RegistryError::Api(error)) if classify(&error) == ApiFailure::Conflict => {}
                Err(error) => {
                    if let RegistryError::Api(refusal) = &error
                        && classify(refusal) == ApiFailure::Refused
                    {
                        tracing::warn!(segment, error = %refusal, "other voters were refused");
                    }
                    return Err(error);
                }
            }
        }
        Err(RegistryError::Busy)
    }

    /// The names of these voters, as far as the status knows them.
    fn named(&self, network: &L2Network, wanted: &VoterSet) -> Result<Voters, RegistryError> {
        let names = names_in(network, &self.node_name);
        let name = |node: &NodeId| {
            let name = names.get(node).cloned();
            name.ok_or(RegistryError::Nameless(node.0))
        };
        Ok(Voters {
            generation: i64::try_from(wanted.generation).unwrap_or(i64::MAX),
            nodes: {
                let mut nodes = wanted
                    .voters
                    .iter()
                    .map(name)
                    .collect::<Result<Vec<_>, _>>()?;
                nodes.sort();
                nodes
            },
            primary: wanted.primary.as_ref().map(name).transpose()?,
        })
    }

    /// Reads the Leases of these Nodes, so that a later reading has something to compare with.
    pub async fn remember_leases(&self, nodes: &[NodeId], names: &BTreeMap<NodeId, String>) {
        if let Err(error) = self.leases_unchanged(nodes, names).await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "Leases cannot be read");
        }
    }

    async fn leases_unchanged(
        &self,
        nodes: &[NodeId],
        names: &BTreeMap<NodeId, String>,
    ) -> Result<ApiAnswer, RegistryError> {
        let named = nodes
            .iter()
            .filter_map(|node| Some((*node, names.get(node)?)));
        let read = named.map(async |(node, name)| {
            let lease = within(self.leases.get_opt(&node_lease(name))).await?;
            Ok::<_, RegistryError>((node, name, lease.and_then(|l| l.metadata.resource_version)))
        });
        let now = Instant::now();
        let mut unchanged = BTreeSet::new();
        for read in join_all(read).await {
            let (node, name, version) = read?;
            if self.stands_still(name, version, now) {
                unchanged.insert(node);
            }
        }
        Ok(ApiAnswer::LeasesUnchanged(unchanged))
    }

    /// Takes down a reading that began at `now`.
    fn stands_still(&self, name: &str, version: Option<String>, now: Instant) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(name) {
            Some(known) if known.version == version => {
                now.saturating_duration_since(known.since) >= STILL
            }
            _ => {
                let reading = Seen {
                    version,
                    since: Instant::now(),
                };
                seen.insert(name.to_owned(), reading);
                false
            }
        }
    }
}

async fn within<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, RegistryError> {
    match timeout(LIMIT, request).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(RegistryError::Silent),
    }
}

fn voters_of(network: &L2Network) -> VoterSet {
    let status = network.status.as_ref();
    voter_set(status.and_then(|status| status.voters.as_ref()))
}

/// All Nodes that the status speaks of, and the own one.
fn names_in(network: &L2Network, own: &str) -> BTreeMap<NodeId, String> {
    let status = network.status.as_ref();
    let entries = status.into_iter().flat_map(|status| &status.nodes);
    let voters = status.and_then(|status| status.voters.as_ref());
    let voters = voters.into_iter().flat_map(|voters| &voters.nodes);
    entries
        .map(|entry| entry.name.as_str())
        .chain(voters.map(String::as_str))
        .chain([own])
        .map(|name| (NodeId::of(name), name.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests;
