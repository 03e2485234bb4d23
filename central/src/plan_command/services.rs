//! Which Services are planned for, and what the cluster says.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use mooring_common::k8s::{ObjectKey, Slim};
use mooring_common::node_view::NodeView;
use serde::Deserialize as _;
use serde_json::Value;

use super::flags::PlanFlags;
use crate::controllers::service::Routing;
use crate::service_view::ServiceView;

const FIELD_MANAGER: &str = "mooring-plan";
/// Where `kubectl apply` keeps what it has applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What the cluster says at one time.
pub(super) struct Snapshot {
    pub(super) services: Vec<Arc<ServiceView>>,
    pub(super) nodes: Vec<Arc<NodeView>>,
}

impl Snapshot {
    pub(super) async fn take(client: Client) -> anyhow::Result<Self> {
        let everything = ListParams::default();
        let services = Api::<Service>::all(client.clone());
        let services = services.list(&everything).await;
        let nodes = Api::<Node>::all(client).list(&everything).await;
        Ok(Self {
            services: views(services.context("the cluster's Services cannot be listed")?),
            nodes: views(nodes.context("the cluster's Nodes cannot be listed")?),
        })
    }
}

fn views<V: Slim>(listed: kube::core::ObjectList<V::Object>) -> Vec<Arc<V>>
where
    V::Object: Clone,
{
    let views = listed.items.into_iter().map(V::slim);
    views.map(Arc::new).collect()
}

/// The Services that the command line asks for.
pub(super) async fn choose(
    flags: &PlanFlags,
    client: Client,
    snapshot: &Snapshot,
    routing: &Routing,
) -> anyhow::Result<Vec<Arc<ServiceView>>> {
    let mut chosen = Vec::new();
    if let Some(path) = &flags.filename {
        for manifest in read(path)? {
            chosen.push(Arc::new(as_applied(client.clone(), manifest).await?));
        }
        ensure!(!chosen.is_empty(), "{} holds no Service", path.display());
    } else if flags.all {
        let mut all = snapshot.services.clone();
        all.retain(|service| is_planned_for(service, routing));
        all.sort_by(|a, b| a.key.cmp(&b.key));
        return Ok(all);
    }
    for (namespace, name) in &flags.named {
        let key = ObjectKey::new(namespace, name);
        let found = snapshot.services.iter().find(|service| service.key == key);
        chosen.push(
            found
                .with_context(|| format!("there is no Service {key}"))?
                .clone(),
        );
    }
    if let Some(other) = chosen
        .iter()
        .find(|service| !is_planned_for(service, routing))
    {
        bail!(
            "{}: no load balancer is made for it here: it is not of type LoadBalancer, or of a \
             loadBalancerClass that is served elsewhere",
            other.key
        );
    }
    Ok(chosen)
}

fn is_planned_for(service: &ServiceView, routing: &Routing) -> bool {
    routing.wants_of_cloud(service) || routing.leaves_to_cloud(service)
}

/// The Services of a manifest, others left out.
fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let shown = path.display();
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("{shown} cannot be read"))?;
    let mut services = Vec::new();
    for document in serde_norway::Deserializer::from_str(&text) {
        let document = Value::deserialize(document);
        let document = document.with_context(|| format!("{shown} is no YAML"))?;
        let items = match document.get("items").and_then(Value::as_array) {
            Some(items) => items.clone(),
            None => vec![document],
        };
        services.extend(items.into_iter().filter(is_service));
    }
    Ok(services)
}

fn is_service(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Service")
}

/// The Service as it would be after `kubectl apply`: the API server says so, by a dry run.
async fn as_applied(client: Client, manifest: Value) -> anyhow::Result<ServiceView> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let namespace = text("/metadata/namespace").unwrap_or("default");
    let name = text("/metadata/name").unwrap_or_default();
    ensure!(
        !name.is_empty(),
        "a Service of the manifest has no metadata.name"
    );
    let key = ObjectKey::new(namespace, name);
    let api = Api::<Service>::namespaced(client, namespace);
    let params = PatchParams::apply(FIELD_MANAGER).dry_run().force();
    let applied = api.patch(name, &params, &Patch::Apply(&manifest)).await;
    let mut applied = applied.with_context(|| {
        format!("{key}: the API server does not take the manifest, asked by a dry run of an apply")
    })?;
    for gone in annotations_gone(applied.annotations(), &manifest) {
        applied.annotations_mut().remove(&gone);
    }
    Ok(ServiceView::slim(applied))
}

/// Annotations that `kubectl apply` would take off: it has put them on, and they are not in the
/// manifest any more.
fn annotations_gone(now: &BTreeMap<String, String>, manifest: &Value) -> BTreeSet<String> {
    let last = now.get(LAST_APPLIED);
    let last: Value = last
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let keys = |object: &Value| -> BTreeSet<String> {
        let annotations = object
            .pointer("/metadata/annotations")
            .and_then(Value::as_object);
        annotations
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect()
    };
    &keys(&last) - &keys(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_document_and_every_list_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.yaml");
        let text = "kind: Service\nmetadata: {name: a}\n---\nkind: ConfigMap\n---\nkind: List\n\
                    items: [{kind: Service, metadata: {name: b}}]\n";
        std::fs::write(&path, text).unwrap();
        let names: Vec<_> = read(&path)
            .unwrap()
            .iter()
            .map(|s| s["metadata"]["name"].clone())
            .collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn what_apply_would_take_off_is_taken_off() {
        let last = json!({"metadata": {"annotations": {"a": "1", "b": "2"}}}).to_string();
        let now = [
            (LAST_APPLIED.to_owned(), last),
            ("c".to_owned(), "3".to_owned()),
        ]
        .into();
        let manifest = json!({"metadata": {"annotations": {"b": "2"}}});
        assert!(annotations_gone(&now, &manifest).into_iter().eq(["a"]));
        assert!(annotations_gone(&BTreeMap::new(), &manifest).is_empty());
    }
}
