//! What a Service says.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Service, ServicePort};
use mooring_common::names::finalizers;
use serde_json::Value;

use super::{LoadBalancerCloud, Served, SuiteCloud};

/// What the load balancer of a Service is to serve with these Nodes.
pub(crate) fn wanted(service: &Service, nodes: &[usize]) -> Served {
    if !SuiteCloud::FORWARDS {
        return Served::new();
    }
    let served = ports(service).iter().map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP").to_lowercase();
        let node_port = port.node_port.unwrap_or_default();
        let members = nodes
            .iter()
            .map(|n| format!("{}:{node_port}", SuiteCloud::address(*n)));
        (format!("{protocol}/{}", port.port), members.collect())
    });
    served.collect()
}

/// The ports of a Service.
pub(crate) fn ports(service: &Service) -> &[ServicePort] {
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_deref());
    ports.unwrap_or_default()
}

/// The entries of a Service's status, as JSON.
pub(crate) fn ingress(service: &Service) -> Vec<Value> {
    let status = serde_json::to_value(&service.status).unwrap();
    let entries = status["loadBalancer"]["ingress"].as_array();
    entries.cloned().unwrap_or_default()
}

/// Whether the framework's finalizer is on a Service.
pub(crate) fn has_finalizer(service: &Service) -> bool {
    let mut names = service.metadata.finalizers.iter().flatten();
    names.any(|name| name == finalizers::SERVICE)
}

/// Asserts that nothing is in a list, and shows what is.
#[track_caller]
pub(crate) fn assert_none<T: Debug>(found: &[T]) {
    assert!(found.is_empty(), "{found:#?}");
}
