//! Services as the API server itself has them, and writes on them.
//!
//! Only `list` and the patch of `services/status` are asked for: what the ClusterRoles of the Go
//! controllers grant. Those few providers that write `spec.loadBalancerIP`, as their Go controllers
//! do, take the patch of Services themselves besides.

use k8s_openapi::api::core::v1::Service;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use mooring_common::k8s::{ObjectKey, Slim};
use serde_json::Value;

use super::Failure;
use crate::views::service_view::ServiceView;

/// One Service, as it is now.
pub(super) async fn fresh(
    client: &Client,
    key: &ObjectKey,
) -> Result<Option<ServiceView>, kube::Error> {
    let api = Api::<Service>::namespaced(client.clone(), &key.namespace);
    let only = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let found = api.list(&only).await?.items.into_iter().next();
    Ok(found.map(ServiceView::slim))
}

/// All Services, as they are now.
pub(super) async fn fresh_all(client: &Client) -> Result<Vec<ServiceView>, kube::Error> {
    let listed = Api::<Service>::all(client.clone())
        .list(&ListParams::default())
        .await?;
    Ok(listed.items.into_iter().map(ServiceView::slim).collect())
}

/// Patches a Service itself; gives it as it is then.
pub(super) async fn patch_itself(
    client: &Client,
    key: &ObjectKey,
    operations: Vec<Value>,
) -> Result<ServiceView, Failure> {
    let api = Api::<Service>::namespaced(client.clone(), &key.namespace);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(Value::Array(operations))?);
    let written = api
        .patch(&key.name, &PatchParams::default(), &patch)
        .await?;
    Ok(ServiceView::slim(written))
}

/// Patches finalizers, annotations and status of a Service; gives it as it is then.
pub(super) async fn patch(
    client: &Client,
    key: &ObjectKey,
    operations: Vec<Value>,
) -> Result<ServiceView, Failure> {
    let api = Api::<Service>::namespaced(client.clone(), &key.namespace);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(Value::Array(operations))?);
    let written = api
        .patch_status(&key.name, &PatchParams::default(), &patch)
        .await?;
    Ok(ServiceView::slim(written))
}
