//! What is counted, under the names of the Go service controller.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// One registration; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(super) updates: Counter,
    pub(super) update_errors: Counter,
    pub(super) round: Histogram,
    pub(super) update: Histogram,
    pub(super) orphans: Gauge,
    pub(super) endpoints: Histogram,
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
        metrics
    }
}
