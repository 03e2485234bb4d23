//! Load balancers of a cloud whose resources several Services share.
//!
//! ```text
//!   a pass over a Service ─┐
//!   a round over all ──────┼─► one lock ─► PoolProvider: observe, plan, apply
//!   a round over Nodes ────┘
//! ```
//!
//! All work is done one after the other: what one Service is given another cannot have.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Step;
use tokio::sync::{Mutex, MutexGuard, Notify};
use tokio::time::{Instant, sleep_until};

use super::ip_allocation;
use super::outcome::planned;
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{
    CollectorContext, LoadBalancerRequest, LoadBalancers, Notice, Orphan, OwnedFields, PlanSummary,
    PreparedPlan, Progress, ReconcileError, WriteGuard,
};
use crate::views::service_view::ServiceView;

/// When to look again at all after a round that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(15);
/// When to say once more that there is room: whoever is being refused at that moment hears it the second
/// time.
const ECHO: Duration = Duration::from_secs(2);

/// What a cloud writes. Each method has all that is known of the cloud's resources for itself.
pub trait PoolProvider: Ensure + Remove + Upkeep + Orphans {}

impl<P: Ensure + Remove + Upkeep + Orphans> PoolProvider for P {}

/// What is known of the resources, and what can be done.
#[async_trait]
pub trait Pool: Send + 'static {
    /// What can be done.
    type Step: Step + Send + Sync;

    /// The provider's name.
    const NAME: &'static str;
    /// The name under which its Go controller reports Events.
    const COMPONENT: &'static str;
    /// How many requests observing everything takes.
    const REQUESTS: usize;

    /// Told when there may be garbage to collect.
    fn has_garbage(&self) -> Arc<Notify>;

    /// A pass has ended, with this error if any.
    async fn passed(&mut self, error: Option<&ReconcileError>);

    /// This process has written a Service, which has made it this `resourceVersion`.
    fn wrote(&mut self, uid: &str, version: String);

    /// The Service of this UID is no more.
    fn forget(&mut self, uid: &str);

    /// What is known is to be looked at anew.
    fn observe_anew(&mut self);

    /// This process ends.
    async fn ends(&mut self);
}

/// A Service that is to have an address.
#[async_trait]
pub trait Ensure: Pool {
    /// What would be done next, and what a person should know.
    ///
    /// # Errors
    /// [`ReconcileError`], here and below.
    async fn plan(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<(Vec<Self::Step>, Vec<Notice>), ReconcileError>;

    /// Gives it its address, as far as that can be done at once.
    async fn ensure(
        &mut self,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError>;
}

/// A Service that is to have no address (any more).
#[async_trait]
pub trait Remove: Pool {
    /// What would be done.
    async fn plan_removal(
        &mut self,
        request: &LoadBalancerRequest,
    ) -> Result<Vec<Self::Step>, ReconcileError>;

    /// Does it.
    async fn remove(
        &mut self,
        request: &LoadBalancerRequest,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError>;
}

/// What belongs to no Service.
#[async_trait]
pub trait Upkeep: Pool {
    /// Looks after all of it. `is_echo`: it was just done. When to look again, and whether there is room
    /// again for Services that were refused.
    async fn look_after_all(
        &mut self,
        context: &dyn CollectorContext,
        is_echo: bool,
    ) -> Result<(Duration, bool), ReconcileError>;

    /// Looks after Nodes alone; when to look again.
    async fn look_after_nodes(
        &mut self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError>;
}

/// What was made for Services that are no more.
#[async_trait]
pub trait Orphans: Pool {
    /// [`LoadBalancers::orphans`].
    async fn orphans(&mut self, living: &[ServiceView]) -> Result<Vec<Orphan>, CloudError>;

    /// [`LoadBalancers::remove_orphan`].
    async fn remove_orphan(
        &mut self,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError>;
}

/// The load balancers of such a cloud.
pub struct PooledEngine<P: PoolProvider>(Arc<Shared<P>>);

struct Shared<P> {
    provider: Mutex<P>,
    /// What is said while somebody else has the lock; it is heeded before the next does.
    said: std::sync::Mutex<Vec<Said>>,
    /// Told when there may be garbage to collect.
    has_garbage: Arc<Notify>,
    /// Told when Nodes have changed.
    nodes_changed: Notify,
    /// How often it is still to be said that there is room.
    freed: Mutex<u8>,
}

enum Said {
    Wrote(String, String),
    Forget(String),
    Anew,
}

impl<P: PoolProvider> Shared<P> {
    /// The provider, for one at a time.
    async fn lock(&self) -> MutexGuard<'_, P> {
        let mut provider = self.provider.lock().await;
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        for said in said {
            match said {
                Said::Wrote(uid, version) => provider.wrote(&uid, version),
                Said::Forget(uid) => provider.forget(&uid),
                Said::Anew => provider.observe_anew(),
            }
        }
        provider
    }

    fn say(&self, said: Said) {
        let mut all = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(said);
    }
}

impl<P: PoolProvider> PooledEngine<P> {
    /// The load balancers of this provider.
    pub fn new(provider: P) -> Self {
        Self(Arc::new(Shared {
            has_garbage: provider.has_garbage(),
            provider: Mutex::new(provider),
            said: std::sync::Mutex::default(),
            nodes_changed: Notify::new(),
            freed: Mutex::new(0),
        }))
    }

    #[cfg(test)]
    pub(crate) async fn lock(&self) -> MutexGuard<'_, P> {
        self.0.lock().await
    }

    /// A look at Nodes alone; when to look again.
    pub(crate) async fn round_of_nodes(
        &self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        context.before_write()?;
        self.0.lock().await.look_after_nodes(context).await
    }

    /// One look at all; when to look again.
    pub(crate) async fn round(
        &self,
        context: &dyn CollectorContext,
    ) -> Result<Duration, ReconcileError> {
        context.before_write()?;
        let mut freed = self.0.freed.lock().await;
        let mut provider = self.0.lock().await;
        let (pause, is_freed) = provider.look_after_all(context, *freed > 0).await?;
        drop(provider);
        *freed = if is_freed { 2 } else { *freed };
        if *freed == 0 {
            return Ok(pause);
        }
        context.freed();
        *freed -= 1;
        Ok(match *freed {
            0 => pause,
            _ => pause.min(ECHO),
        })
    }
}

/// A plan for a Service.
struct Pass<P> {
    shared: Arc<Shared<P>>,
    request: LoadBalancerRequest,
    shown: PlanSummary,
    /// Whether the Service is to have no address (any more).
    removes: bool,
}

impl<P: PoolProvider> Pass<P> {
    fn of(
        engine: &PooledEngine<P>,
        request: &LoadBalancerRequest,
        (steps, notices): (Vec<P::Step>, Vec<Notice>),
        removes: bool,
    ) -> Box<dyn PreparedPlan> {
        let steps = steps.iter().map(planned).collect();
        Box::new(Self {
            shared: engine.0.clone(),
            request: request.clone(),
            shown: PlanSummary {
                steps,
                notices,
                refused: None,
            },
            removes,
        })
    }
}

#[async_trait]
impl<P: PoolProvider> PreparedPlan for Pass<P> {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let mut provider = self.shared.lock().await;
        let progress = match self.removes {
            true => provider.remove(&self.request, guard).await,
            false => provider.ensure(&self.request, guard).await,
        };
        provider.passed(progress.as_ref().err()).await;
        progress
    }
}

#[async_trait]
impl<P: PoolProvider> LoadBalancers for PooledEngine<P> {
    fn provider(&self) -> &'static str {
        P::NAME
    }

    fn component(&self) -> &'static str {
        P::COMPONENT
    }

    async fn prepare(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let faults = ip_allocation::invalid(&request.service);
        if !faults.is_empty() {
            return Err(ReconcileError::Invalid(faults));
        }
        let mut provider = self.0.lock().await;
        let plan = provider.plan(request).await;
        if let Err(error) = &plan {
            provider.passed(Some(error)).await;
        }
        Ok(Pass::of(self, request, plan?, false))
    }

    async fn prepare_removal(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError> {
        let steps = self.0.lock().await.plan_removal(request).await?;
        Ok(Pass::of(self, request, (steps, Vec::new()), true))
    }

    fn may_have(&self, service: &ServiceView) -> bool {
        ip_allocation::may_have(service)
    }

    fn owned_fields(&self, service: &ServiceView) -> OwnedFields {
        ip_allocation::owned_fields(service)
    }

    fn wrote(&self, service: &ServiceView) {
        let version = service.resource_version.clone();
        self.0.say(Said::Wrote(service.uid.clone(), version));
    }

    fn forget(&self, service_uid: &str) {
        self.0.say(Said::Forget(service_uid.to_owned()));
    }

    fn observe_anew(&self) {
        self.0.say(Said::Anew);
    }

    fn nodes_changed(&self) {
        self.0.nodes_changed.notify_one();
    }

    fn observation_cost(&self) -> usize {
        P::REQUESTS
    }

    async fn orphans(
        &self,
        _cluster: &str,
        living: &[ServiceView],
    ) -> Result<Vec<Orphan>, CloudError> {
        self.0.lock().await.orphans(living).await
    }

    async fn remove_orphan(
        &self,
        _cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        self.0.lock().await.remove_orphan(orphan, guard).await
    }

    async fn collect_garbage(&self, context: &dyn CollectorContext) {
        let mut due = Instant::now();
        let mut is_of_nodes = false;
        loop {
            let round = match is_of_nodes {
                true => self.round_of_nodes(context).await,
                false => self.round(context).await,
            };
            let pause = round.unwrap_or_else(|error| {
                if !matches!(error, ReconcileError::Stopped(_)) {
                    let provider = P::NAME;
                    tracing::warn!(provider, %error, "cannot look after what is shared, will retry");
                }
                AFTER_FAILURE
            });
            let next = Instant::now() + pause;
            // What was due for all of them stays due.
            due = if is_of_nodes { due.min(next) } else { next };
            is_of_nodes = tokio::select! {
                biased;
                () = context.ending() => return self.0.lock().await.ends().await,
                () = sleep_until(due) => false,
                () = self.0.has_garbage.notified() => false,
                () = self.0.nodes_changed.notified() => true,
            };
        }
    }
}
