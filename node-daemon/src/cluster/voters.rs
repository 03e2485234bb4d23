//! Asks the API server what the protocol wants to know: who votes, and whose Leases stand still.
//!
//! # Guarantees
//! * Voters are read by quorum reads, and replaced only if they are still of the generation that was
//!   looked at, and if enough nodes approve what replaces them: see [`Consent`].
//! * Nothing is asked of, or written to, another L2Network of the same name.
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
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::l2_network::{L2Network, Voters};
use mooring_common::names::node_lease;
use serde_json::json;
use tokio::time::timeout;

use super::status_writer::manager;
use crate::protocol::{ApiAnswer, Consent, NodeId, Request, VoterSet};

/// How long one request may take.
const LIMIT: Duration = Duration::from_millis(500);
/// How often a proposal is tried while others write elsewhere in the object.
const TRIES: usize = 5;
/// How long a Lease stands still until that means something.
const STILL: Duration = Duration::from_secs(30);

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum VoterStoreError {
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
    /// It was deleted, and there is another of its name.
    #[error("the L2Network is not the one that was asked about: its UID is {0}")]
    Another(String),
    /// Others were faster too often.
    #[error("others wrote the L2Network's status {TRIES} times meanwhile")]
    Busy,
}

/// Asks the API server. Clones remember together.
#[derive(Clone)]
pub struct VoterStore {
    networks: Api<L2Network>,
    leases: Api<Lease>,
    node_name: String,
    manager: String,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    /// All names that were ever read: who votes may not be in the status any more if the API server
    /// has gone back.
    names: Arc<Mutex<BTreeMap<NodeId, String>>>,
}

/// An L2Network that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its `metadata.uid`; empty: not known.
    pub uid: &'a str,
}

/// A Lease as it was read.
#[derive(Clone, Debug)]
struct Seen {
    /// `metadata.resourceVersion`; `None`: there was none.
    version: Option<String>,
    /// Since when it has been that.
    since: Instant,
}

impl VoterStore {
    /// Asks as whoever `client` is. `namespace` is that of the daemons' Leases.
    #[must_use]
    pub fn new(client: Client, namespace: &str, node_name: &str) -> Self {
        Self {
            networks: Api::all(client.clone()),
            leases: Api::namespaced(client, namespace),
            node_name: node_name.to_owned(),
            manager: manager(node_name),
            seen: Arc::default(),
            names: Arc::default(),
        }
    }

    /// Answers one question about a segment. `names` are Nodes that may be asked about.
    pub async fn answer(
        &self,
        about: About<'_>,
        request: Request,
        names: &BTreeMap<NodeId, String>,
    ) -> ApiAnswer {
        self.learn(names.clone());
        let result = match request {
            Request::ReadVoters => self.read_voters(about).await,
            Request::Propose {
                replacing,
                voters,
                consent,
            } => self.propose(about, replacing, &voters, &consent).await,
            Request::Approve(voters) => self.approve(about, &voters).await,
            Request::ReadLeases(nodes) => self.leases_unchanged(&nodes, names).await,
        };
        result.unwrap_or_else(|error| {
            let (segment, error) = (about.name, with_causes(&error));
            tracing::debug!(segment, error, "the API server has no answer");
            ApiAnswer::Unreachable
        })
    }

    async fn read(&self, about: About<'_>) -> Result<L2Network, VoterStoreError> {
        // Without a resourceVersion the API server answers as a majority of etcd's members have it.
        let network = within(self.networks.get(about.name)).await?;
        let uid = network.metadata.uid.as_deref().unwrap_or_default();
        if !about.uid.is_empty() && uid != about.uid {
            return Err(VoterStoreError::Another(uid.to_owned()));
        }
        self.learn(names_in(&network, &self.node_name));
        Ok(network)
    }

    fn learn(&self, names: BTreeMap<NodeId, String>) {
        let mut known = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(names);
    }

    async fn read_voters(&self, about: About<'_>) -> Result<ApiAnswer, VoterStoreError> {
        let network = self.read(about).await?;
        Ok(ApiAnswer::Voters(voters_of(&network)))
    }

    async fn propose(
        &self,
        about: About<'_>,
        replacing: u64,
        wanted: &VoterSet,
        consent: &Consent,
    ) -> Result<ApiAnswer, VoterStoreError> {
        let segment = about.name;
        for _ in 0..TRIES {
            let network = self.read(about).await?;
            let current = voters_of(&network);
            if current.generation != replacing {
                return Ok(ApiAnswer::Conflict(current));
            }
            let voters = self.named(wanted)?;
            let approving = self.approving(&network, &voters);
            if !suffices(consent, &approving, wanted, &current) {
                if !approves(&network, &self.node_name, &voters) {
                    self.write_approval(about, &voters).await?;
                }
                return Ok(ApiAnswer::Awaiting(wanted.clone()));
            }
            let patch = json!({
                "metadata": { "resourceVersion": network.metadata.resource_version },
                // What was approved for the set that was is void.
                "status": { "voters": as_patch(&voters), "approvals": null },
            });
            match self.write(segment, patch).await {
                Ok(()) => {
                    let voters = voters.nodes.join(" ");
                    tracing::info!(segment, voters, "the segment has other voters");
                    return Ok(ApiAnswer::Written(wanted.clone()));
                }
                Err(VoterStoreError::Api(error)) if classify(&error) == ApiFailure::Conflict => {}
                Err(error) => {
                    if let VoterStoreError::Api(refusal) = &error
                        && classify(refusal) == ApiFailure::Refused
                    {
                        tracing::warn!(
                            segment,
                            error = with_causes(refusal),
                            "other voters were refused"
                        );
                    }
                    return Err(error);
                }
            }
        }
        Err(VoterStoreError::Busy)
    }

    async fn approve(
        &self,
        about: About<'_>,
        wanted: &VoterSet,
    ) -> Result<ApiAnswer, VoterStoreError> {
        self.write_approval(about, &self.named(wanted)?).await?;
        Ok(ApiAnswer::Approved)
    }

    /// Says that this node approves these. Nobody else writes that, so that nothing is compared.
    async fn write_approval(
        &self,
        about: About<'_>,
        voters: &Voters,
    ) -> Result<(), VoterStoreError> {
        let mut patch = json!({
            "status": { "approvals": { self.node_name.as_str(): as_patch(voters) } },
        });
        if !about.uid.is_empty()
            && let Some(patch) = patch.as_object_mut()
        {
            patch.insert("metadata".to_owned(), json!({ "uid": about.uid }));
        }
        self.write(about.name, patch).await?;
        let segment = about.name;
        let (generation, voters) = (voters.generation, voters.nodes.join(" "));
        tracing::info!(segment, generation, voters, "other voters are approved");
        Ok(())
    }

    async fn write(&self, segment: &str, patch: serde_json::Value) -> Result<(), VoterStoreError> {
        let params = PatchParams {
            field_manager: Some(self.manager.clone()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        within(self.networks.patch_status(segment, &params, &patch))
            .await
            .map(drop)
    }

    /// Who approves these, this node among them.
    fn approving(&self, network: &L2Network, voters: &Voters) -> BTreeSet<NodeId> {
        let approvals = network.status.iter().flat_map(|status| &status.approvals);
        approvals
            .filter(|(_, approved)| *approved == voters)
            .map(|(name, _)| name.as_str())
            .chain([self.node_name.as_str()])
            .map(NodeId::of)
            .collect()
    }

    /// The names of these voters, as far as they are known.
    fn named(&self, wanted: &VoterSet) -> Result<Voters, VoterStoreError> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |node: &NodeId| {
            let name = names.get(node).cloned();
            name.ok_or(VoterStoreError::Nameless(node.0))
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
            let error = with_causes(&error);
            tracing::debug!(error, "Leases cannot be read");
        }
    }

    async fn leases_unchanged(
        &self,
        nodes: &[NodeId],
        names: &BTreeMap<NodeId, String>,
    ) -> Result<ApiAnswer, VoterStoreError> {
        let named = nodes
            .iter()
            .filter_map(|node| Some((*node, names.get(node)?)));
        let read = named.map(async |(node, name)| {
            let lease = within(self.leases.get_opt(&node_lease(name))).await?;
            Ok::<_, VoterStoreError>((node, name, lease.and_then(|l| l.metadata.resource_version)))
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
) -> Result<T, VoterStoreError> {
    match timeout(LIMIT, request).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(VoterStoreError::Silent),
    }
}

/// Whether enough nodes approve what is wanted in the place of what is stored.
fn suffices(
    consent: &Consent,
    approving: &BTreeSet<NodeId>,
    wanted: &VoterSet,
    stored: &VoterSet,
) -> bool {
    let most =
        |of: &BTreeSet<NodeId>| of.is_empty() || of.intersection(approving).count() * 2 > of.len();
    let all = wanted.voters.is_subset(approving);
    match consent {
        Consent::Own => true,
        // Where most of those that are stored are gone, the admission policy asks for all.
        Consent::Most(served) => most(served) && (most(&stored.voters) || all),
        Consent::All => all,
    }
}

fn approves(network: &L2Network, node: &str, voters: &Voters) -> bool {
    let status = network.status.as_ref();
    status.is_some_and(|status| status.approvals.get(node) == Some(voters))
}

/// In a merge patch, what is not named stays.
fn as_patch(voters: &Voters) -> serde_json::Value {
    json!({
        "generation": voters.generation,
        "nodes": voters.nodes,
        "primary": voters.primary,
    })
}

/// The voters, as the daemons speak of them. Without any, the generation is zero.
#[must_use]
pub fn voter_set(voters: Option<&Voters>) -> VoterSet {
    voters.map_or_else(VoterSet::default, |voters| VoterSet {
        generation: u64::try_from(voters.generation).unwrap_or_default(),
        voters: voters.nodes.iter().map(|name| NodeId::of(name)).collect(),
        primary: voters.primary.as_deref().map(NodeId::of),
    })
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
