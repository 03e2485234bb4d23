//! What is counted about VLAN interfaces.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What was repaired.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RepairLabels {
    /// `device`, `alias`, `mtu`, `settings`, `state`, `address`, `route`, `rule` or `table`.
    pub what: &'static str,
}

/// The metrics of VLAN interfaces. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Things that were as they should be, and had to be made so again.
    pub repairs: Family<RepairLabels, Counter>,
    /// Times that messages of the kernel were lost, and all was read anew.
    pub overruns: Counter,
}

impl Metrics {
    /// Makes the metrics and enters them into a registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_l2_vlan_device_repairs",
            "Parts of VLAN interfaces and their return path that somebody else had removed or changed",
            metrics.repairs.clone(),
        );
        registry.register(
            "mooring_l2_vlan_netlink_overruns",
            "How often messages of the kernel were lost, so that all was read anew",
            metrics.overruns.clone(),
        );
        metrics
    }
}
