//! Steps as JSON patches of `services/status`.

use mooring_common::names::annotations;
use serde_json::{Value, json};

use super::super::patch::{add_finalizer, annotation_path, guard, remove_finalizer};
use super::plan::ServiceStep;
use crate::controllers::address_pool::Held;
use crate::views::service_view::ServiceView;

/// The operations of one step. The first tests that the Service is as it was planned for.
pub(super) fn operations(service: &ServiceView, step: &ServiceStep) -> Vec<Value> {
    let mut operations = vec![guard(service)];
    match step {
        ServiceStep::AddFinalizer => operations.push(add_finalizer(service)),
        ServiceStep::WriteStatus { held, .. } => operations.extend(write(service, held)),
        ServiceStep::Withdraw => operations.extend(withdraw(service)),
        ServiceStep::Release => operations.extend(release(service)),
    }
    operations
}

fn write(service: &ServiceView, held: &Held) -> Vec<Value> {
    let texts: Vec<String> = held.addresses.iter().map(ToString::to_string).collect();
    let ingress: Vec<Value> = texts.iter().map(|ip| json!({"ip": ip})).collect();
    let mut operations = Vec::new();
    if !service.has_annotations {
        operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
    }
    for (key, value) in [
        (annotations::ALLOCATED_NETWORK, held.network.clone()),
        (annotations::ALLOCATED_ADDRESSES, texts.join(",")),
    ] {
        operations.push(json!({"op": "add", "path": annotation_path(key), "value": value}));
    }
    let status = json!({"ingress": ingress});
    operations.push(json!({"op": "add", "path": "/status/loadBalancer", "value": status}));
    operations
}

fn release(service: &ServiceView) -> Vec<Value> {
    let mut operations = Vec::new();
    if service.allocated_network.is_some() {
        let path = annotation_path(annotations::ALLOCATED_NETWORK);
        operations.push(json!({"op": "remove", "path": path}));
    }
    operations.extend(withdraw(service));
    operations.extend(remove_finalizer(service));
    operations
}

/// The network stays: it says that no cloud is to serve the Service.
fn withdraw(service: &ServiceView) -> Vec<Value> {
    let mut operations = Vec::new();
    if service.allocated_addresses.is_some() {
        let path = annotation_path(annotations::ALLOCATED_ADDRESSES);
        operations.push(json!({"op": "remove", "path": path}));
    }
    if !service.status.is_empty() && service.is_load_balancer {
        operations.push(json!({"op": "add", "path": "/status/loadBalancer", "value": {}}));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::service_view::tests::service;
    use mooring_common::names::finalizers;

    #[test]
    fn removes_only_own_finalizer() {
        let names = ["a/b", finalizers::SERVICE, "c/d"]
            .map(ToOwned::to_owned)
            .to_vec();
        let service = ServiceView {
            finalizers: Some(names),
            ..service()
        };
        let operations = operations(&service, &ServiceStep::Release);
        let last = operations.last().unwrap();
        assert_eq!(
            *last,
            json!({"op": "remove", "path": "/metadata/finalizers/1"})
        );
    }

    #[test]
    fn every_patch_tests_what_it_replaces() {
        for step in [
            ServiceStep::AddFinalizer,
            ServiceStep::Withdraw,
            ServiceStep::Release,
        ] {
            let first = operations(&service(), &step).remove(0);
            assert_eq!(
                (&first["op"], &first["value"]),
                (&json!("test"), &json!("7"))
            );
        }
    }
}
