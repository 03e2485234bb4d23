//! Whether a plan may go on being carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::CloudServices;
use crate::clouds::load_balancers::{Gate, Stop};
use crate::controllers::service::Queue;
use crate::service_view::ServiceView;

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
pub(super) struct PassGate<'a> {
    services: &'a CloudServices,
    queue: &'a Queue,
    service: Arc<ServiceView>,
    aim: Aim,
    begun: Instant,
    writes: AtomicUsize,
}

impl<'a> PassGate<'a> {
    pub(super) fn new(services: &'a CloudServices, service: Arc<ServiceView>, aim: Aim) -> Self {
        Self {
            services,
            queue: &services.queue,
            service,
            aim,
            begun: Instant::now(),
            writes: AtomicUsize::new(0),
        }
    }

    /// Whether the cloud has taken a write.
    pub(super) fn has_written(&self) -> bool {
        self.writes.load(Ordering::Relaxed) > 0
    }

    /// Whether the Service, as it is now, is still to have what this pass makes.
    fn still_holds(&self, now: Option<&ServiceView>) -> bool {
        let now = now.filter(|now| now.uid == self.service.uid);
        let wanted = now.filter(|now| self.services.routing.wants_of_cloud(now));
        match self.aim {
            Aim::Remove => wanted.is_none(),
            Aim::Provide | Aim::FollowNodes => {
                let memories = &self.services.memories;
                wanted.is_some_and(|now| memories.alike(now, &self.service))
            }
        }
    }
}

#[async_trait]
impl Gate for PassGate<'_> {
    fn before_write(&self) -> Result<(), Stop> {
        self.services.cluster.leads()?;
        let now = self.services.cluster.service(&self.service.key);
        if !self.still_holds(now.as_deref()) {
            return Err(Stop::Changed);
        }
        let is_late = self.begun.elapsed() >= BUDGET;
        let is_in_the_way = self.aim == Aim::FollowNodes && self.queue.is_busy();
        if self.has_written() && (is_late || is_in_the_way) {
            return Err(Stop::MakeWay);
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

    fn written(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}
