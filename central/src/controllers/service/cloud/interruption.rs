//! A pass that did not come to its end: what is told, and when the next one is.

use mooring_common::engine::Outcome;
use mooring_common::names::reasons;

use super::{CloudServices, SOON, service_states};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{ReconcileError, Stop};
use crate::controllers::service::{Failure, Reason};
use crate::views::service_view::ServiceView;

/// What did not work.
#[derive(Debug)]
pub(super) enum Cause {
    /// In the cloud.
    Cloud(ReconcileError),
    /// On the Service.
    Service(Failure),
}

impl From<ReconcileError> for Cause {
    fn from(error: ReconcileError) -> Self {
        Self::Cloud(error)
    }
}

impl From<Failure> for Cause {
    fn from(failure: Failure) -> Self {
        Self::Service(failure)
    }
}

/// What was tried, and how far it came.
#[derive(Debug)]
pub(super) struct Attempt {
    reason: &'static str,
    words: &'static str,
    /// Whether the cloud has taken a write.
    pub(super) has_written: bool,
}

impl Attempt {
    /// To provide a load balancer for this cause.
    pub(super) fn to(cause: service_states::Cause) -> Self {
        let (reason, words) = match cause {
            service_states::Cause::Endpoints => (
                reasons::UPDATE_LOAD_BALANCER_FAILED,
                "Error updating load balancer with the nodes that have endpoints",
            ),
            service_states::Cause::Nodes => (
                reasons::UPDATE_LOAD_BALANCER_FAILED,
                "Error updating load balancer with new hosts",
            ),
            service_states::Cause::Drift | service_states::Cause::Service => (
                reasons::SYNC_LOAD_BALANCER_FAILED,
                "Error syncing load balancer: failed to ensure load balancer",
            ),
        };
        Self {
            reason,
            words,
            has_written: false,
        }
    }

    /// To remove one.
    pub(super) fn to_remove() -> Self {
        Self {
            reason: reasons::SYNC_LOAD_BALANCER_FAILED,
            words: "Error syncing load balancer",
            has_written: false,
        }
    }
}

impl CloudServices {
    pub(super) async fn set_back(
        &self,
        service: &ServiceView,
        cause: Cause,
        attempt: &Attempt,
    ) -> Outcome<Failure> {
        match cause {
            Cause::Cloud(ReconcileError::Stopped(stop)) => stopped(stop),
            Cause::Cloud(ReconcileError::Cloud(error)) => {
                self.meets(service, Reason::Cloud(error.kind));
                self.tell_failure(service, attempt, &told(&error)).await;
                if error.kind == ErrorKind::Invalid {
                    // Another Service may have what it asks for.
                    self.service_states.refused(&service.key);
                }
                match error.retry_after {
                    Some(after) => {
                        tracing::warn!(%error, after_s = after.as_secs_f64(), "failed, will retry");
                        Outcome::RetryAfter(after)
                    }
                    None if attempt.has_written => Outcome::BackoffAnew(error.into()),
                    None => Outcome::Backoff(error.into()),
                }
            }
            Cause::Cloud(ReconcileError::Cluster(error)) => {
                self.tell_failure(service, attempt, &error).await;
                Outcome::Backoff(Failure::Cluster(error))
            }
            Cause::Cloud(refusal @ (ReconcileError::Invalid(_) | ReconcileError::Refused(_))) => {
                let is_invalid = matches!(refusal, ReconcileError::Invalid(_));
                let reason = if is_invalid {
                    Reason::Invalid
                } else {
                    Reason::Refused
                };
                self.meets(service, reason);
                let text = refusal.to_string();
                self.tell_failure(service, attempt, &text).await;
                self.service_states.refused(&service.key);
                Outcome::WaitForChange(text)
            }
            Cause::Cloud(ReconcileError::Noted {
                why,
                notices,
                again,
            }) => {
                self.tell_notices(service, &notices).await;
                let outcome = Box::pin(self.set_back(service, Cause::Cloud(*why), attempt)).await;
                again.map_or(outcome, Outcome::RetryAfter)
            }
            Cause::Service(Failure::Gone) => Outcome::Done,
            // Its change is about to be told.
            Cause::Service(Failure::Conflict) => Outcome::RetryAfter(SOON),
            Cause::Service(error @ Failure::NotLeading(_)) => Outcome::Backoff(error),
            Cause::Service(error) => {
                self.tell_failure(service, attempt, &error.to_string())
                    .await;
                Outcome::Backoff(error)
            }
        }
    }

    fn meets(&self, service: &ServiceView, reason: Reason) {
        self.metrics.without_address.meets(&service.key, reason);
    }

    async fn tell_failure(&self, service: &ServiceView, attempt: &Attempt, text: &str) {
        let note = format!("{}: {text}", attempt.words);
        self.warn(&service.reference(), attempt.reason, &note).await;
    }
}

/// What went wrong: the cloud's own words first, which the users of the Go controllers look for there.
fn told(error: &CloudError) -> String {
    let all = error.to_string();
    match &error.words {
        Some(words) => format!("{words} ({})", all.replacen(&format!(": {words}"), "", 1)),
        None => all,
    }
}

fn stopped(stop: Stop) -> Outcome<Failure> {
    match stop {
        // Where the cache knows of the change already, the next pass is asked for.
        Stop::Changed => Outcome::RetryAfter(SOON),
        Stop::Yield => Outcome::Yield,
        Stop::NotLeading(_) | Stop::Unasked(_) => Outcome::Backoff(stop.into()),
    }
}
