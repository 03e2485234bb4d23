//! The Lease that shows that this daemon lives, and on which segments it speaks.
//!
//! Nobody watches it. It is looked at where half of a segment's voters or more are lost at once, to
//! tell dead ones from such as only cannot be heard; and by people.
//!
//! # Guarantees
//! * Every write names the version it replaces: what another has changed meanwhile is read first.
//! * `leaseTransitions` goes up by one with every run of the daemon: it is the run's epoch.
//! * When the daemon ends, the Lease is released.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::PostParams;
use kube::{Api, Client};
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ApiFailure, classify};
use mooring_common::names::{annotations, node_lease};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::protocol::mac::Mac;

/// The shortest time between two writes, so that a link that flaps does not become a storm.
const SHORTEST_GAP: Duration = Duration::from_millis(200);
/// How long a Lease that was let go is not looked at.
const A_LONG_TIME: Duration = Duration::from_secs(3600);
/// How soon a failed renewal is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What is to become of the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DesiredLease {
    /// Nothing: it is nobody's, or not there. If this run holds it all the same, it lets it go.
    #[default]
    None,
    /// It is held, and says this.
    Hold(Content),
    /// It is let go, whichever run of the daemon has held it: this Node is on no segment.
    LetGo,
}

/// What the Lease is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The UID of the Node that owns it.
    pub node_uid: String,
    /// The segments that this daemon can speak on, with its MAC address on each.
    pub segments: BTreeMap<String, Mac>,
}

/// Why the Lease could not be written.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The API server refused, or could not be reached.
    #[error("the API server did not take it")]
    Api(#[from] kube::Error),
    /// The API server does not answer.
    #[error("the API server did not answer within {0:?}")]
    Silent(Duration),
}

/// Keeps the Lease of this daemon.
pub struct LeaseKeeper {
    /// The daemons' Leases.
    api: Api<Lease>,
    node_name: String,
    holder: String,
    duration: Duration,
    epoch: Option<i32>,
    last: Option<Lease>,
    failures: Counter,
}

/// The holder identity of a new run: the Node's name, and something that no other run has.
#[must_use]
pub fn new_holder(node_name: &str) -> String {
    let run = RandomState::new().build_hasher().finish();
    format!("{node_name}_{run:016x}")
}

impl LeaseKeeper {
    /// Nothing is written yet. `duration` is how long the Lease holds without renewal.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        node_name: &str,
        holder: &str,
        duration: Duration,
        failures: Counter,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            node_name: node_name.to_owned(),
            holder: holder.to_owned(),
            duration,
            epoch: None,
            last: None,
            failures,
        }
    }

    /// Keeps the Lease as desired, renewing it three times per duration. Returns after the release
    /// when `cancel` is cancelled.
    pub async fn keep(
        mut self,
        mut desired: watch::Receiver<DesiredLease>,
        cancel: CancellationToken,
    ) {
        let mut next = Instant::now();
        let mut failing = false;
        let mut last_write = None;
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                changed = desired.changed() => if changed.is_err() { break },
                () = sleep_until(next) => {}
            }
            if let Some(last) = last_write {
                sleep_until(last + SHORTEST_GAP).await;
            }
            let wanted = desired.borrow_and_update().clone();
            let result = match &wanted {
                DesiredLease::Hold(content) => self.renew(content).await,
                DesiredLease::LetGo => self.let_go().await,
                DesiredLease::None if self.epoch.is_some() => self.let_go().await,
                DesiredLease::None => Ok(()),
            };
            last_write = Some(Instant::now());
            let wait = match result {
                // Once is enough.
                Ok(()) if wanted == DesiredLease::LetGo => A_LONG_TIME,
                Ok(()) => {
                    failing = false;
                    self.duration / 3
                }
                Err(error) => {
                    self.failures.inc();
                    if !std::mem::replace(&mut failing, true) {
                        let error = with_causes(&error);
                        let lease = node_lease(&self.node_name);
                        tracing::warn!(%lease, error, "not renewed, will try again");
                    }
                    RETRY
                }
            };
            next = Instant::now() + wait;
        }
        if let Err(error) = self.release().await {
            let error = with_causes(&error);
            tracing::warn!(lease = %node_lease(&self.node_name), error, "not released");
        }
    }

    async fn renew(&mut self, desired: &Content) -> Result<(), LeaseError> {
        let result = self.try_renew(desired).await;
        match &result {
            // Somebody changed, deleted or created it meanwhile: once more from what is there.
            Err(LeaseError::Api(error))
                if matches!(classify(error), ApiFailure::Conflict | ApiFailure::NotFound) =>
            {
                self.last = None;
                self.try_renew(desired).await
            }
            _ => result,
        }
    }

    async fn try_renew(&mut self, desired: &Content) -> Result<(), LeaseError> {
        let name = node_lease(&self.node_name);
        let found = match self.last.take() {
            Some(last) => Some(last),
            None => self.within(self.api.get_opt(&name)).await?,
        };
        let epoch = self.epoch_after(found.as_ref());
        let lease = self.filled_in(found.clone().unwrap_or_default(), desired, epoch);
        let written = if found.is_some() {
            self.within(self.api.replace(&name, &PostParams::default(), &lease))
                .await?
        } else {
            self.within(self.api.create(&PostParams::default(), &lease))
                .await?
        };
        if self.epoch != Some(epoch) {
            let segments: Vec<_> = desired.segments.keys().map(String::as_str).collect();
            tracing::info!(lease = %name, epoch, segments = segments.join(" "), "lease taken");
            self.epoch = Some(epoch);
        }
        self.last = Some(written);
        Ok(())
    }

    /// This run's epoch, or the one after that of whoever held the Lease.
    fn epoch_after(&self, found: Option<&Lease>) -> i32 {
        let spec = found.and_then(|lease| lease.spec.as_ref());
        let theirs = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let is_ours = spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.holder);
        match self.epoch {
            Some(epoch) if found.is_none() || is_ours => epoch,
            _ => theirs.saturating_add(1),
        }
    }

    fn filled_in(&self, mut lease: Lease, desired: &Content, epoch: i32) -> Lease {
        let now = MicroTime(Timestamp::now());
        let spec = lease.spec.take().unwrap_or_default();
        let acquired = if self.epoch == Some(epoch) {
            spec.acquire_time
        } else {
            None
        };
        let mut annotations = lease.metadata.annotations.take().unwrap_or_default();
        // Strings to strings: there is nothing that could fail.
        let segments = serde_json::to_string(&desired.segments).unwrap_or_default();
        annotations.insert(annotations::LEASE_SEGMENTS.to_owned(), segments);
        Lease {
            metadata: ObjectMeta {
                name: Some(node_lease(&self.node_name)),
                namespace: lease.metadata.namespace,
                resource_version: lease.metadata.resource_version,
                uid: lease.metadata.uid,
                labels: lease.metadata.labels,
                annotations: Some(annotations),
                owner_references: Some(vec![OwnerReference {
                    api_version: "v1".to_owned(),
                    kind: "Node".to_owned(),
                    name: self.node_name.clone(),
                    uid: desired.node_uid.clone(),
                    ..OwnerReference::default()
                }]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.holder.clone()),
                lease_duration_seconds: i32::try_from(self.duration.as_secs()).ok(),
                lease_transitions: Some(epoch),
                acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Leaves a Lease that nobody holds and that names no segment. It is not deleted: that would take a right that is needed for nothing else.
    async fn let_go(&mut self) -> Result<(), LeaseError> {
        let name = node_lease(&self.node_name);
        self.last = None;
        let found = self.within(self.api.get_opt(&name)).await?;
        if let Some(mut lease) = found.filter(|lease| !is_idle(lease)) {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(annotations::LEASE_SEGMENTS.to_owned(), "{}".to_owned());
            self.try_release(lease).await?;
        }
        self.epoch = None;
        Ok(())
    }

    /// Gives the Lease up, if it is held. It still names its segments, and the MAC addresses there:
    /// the daemon is about to be started again, or its last frames are still on their way.
    async fn release(&mut self) -> Result<(), LeaseError> {
        if self.epoch.is_none() {
            return Ok(());
        }
        let result = match self.last.take() {
            Some(last) => self.try_release(last).await,
            None => self.find_and_release().await,
        };
        match &result {
            Err(LeaseError::Api(error)) if classify(error) == ApiFailure::Conflict => {
                self.find_and_release().await
            }
            _ => result,
        }
    }

    async fn find_and_release(&mut self) -> Result<(), LeaseError> {
        let found = self
            .within(self.api.get_opt(&node_lease(&self.node_name)))
            .await?;
        let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
        let is_ours = spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.holder);
        match found {
            Some(lease) if is_ours => self.try_release(lease).await,
            _ => Ok(()),
        }
    }

    /// One request, which may take as long as the Lease can wait for it.
    async fn within<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let limit = self.duration / 3;
        match timeout(limit, request).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(LeaseError::Silent(limit)),
        }
    }

    async fn try_release(&mut self, mut lease: Lease) -> Result<(), LeaseError> {
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.renew_time = Some(MicroTime(Timestamp::now()));
        }
        let name = node_lease(&self.node_name);
        self.within(self.api.replace(&name, &PostParams::default(), &lease))
            .await?;
        tracing::info!(lease = %name, "lease released");
        // If it is taken again in this run, that is another epoch.
        self.epoch = None;
        Ok(())
    }
}

/// Whether nobody holds it, and it names no segment.
fn is_idle(lease: &Lease) -> bool {
    let spec = lease.spec.as_ref();
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
    let annotations = lease.metadata.annotations.as_ref();
    let segments = annotations.and_then(|all| all.get(annotations::LEASE_SEGMENTS));
    holder.unwrap_or_default().is_empty() && segments.is_none_or(|segments| segments == "{}")
}

#[cfg(test)]
mod tests;
