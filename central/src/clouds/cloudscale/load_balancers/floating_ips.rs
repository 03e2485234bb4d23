//! Floating IPs: each leads to one load balancer or server.

use std::collections::BTreeSet;

use mooring_common::names::cloudscale_annotations as keys;

use super::super::api::floating_ips::FloatingIp;
use crate::engine::canonical::canonical_network;
use crate::engine::provider::Holder;
use crate::views::service_view::ServiceView;

/// What one leads to.
pub(super) fn holder(ip: &FloatingIp) -> Option<Holder> {
    let balancer = ip.load_balancer.as_ref();
    let balancer = balancer.map(|held| Holder::LoadBalancer(held.uuid.clone()));
    let server = ip.server.as_ref();
    balancer.or_else(|| server.map(|held| Holder::Server(held.uuid.clone())))
}

/// The networks that a Service asks for, in canonical form. Nothing if that cannot be read: it is
/// for that Service to correct it.
pub(super) fn asked_by(service: &ServiceView) -> BTreeSet<String> {
    let text = service.annotation(keys::FLOATING_IPS).unwrap_or_default();
    let asked: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    let networks = asked.iter().filter_map(|text| canonical_network(text));
    networks.collect()
}

/// The network of a floating IP in canonical form; as it is if it is none.
pub(super) fn canonical_text(ip: &FloatingIp) -> String {
    canonical_network(&ip.network).unwrap_or_else(|| ip.network.clone())
}
