//! Parts of JSON patches of `services/status`: that subresource is enough for finalizers,
//! annotations and status, so that central needs no right to write Services themselves.

use mooring_common::names::finalizers;
use serde_json::{Value, json};

use crate::views::service_view::ServiceView;

/// Tests that the Service is as it was planned for.
pub(super) fn guard(service: &ServiceView) -> Value {
    let version = &service.resource_version;
    json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})
}

pub(super) fn add_finalizer(service: &ServiceView) -> Value {
    match service.finalizers {
        None => {
            json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizers::SERVICE]})
        }
        Some(_) => {
            json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizers::SERVICE})
        }
    }
}

/// Takes ours off, and leaves those of others.
pub(super) fn remove_finalizer(service: &ServiceView) -> Vec<Value> {
    let names = service.finalizers.iter().flatten().enumerate();
    let ours = names.filter(|(_, name)| *name == finalizers::SERVICE);
    let mut positions: Vec<usize> = ours.map(|(position, _)| position).collect();
    positions.reverse();
    let paths = positions
        .into_iter()
        .map(|position| format!("/metadata/finalizers/{position}"));
    paths
        .map(|path| json!({"op": "remove", "path": path}))
        .collect()
}

/// An annotation's place as a JSON pointer (RFC 6901, section 3).
pub(super) fn annotation_path(key: &str) -> String {
    format!(
        "/metadata/annotations/{}",
        key.replace('~', "~0").replace('/', "~1")
    )
}
