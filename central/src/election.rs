//! Leader election by a Lease (coordination.k8s.io/v1), as client-go does it.
//!
//! Guarantees: a leader that cannot renew for `renew_deadline` holds itself for deposed before the
//! others, who wait `lease_duration` after the last renewal that they *saw* (by their own
//! monotonic clock, so that clocks need not agree), take over. [`Leadership::check`] stands before
//! every write. Once the process is told to end, no new write begins; what requests on their way give
//! may still be recorded ([`Leadership::check_record`]) until the Lease is released, so that the next
//! leader need not wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use mooring_common::errors::with_causes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Leader election.
#[derive(Clone, Debug)]
pub struct LeaderFlags {
    /// `--leader-elect-lease-duration`.
    pub lease_duration: Duration,
    /// `--leader-elect-renew-deadline`.
    pub renew_deadline: Duration,
    /// `--leader-elect-retry-period`.
    pub retry_period: Duration,
    /// `--leader-elect-resource-name`.
    pub name: String,
    /// `--leader-elect-resource-namespace`.
    pub namespace: String,
}

/// Whether this process may write. Cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: Arc<Mutex<State>>,
    /// Cancelled when this process is told to end.
    stop: CancellationToken,
}

#[derive(Debug)]
enum State {
    /// There is no election: this process always leads.
    Always,
    /// Somebody else leads, or nobody.
    Standby,
    /// This process leads until then.
    Until(Instant),
}

/// This process must not begin a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLeading {
    /// It does not lead (any more).
    #[error("this replica does not hold the leader's lease")]
    Lease,
    /// It was told to end.
    #[error("this replica is ending")]
    Ending,
}

impl Leadership {
    /// Without election, until `stop` is cancelled.
    #[must_use]
    pub fn always(stop: CancellationToken) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::Always)),
            stop,
        }
    }

    fn standby(stop: CancellationToken) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::Standby)),
            stop,
        }
    }

    /// Asked before every write.
    ///
    /// # Errors
    /// [`NotLeading`] if the write must not happen.
    pub fn check(&self) -> Result<(), NotLeading> {
        if self.stop.is_cancelled() {
            return Err(NotLeading::Ending);
        }
        self.check_record()
    }

    /// Asked before a write that only records what a request has given that was on its way already.
    ///
    /// # Errors
    /// [`NotLeading::Lease`] if another may lead.
    pub fn check_record(&self) -> Result<(), NotLeading> {
        match *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Always => Ok(()),
            State::Until(end) if Instant::now() < end => Ok(()),
            State::Until(_) | State::Standby => Err(NotLeading::Lease),
        }
    }

    /// Cancelled when this process is told to end.
    #[must_use]
    pub fn ending(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs what only reads, and drops it when this process is told to end.
    ///
    /// # Errors
    /// [`NotLeading::Ending`] if it was dropped.
    pub async fn until_ending<F: Future>(&self, reads: F) -> Result<F::Output, NotLeading> {
        let run = self.stop.run_until_cancelled(reads).await;
        run.ok_or(NotLeading::Ending)
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

/// How the leadership was lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// The API server could not be reached for the renew deadline, or refused.
    #[error("the lease could not be renewed within {}s", deadline.as_secs_f32())]
    RenewDeadline {
        /// `--leader-elect-renew-deadline`.
        deadline: Duration,
    },
    /// Another replica holds the Lease.
    #[error("the lease was taken over by {by}")]
    TakenOver {
        /// The other's identity.
        by: String,
    },
}

/// One candidate.
#[derive(Debug)]
pub struct Elector {
    leases: Api<Lease>,
    flags: LeaderFlags,
    identity: String,
    leadership: Leadership,
    /// What was last seen of another's Lease, and when it was seen to change.
    seen: Option<(String, Instant)>,
}

/// What one look at the Lease gave.
enum Attempt {
    Held,
    Other(String),
}

impl Elector {
    /// A candidate of this identity, which must be unlike any other's. When `stop` is cancelled, the
    /// process is told to end.
    #[must_use]
    pub fn new(
        client: Client,
        flags: LeaderFlags,
        identity: String,
        stop: CancellationToken,
    ) -> Self {
        let leases = Api::namespaced(client, &flags.namespace);
        Self {
            leases,
            flags,
            identity,
            leadership: Leadership::standby(stop),
            seen: None,
        }
    }

    /// The guard for everything that this process writes.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Waits until this process leads.
    pub async fn acquire(&mut self) {
        tracing::info!(
            lease = self.flags.name,
            identity = self.identity,
            "trying to become leader"
        );
        loop {
            // An API server that vanished without a word must not keep us from asking the next one.
            match tokio::time::timeout(self.flags.renew_deadline, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => break,
                Ok(Ok(Attempt::Other(holder))) => tracing::debug!(holder, "another replica leads"),
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    tracing::debug!("another replica wrote the lease first");
                }
                Ok(Err(error)) => tracing::warn!(
                    error = with_causes(&error),
                    "cannot look at the leader's lease"
                ),
                Err(_) => tracing::warn!("no answer about the leader's lease"),
            }
            tokio::time::sleep(self.flags.retry_period).await;
        }
        tracing::info!(identity = self.identity, "leading");
    }

    /// Keeps the Lease until it is lost.
    pub async fn hold(&mut self) -> Loss {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(self.flags.retry_period).await;
            let left = self.flags.renew_deadline.saturating_sub(renewed.elapsed());
            // One request that hangs must not cost the lease while the next would be answered.
            let patience = left.min(self.flags.renew_deadline / 2);
            let asked = Instant::now();
            match tokio::time::timeout(patience, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => renewed = asked,
                Ok(Ok(Attempt::Other(by))) => {
                    self.leadership.set(State::Standby);
                    return Loss::TakenOver { by };
                }
                Ok(Err(error)) => tracing::warn!(
                    error = with_causes(&error),
                    "cannot renew the leader's lease"
                ),
                Err(_) => {}
            }
            if renewed.elapsed() >= self.flags.renew_deadline {
                self.leadership.set(State::Standby);
                return Loss::RenewDeadline {
                    deadline: self.flags.renew_deadline,
                };
            }
        }
    }

    /// Gives the Lease back, if this process holds it.
    pub async fn release(&mut self) {
        if self.leadership.check_record().is_err() {
            return;
        }
        self.leadership.set(State::Standby);
        let released = async {
            let mut lease = self.leases.get(&self.flags.name).await?;
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() == Some(self.identity.as_str()) {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.leases
                    .replace(&self.flags.name, &PostParams::default(), &lease)
                    .await?;
            }
            Ok::<(), kube::Error>(())
        };
        match tokio::time::timeout(self.flags.retry_period, released).await {
            Ok(Ok(())) => tracing::info!("released the leader's lease"),
            Ok(Err(error)) => tracing::warn!(
                error = with_causes(&error),
                "cannot release the leader's lease"
            ),
            Err(_) => tracing::warn!("no time to release the leader's lease"),
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        let asked = Instant::now();
        let Some(lease) = self.leases.get_opt(&self.flags.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.flags.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(None)),
            };
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(self.held_since(asked));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if holder != self.identity && !holder.is_empty() && !self.is_stale(&lease) {
            return Ok(Attempt::Other(holder));
        }
        let renewed = Lease {
            spec: Some(self.spec(Some(&spec))),
            ..lease
        };
        self.leases
            .replace(&self.flags.name, &PostParams::default(), &renewed)
            .await?;
        Ok(self.held_since(asked))
    }

    fn held_since(&self, asked: Instant) -> Attempt {
        self.leadership
            .set(State::Until(asked + self.flags.renew_deadline));
        Attempt::Held
    }

    /// Whether the holder has been silent for the lease duration, by our own clock.
    fn is_stale(&mut self, lease: &Lease) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.seen {
            Some((seen, at)) if *seen == version => at.elapsed() >= self.flags.lease_duration,
            _ => {
                self.seen = Some((version, Instant::now()));
                false
            }
        }
    }

    fn spec(&self, old: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let same =
            old.is_some_and(|old| old.holder_identity.as_deref() == Some(self.identity.as_str()));
        let transitions = old
            .and_then(|old| old.lease_transitions)
            .unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.flags.lease_duration.as_secs()).ok(),
            acquire_time: old
                .filter(|_| same)
                .and_then(|o| o.acquire_time.clone())
                .or(Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if same || old.is_none() {
                transitions
            } else {
                transitions + 1
            }),
            ..LeaseSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leadership_ends_by_itself() {
        let leadership = Leadership::standby(CancellationToken::new());
        assert_eq!(leadership.check(), Err(NotLeading::Lease));
        leadership.set(State::Until(Instant::now() + Duration::from_secs(10)));
        assert_eq!(leadership.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(leadership.check(), Err(NotLeading::Lease));
        assert_eq!(leadership.check_record(), Err(NotLeading::Lease));
    }

    #[tokio::test]
    async fn ending_leader_records_and_begins_nothing() {
        let stop = CancellationToken::new();
        let leadership = Leadership::always(stop.clone());
        assert_eq!(leadership.until_ending(async { 1 }).await, Ok(1));
        stop.cancel();
        assert_eq!(leadership.check(), Err(NotLeading::Ending));
        assert_eq!(leadership.check_record(), Ok(()));
        let waits = leadership.until_ending(std::future::pending::<()>()).await;
        assert_eq!(waits, Err(NotLeading::Ending));
    }
}
