//! One pass over a Service that is to have a load balancer.

use std::sync::Arc;

use mooring_common::engine::{Impact, Outcome};
use mooring_common::k8s::EventKind;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::changes::changes;
use super::cluster::Reporter;
use super::guard::{Aim, PassGuard};
use super::interruption::Attempt;
use super::service_states::{Cause, Ensured};
use super::status::address;
use super::{CloudServices, SOON};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, Notice, PlanSummary, Progress,
};
use crate::controllers::service::Failure;
use crate::controllers::service::patch::{add_finalizer, guard};
use crate::views::service_view::ServiceView;

/// A pass as it begins.
struct Pass {
    cause: Cause,
    /// How many changes of Nodes there had been.
    node_changes: u64,
    request: LoadBalancerRequest,
    begun: Instant,
}

impl CloudServices {
    pub(super) async fn provide(&self, service: Arc<ServiceView>) -> Outcome<Failure> {
        // Counted before they are read: a Node that comes in between is news once more.
        let node_changes = self.node_changes.count();
        let request = self.request(&service);
        let endpoints = request.endpoints.as_ref();
        let cause = self.service_states.cause(&service, node_changes, endpoints);
        let mut pass = Pass {
            cause,
            node_changes,
            request,
            begun: Instant::now(),
        };
        let mut attempt = Attempt::to(pass.cause);
        match self
            .try_to_provide(service.clone(), &mut pass, &mut attempt)
            .await
        {
            Ok(outcome) => outcome,
            Err(error) => {
                if pass.cause == Cause::Nodes {
                    self.metrics.update_errors.inc();
                }
                self.set_back(&service, error, &attempt).await
            }
        }
    }

    async fn try_to_provide(
        &self,
        mut service: Arc<ServiceView>,
        pass: &mut Pass,
        attempt: &mut Attempt,
    ) -> Result<Outcome<Failure>, super::interruption::Cause> {
        let named = self.cloud.secrets(&service);
        let secrets = self.secrets.read(&*self.cluster, &service.key, named);
        pass.request.secrets = self.before_ending(secrets).await?;
        let (pass, request) = (&*pass, &pass.request);
        if let Some(before) = self.service_states.sees(&service) {
            for (reason, note) in changes(&before, &service) {
                self.normal(&service.reference(), reason, &note).await;
            }
        }
        let prepared = match self.before_ending(self.cloud.prepare(request)).await? {
            Ok(prepared) => prepared,
            Err(error) => {
                if request.nodes.is_empty() {
                    self.tell_unavailable(&service).await;
                }
                return Err(error.into());
            }
        };
        let shown = prepared.summary().clone();
        let has_finalizer = service.has_finalizer();
        if !has_finalizer {
            let operations = vec![guard(&service), add_finalizer(&service)];
            service = Arc::new(self.cluster.patch(&service.key, operations).await?);
        }
        let is_changed = pass.cause == Cause::Service && self.service_states.was_ensured(&service);
        if !shown.steps.is_empty() || !has_finalizer || is_changed {
            self.begin(&service, pass.cause, request, &shown).await;
        }
        self.tell_notices(&service, &shown.notices).await;
        let aim = match pass.cause {
            Cause::Nodes => Aim::FollowNodes,
            Cause::Endpoints | Cause::Drift | Cause::Service => Aim::Provide,
        };
        let guard = PassGuard::new(self, service.clone(), aim, pass.begun);
        let progress = prepared.carry_out(&guard).await;
        attempt.has_written = guard.has_written();
        if attempt.has_written {
            self.metrics.carried_out(self.provider(), &shown);
        }
        let service = guard.into_service();
        match progress? {
            Progress::Ensured(provided) => {
                self.tell_notices(&service, &provided.notices).await;
                let holding = [&*shown.notices, &*provided.notices];
                self.service_states.hold(&service, &holding);
                self.provided(service, pass, &provided).await
            }
            Progress::Wait { after, what } => {
                tracing::debug!(after_s = after.as_secs_f64(), what, "the cloud needs time");
                Ok(Outcome::RetryAfter(after))
            }
            Progress::Removed => Ok(Outcome::RetryAfter(SOON)),
        }
    }

    /// There is something to do, and it is told once: not by each of the passes that it takes.
    async fn begin(
        &self,
        service: &Arc<ServiceView>,
        cause: Cause,
        request: &LoadBalancerRequest,
        shown: &PlanSummary,
    ) {
        let about = service.reference();
        if self.service_states.begin(service, cause) {
            for step in &shown.steps {
                tracing::info!(impact = %step.impact, "to do: {}", step.step);
            }
            if cause > Cause::Nodes {
                let reason = reasons::ENSURING_LOAD_BALANCER;
                self.normal(&about, reason, "Ensuring load balancer").await;
            }
            if request.nodes.is_empty() {
                self.tell_unavailable(service).await;
            }
        }
        let disruptive = shown
            .steps
            .iter()
            .filter(|s| s.impact >= Impact::Considerable);
        let steps: Vec<String> = disruptive
            .map(|step| format!("{} (impact: {})", step.step, step.impact))
            .collect();
        if !steps.is_empty() {
            let note = format!("Users will notice what is done now: {}", steps.join("; "));
            if self.service_states.is_news_to_disrupt(service, &note) {
                self.warn(&about, reasons::DISRUPTIVE_CHANGE, &note).await;
            }
        }
    }

    async fn tell_unavailable(&self, service: &ServiceView) {
        let (about, reason) = (service.reference(), reasons::UNAVAILABLE_LOAD_BALANCER);
        let note = "There are no available nodes for LoadBalancer";
        self.warn(&about, reason, note).await;
    }

    pub(super) async fn tell_notices(&self, service: &ServiceView, notices: &[Notice]) {
        for notice in self.service_states.news(service, notices) {
            let by = match notice.by_provider {
                true => Reporter::Provider,
                false => Reporter::Controller,
            };
            let (about, kind) = (service.reference(), EventKind::Warning);
            self.cluster
                .report(by, &about, kind, notice.reason, &notice.note)
                .await;
        }
    }

    /// The load balancer is as wanted: the Service says so.
    async fn provided(
        &self,
        mut service: Arc<ServiceView>,
        pass: &Pass,
        provided: &LoadBalancerStatus,
    ) -> Result<Outcome<Failure>, super::interruption::Cause> {
        let begun = self.service_states.begun(&service);
        let wanted = provided.load_balancer_ip.as_deref();
        if wanted.is_some() && service.load_balancer_ip.as_deref() != wanted {
            let operations = address(&service, wanted);
            service = Arc::new(self.cluster.patch_itself(&service.key, operations).await?);
        }
        let (status, provider) = (&self.status, self.provider());
        let operations = status.operations(&service, provider, provided);
        let is_written = !operations.is_empty();
        let is_restored = is_written && begun.is_none() && self.has_said(&service, provided);
        let now = std::time::Instant::now();
        if is_restored && let Some(delay) = self.restorations.wait(&service.key, now) {
            let again = provided.again.map_or(delay, |again| again.min(delay));
            return Ok(Outcome::DoneFor(again));
        }
        if is_written {
            let written = self.cluster.patch(&service.key, operations).await?;
            self.status.learn(&written, provided);
            service = Arc::new(written);
        }
        if is_restored {
            self.restorations.note(&service.key, now);
        }
        // What we have written is no news.
        self.service_states.sees(&service);
        self.cloud.wrote(&service);
        let endpoints = pass.request.endpoints.clone();
        let ensured = Ensured {
            service: service.clone(),
            node_changes: pass.node_changes,
            endpoints: endpoints.filter(|_| provided.again.is_none()),
        };
        self.service_states.ensured(ensured, &provided.annotations);
        self.followed_endpoints(&service, pass, provided, begun);
        match begun {
            // Pods come and go: that is no news.
            Some(Cause::Endpoints) => {}
            Some(Cause::Nodes) => self.followed(&service, pass).await,
            Some(_) => {
                self.ensured(&service).await;
                self.look_at_refused();
            }
            None if is_written && !is_restored => self.ensured(&service).await,
            None => {}
        }
        Ok(provided.again.map_or(Outcome::Done, Outcome::DoneFor))
    }

    /// Whether the Service has said all that it is to say since this process has written it. If it does not
    /// any more, somebody has written something else there.
    fn has_said(&self, service: &ServiceView, provided: &LoadBalancerStatus) -> bool {
        let written = self.service_states.as_ensured(service);
        written.is_some_and(|written| {
            let operations = self.status.operations(&written, self.provider(), provided);
            operations.is_empty()
        })
    }

    async fn ensured(&self, service: &ServiceView) {
        let (about, reason) = (service.reference(), reasons::ENSURED_LOAD_BALANCER);
        self.normal(&about, reason, "Ensured load balancer").await;
    }

    /// Measures how long it took, if there was something to do.
    fn followed_endpoints(
        &self,
        service: &ServiceView,
        pass: &Pass,
        provided: &LoadBalancerStatus,
        begun: Option<Cause>,
    ) {
        let endpoints = self.endpoints.as_ref().zip(pass.request.endpoints.as_ref());
        let Some((endpoints, shown)) = endpoints.filter(|_| provided.again.is_none()) else {
            return;
        };
        let took = endpoints.followed(&service.key, shown);
        if let Some(took) = took.filter(|_| begun == Some(Cause::Endpoints)) {
            self.metrics.endpoints.observe(took.as_secs_f64());
        }
    }

    async fn followed(&self, service: &ServiceView, pass: &Pass) {
        self.metrics.updates.inc();
        self.metrics
            .update
            .observe(pass.begun.elapsed().as_secs_f64());
        if let Some(round) = self.node_changes.last_round() {
            self.metrics.round.observe(round.elapsed().as_secs_f64());
        }
        let (about, reason) = (service.reference(), reasons::UPDATED_LOAD_BALANCER);
        let note = "Updated load balancer with new hosts";
        self.normal(&about, reason, note).await;
    }
}
