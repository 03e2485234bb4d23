//! What has changed of a Service, as the framework of the Go controllers told it before Kubernetes 1.30:
//! `old -> new`. Dashboards match on the reasons.

use mooring_common::names::reasons;

use crate::views::service_view::ServiceView;

/// The fields that differ: the Event's reason, and both values.
pub(super) fn changes(before: &ServiceView, now: &ServiceView) -> Vec<(&'static str, String)> {
    let list = |texts: &[String]| format!("[{}]", texts.join(" "));
    let fields = |service: &ServiceView| {
        let address = service.load_balancer_ip.clone().unwrap_or_default();
        let policy = if service.is_local { "Local" } else { "Cluster" };
        let port = service.health_check_node_port.unwrap_or_default();
        [
            (reasons::CHANGED_SOURCE_RANGES, list(&service.source_ranges)),
            (reasons::CHANGED_ADDRESS, address),
            (reasons::CHANGED_TRAFFIC_POLICY, policy.to_owned()),
            (reasons::CHANGED_HEALTH_CHECK_PORT, port.to_string()),
            (reasons::CHANGED_IP_FAMILIES, list(&service.ip_families)),
        ]
    };
    let pairs = fields(before).into_iter().zip(fields(now));
    let differing = pairs.filter(|((_, old), (_, new))| old != new);
    differing
        .map(|((reason, old), (_, new))| (reason, format!("{old} -> {new}")))
        .collect()
}
