//! What attackers have, and what they write: for the suites about the fence and for `make demo-attack`.
//!
//! A *tenant* may write Services in one namespace. A *stolen token* is that of the daemon's Pod on one
//! Node. Both send their requests to a real API server, and only a refusal of it shows that they are
//! kept out.

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::objects::unique;

/// The message with which the API server refused a write.
///
/// # Errors
/// If it took the write, or if the write failed for any other reason, which proves nothing.
pub fn refused<T, E: Into<anyhow::Error>>(answer: Result<T, E>) -> Result<String> {
    let error = match answer {
        Ok(_) => bail!("the API server took it"),
        Err(error) => error.into(),
    };
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if [403, 422].contains(&status.code) => {
            Ok(status.message.clone())
        }
        _ => Err(error.context("neither allowed nor refused")),
    }
}

/// A client that may do everything with Services of the namespace, but not write their status: what the
/// ClusterRole `edit` permits.
///
/// # Errors
/// If the API server does not take the Role, or its binding.
pub async fn tenant(control_plane: &ControlPlane, namespace: &str) -> Result<Client> {
    let admin = control_plane.admin();
    let user = format!("tenant-of-{namespace}");
    let role: Role = serde_json::from_value(json!({
        "metadata": { "name": "tenant" },
        "rules": [{ "apiGroups": [""], "resources": ["services"], "verbs": ["*"] }],
    }))?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "tenant" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }))?;
    let params = PostParams::default();
    let roles = Api::<Role>::namespaced(admin.clone(), namespace);
    roles.create(&params, &role).await.context("the Role")?;
    let bindings = Api::<RoleBinding>::namespaced(admin, namespace);
    let bound = bindings.create(&params, &binding).await;
    bound.context("the RoleBinding")?;
    control_plane.client_for_user(&user, None).await
}

/// A merge patch of an L2Network's status: other voters, as the daemons write them.
#[must_use]
pub fn voters(set: &Value) -> Value {
    json!({ "status": { "voters": set, "approvals": null } })
}

/// A merge patch of an L2Network's status: this node approves that these vote next.
#[must_use]
pub fn approval(node: &str, set: &Value) -> Value {
    json!({ "status": { "approvals": { node: set } } })
}

/// What an Event is about.
#[must_use]
pub fn about(kind: &str, namespace: Option<&str>, name: &str) -> ObjectReference {
    let version = match kind {
        "L2Network" => "mooring.dev/v1alpha1",
        _ => "v1",
    };
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(name.to_owned()),
        namespace: namespace.map(ToOwned::to_owned),
        ..ObjectReference::default()
    }
}

/// An Event in the name of the daemon on this Node.
#[must_use]
pub fn event(node: &str, about: &ObjectReference, reason: &str) -> Value {
    let namespace = about.namespace.as_deref().unwrap_or("default");
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": unique("event"), "namespace": namespace },
        "involvedObject": about, "reason": reason, "action": reason, "message": "m", "type": "Normal",
        "source": { "component": "mooring-node" },
        "reportingComponent": "mooring-node", "reportingInstance": node,
    })
}
