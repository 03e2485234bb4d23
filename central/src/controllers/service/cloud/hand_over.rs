//! Services that are another's to serve: what they have here goes.
//!
//! Who serves a Service writes its status, and lets its user choose what is written there: a host name at
//! cloudscale.ch, an address of an L2Network. So such a status does not prove what is the Service's in this
//! cloud, unless this process has written it for this cloud. A mark proves it, and the name.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mooring_common::engine::Outcome;
use mooring_common::names::{finalizers, reasons};
use tokio::time::{Instant, timeout};

use super::CloudServices;
use super::interruption::{Attempt, Cause};
use super::remove::{Attempted, PreparedRemoval, Removed};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::ReconcileError;
use crate::controllers::service::Failure;
use crate::views::service_view::ServiceView;

/// For how long an answer of a cloud is waited for that may have something of a Service which another serves.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same where it has something of the Service, which waits for that: slow clouds must come to an end.
const LONGER: Duration = Duration::from_secs(20);
/// For how long it is not asked again, if there was none.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// That a cloud gave no answer: until when it holds up no worker, and for how long it was waited for.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<Option<(Instant, Duration)>>);

impl Unanswered {
    pub(super) fn begin(&self, waited: Duration) {
        let until = Instant::now() + LEFT_ALONE;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((until, waited));
    }

    /// For how long it is left alone still by whoever would not wait for longer than `patience`.
    fn left(&self, patience: Duration) -> Option<Duration> {
        let (until, waited) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero() && patience <= waited).then_some(left)
    }
}

impl CloudServices {
    /// The Service is another's to serve from now on, or was all the time. What it has here goes.
    pub(in crate::controllers::service) async fn hand_over(
        &self,
        service: &Arc<ServiceView>,
    ) -> Option<Outcome<Failure>> {
        self.orphans.passed(&service.key);
        self.secrets.unname(&service.key);
        if !self.may_hold(service) {
            if !service.has_finalizer() {
                // No cloud makes anything before the finalizer is on: what it says later is of another's.
                self.forget(self.service_states.begins_elsewhere(service));
            }
            return None;
        }
        let claimed = match self.service_states.was_ensured(service) {
            true => service.clone(),
            false => without_status(service),
        };
        if !self.says_to_hold(&claimed) {
            return self.look_for(&claimed).await;
        }
        let prepared = self.prepare_within(LONGER, &claimed).await;
        match self.take_back(&claimed, prepared).await {
            Ok(_) => self.strip(service).await,
            Err(unfinished) => Some(unfinished),
        }
    }

    /// Whether it is known that a Service has, or had, something here: by this process, or by what names this
    /// cloud on it.
    fn says_to_hold(&self, claimed: &ServiceView) -> bool {
        if claimed.names_asked(self.provider()) {
            return true;
        }
        let unasked = ServiceView {
            creation_asked: None,
            ..claimed.clone()
        };
        self.may_hold(&unasked)
    }

    /// Reads what there is, as [`Self::prepare_removal`] does, unless that takes too long: a cloud that hangs is then
    /// left alone for a while, whichever Service it may have something of.
    async fn prepare_within(
        &self,
        patience: Duration,
        claimed: &Arc<ServiceView>,
    ) -> Result<PreparedRemoval, Cause> {
        let provider = self.provider();
        let left = match self.unanswered.left(patience) {
            Some(left) => left,
            None => match timeout(patience, self.prepare_removal(claimed)).await {
                Ok(prepared) => return prepared,
                Err(_) => {
                    tracing::warn!(provider, "gives no answer, and is left alone for a while");
                    self.unanswered.begin(patience);
                    LEFT_ALONE
                }
            },
        };
        let words = format!("no answer within {} s", patience.as_secs());
        let error = CloudError {
            retry_after: Some(left),
            ..CloudError::new(provider, ErrorKind::Timeout, words)
        };
        Err(ReconcileError::from(error).into())
    }

    /// Takes back what is here of a Service that does not say so. It is served elsewhere meanwhile, if this
    /// cloud cannot be asked, or may show something later: the next pass looks again. If the cloud hangs, there is one
    /// once it is asked again.
    async fn look_for(&self, claimed: &Arc<ServiceView>) -> Option<Outcome<Failure>> {
        let mut attempt = Attempt::to_remove();
        let attempted = match self.prepare_within(PATIENCE, claimed).await {
            Ok(prepared) => {
                self.carry_out_removal(claimed, prepared, &mut attempt)
                    .await
            }
            Err(cause) => Err(cause),
        };
        let is_there = self.service_states.may_hold(claimed) == Some(true);
        match attempted {
            Ok(Attempted::Over(_)) => {
                self.taken_back(claimed);
                None
            }
            Ok(Attempted::Goes(unfinished)) => is_there.then_some(unfinished),
            Err(cause) if is_there => Some(self.set_back(claimed, cause, &attempt).await),
            Err(cause) => {
                let provider = self.provider();
                match self.unanswered.left(PATIENCE) {
                    Some(left) => self.queue.add_after(claimed.key.clone(), left),
                    None => tracing::warn!(
                        provider,
                        ?cause,
                        "whether it has something there is not known yet"
                    ),
                }
                None
            }
        }
    }

    /// The Service is of a class that is not ours any more, and was not of another type in between as far as
    /// is known. What this process has made for it goes; the finalizer is the other controller's by now.
    ///
    /// What is there since before this process stays, whatever marks it bears. They tell who has made it, and not
    /// that somebody has changed the class since: after a start with other flags, Services that are served look the
    /// same.
    pub(super) async fn let_go(&self, service: &Arc<ServiceView>) -> Option<Outcome<Failure>> {
        if self.service_states.may_hold(service) != Some(true) {
            return None;
        }
        let claimed = without_status(service);
        let prepared = self.prepare_within(LONGER, &claimed).await;
        let removed = match self.take_back(&claimed, prepared).await {
            Ok(removed) => removed,
            Err(unfinished) => return Some(unfinished),
        };
        if removed == Removed::Gone && service.has_finalizer() {
            let note = format!(
                "Deleted load balancer: the Service has another loadBalancerClass now, and nothing is left in \
                 {}. The finalizer {} stays, since it is the other controller's now. If that does not take it \
                 off when the Service is deleted, take it off by hand.",
                self.provider(),
                finalizers::SERVICE,
            );
            let (about, reason) = (service.reference(), reasons::DELETED_LOAD_BALANCER);
            self.normal(&about, reason, &note).await;
        }
        None
    }
}

/// A Service as it would be if nobody had given it anything.
fn without_status(service: &ServiceView) -> Arc<ServiceView> {
    Arc::new(ServiceView {
        status: Vec::new(),
        status_has_hostname: false,
        ingress: Vec::new(),
        ..service.clone()
    })
}
