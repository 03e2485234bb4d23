//! Whether a plan may go on being carried out.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::work_queue::has_time;
use tokio::time::Instant;

use super::CloudServices;
use super::status::note;
use crate::cloud_provider::load_balancers::{Stop, WriteGuard};
use crate::controllers::service::{Failure, Queue};
use crate::views::service_view::ServiceView;

/// How long one pass over a Service writes. It goes on after the others that wait.
pub(super) const BUDGET: Duration = Duration::from_secs(10);

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// To provide, for the Service's own sake.
    Provide,
    /// To provide, only since Nodes have changed: others come first.
    FollowNodes,
    /// To remove.
    Remove,
}

/// One pass over one Service.
pub(super) struct PassGuard<'a> {
    services: &'a CloudServices,
    queue: &'a Queue,
    service: Arc<ServiceView>,
    /// The Service as this pass has written it last.
    noted: Mutex<Option<Arc<ServiceView>>>,
    aim: Aim,
    /// When the whole pass began, and when its writes did.
    pass_begun: Instant,
    begun: Instant,
    writes: AtomicUsize,
}

impl<'a> PassGuard<'a> {
    /// For a pass that began then.
    pub(super) fn new(
        services: &'a CloudServices,
        service: Arc<ServiceView>,
        aim: Aim,
        pass_begun: Instant,
    ) -> Self {
        Self {
            services,
            queue: &services.queue,
            service,
            noted: Mutex::default(),
            aim,
            pass_begun,
            begun: Instant::now(),
            writes: AtomicUsize::new(0),
        }
    }

    /// Whether the cloud has taken a write.
    pub(super) fn has_written(&self) -> bool {
        self.writes.load(Ordering::Relaxed) > 0
    }

    /// The Service as this pass has left it.
    pub(super) fn into_service(self) -> Arc<ServiceView> {
        let noted = self.noted.into_inner();
        let noted = noted.unwrap_or_else(PoisonError::into_inner);
        noted.unwrap_or(self.service)
    }

    /// Whether the Service, as it is now, is still to have what this pass makes.
    fn still_holds(&self, now: Option<&ServiceView>) -> bool {
        let now = now.filter(|now| now.uid == self.service.uid);
        let wanted = now.filter(|now| self.services.is_wanted(now));
        match self.aim {
            Aim::Remove => wanted.is_none(),
            Aim::Provide | Aim::FollowNodes => {
                let service_states = &self.services.service_states;
                wanted.is_some_and(|now| service_states.alike(now, &self.service))
            }
        }
    }
}

#[async_trait]
impl WriteGuard for PassGuard<'_> {
    fn before_write(&self) -> Result<(), Stop> {
        self.services.cluster.leads()?;
        let now = self.services.cluster.service(&self.service.key);
        if !self.still_holds(now.as_deref()) {
            return Err(Stop::Changed);
        }
        if !has_time(self.pass_begun.elapsed()) {
            return Err(Stop::Yield);
        }
        let is_late = self.begun.elapsed() >= BUDGET;
        let is_in_the_way = self.aim == Aim::FollowNodes && self.queue.is_busy();
        if self.has_written() && (is_late || is_in_the_way) {
            return Err(Stop::Yield);
        }
        Ok(())
    }

    async fn before_creation(&self) -> Result<(), Stop> {
        let fresh = self.services.cluster.fresh(&self.service.key).await;
        let now = fresh.map_err(|error| Stop::Unasked(error.to_string()))?;
        if self.still_holds(now.as_ref()) {
            Ok(())
        } else {
            Err(Stop::Changed)
        }
    }

    async fn note(&self, annotations: &[(&'static str, String)]) -> Result<(), Stop> {
        let cluster = &self.services.cluster;
        let unasked = |error: String| Stop::Unasked(error);
        let fresh = cluster.fresh(&self.service.key).await;
        let now = fresh.map_err(|error| unasked(error.to_string()))?;
        let Some(now) = now.filter(|now| self.still_holds(Some(now))) else {
            return Err(Stop::Changed);
        };
        self.services.service_states.wrote(&now, annotations);
        match cluster.patch(&now.key, note(&now, annotations)).await {
            Ok(written) => {
                let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
                *noted = Some(Arc::new(written));
                Ok(())
            }
            Err(Failure::Conflict | Failure::Gone) => Err(Stop::Changed),
            Err(error) => Err(unasked(error.to_string())),
        }
    }

    fn written(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}
