//! What is counted of the control plane's address.

use mooring_common::metrics::OptionalGauge;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The state of this node.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Whether its API server is ready; absent where none is to run, as at a witness.
    pub ready: OptionalGauge,
    /// The revision of the voters that it serves; 0: none.
    pub revision: Gauge,
}

impl Metrics {
    /// Enters them into a registry.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.ready.register(
            registry,
            "mooring_control_plane_ready",
            "1 while the API server of this node is ready; absent where none is to run",
        );
        registry.register(
            "mooring_control_plane_revision",
            "The revision of the control plane file whose voters this node serves; 0 for none",
            metrics.revision.clone(),
        );
        metrics
    }
}
