//! What is counted, under the names of the Go service controller.

use mooring_common::engine::Impact;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::cloud_provider::load_balancers::PlanSummary;
use crate::controllers::service::WithoutAddress;

/// One registration; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) updates: Counter,
    pub(super) update_errors: Counter,
    pub(super) round: Histogram,
    pub(super) update: Histogram,
    pub(super) orphans: Gauge,
    pub(super) endpoints: Histogram,
    steps: Family<StepLabels, Counter>,
    /// Which Services have no address.
    pub without_address: WithoutAddress,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    provider: &'static str,
    impact: &'static str,
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = || Histogram::new(exponential_buckets(1.0, 2.0, 15));
        let metrics = Self {
            updates: Counter::default(),
            update_errors: Counter::default(),
            round: seconds(),
            update: seconds(),
            orphans: Gauge::default(),
            endpoints: Histogram::new(exponential_buckets(0.1, 2.0, 12)),
            steps: Family::default(),
            without_address: WithoutAddress::default(),
        };
        registry.register(
            "service_controller_loadbalancer_sync",
            "Load balancers that were made to follow the Nodes",
            metrics.updates.clone(),
        );
        registry.register(
            "service_controller_nodesync_error",
            "Attempts to make a load balancer follow the Nodes that failed",
            metrics.update_errors.clone(),
        );
        registry.register(
            "service_controller_nodesync_latency_seconds",
            "Seconds from the decision to follow the Nodes until a load balancer did",
            metrics.round.clone(),
        );
        registry.register(
            "service_controller_update_loadbalancer_host_latency_seconds",
            "Seconds that the last pass took to make a load balancer follow the Nodes",
            metrics.update.clone(),
        );
        registry.register(
            "mooring_load_balancers_orphaned",
            "Load balancers that bear the marks of this cluster and of a Service that is no more",
            metrics.orphans.clone(),
        );
        registry.register(
            "mooring_load_balancer_endpoints_latency_seconds",
            "Seconds from a change of where a Service has endpoints until its load balancer showed it",
            metrics.endpoints.clone(),
        );
        registry.register(
            "mooring_plan_steps",
            "Steps of plans for load balancers of which something was carried out, by what users notice",
            metrics.steps.clone(),
        );
        registry.register_collector(Box::new(metrics.without_address.clone()));
        metrics
    }

    /// Something of a plan was carried out.
    pub(super) fn carried_out(&self, provider: &'static str, plan: &PlanSummary) {
        for step in &plan.steps {
            let impact = match step.impact {
                Impact::None => "none",
                Impact::Brief => "brief",
                Impact::Considerable => "considerable",
                Impact::Major => "major",
            };
            let labels = StepLabels { provider, impact };
            self.steps.get_or_create(&labels).inc();
        }
    }
}
