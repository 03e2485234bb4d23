//! Which Services are planned for, and what the cluster says.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use mooring_common::k8s::{Change, ObjectKey, Slim};
use mooring_common::node_view::NodeView;
use serde_json::{Map, Value, json};

use super::flags::PlanFlags;
use crate::cloud_provider::load_balancers::Endpoints;
use crate::controllers::service::{EndpointChanges, Routing, Server, SliceView};
use crate::run::manifest;
use crate::views::service_view::ServiceView;

/// Where `kubectl apply` keeps what it has applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What the cluster says at one time.
pub(super) struct Snapshot {
    pub(super) services: Vec<Arc<ServiceView>>,
    pub(super) nodes: Vec<Arc<NodeView>>,
    /// Where endpoints are, if that is followed.
    endpoints: Option<EndpointChanges>,
}

impl Snapshot {
    pub(super) async fn take(client: Client, follows_endpoints: bool) -> anyhow::Result<Self> {
        let endpoints = match follows_endpoints {
            true => Some(endpoints(client.clone()).await?),
            false => None,
        };
        let everything = ListParams::default();
        let services = Api::<Service>::all(client.clone());
        let services = services.list(&everything).await;
        let nodes = Api::<Node>::all(client).list(&everything).await;
        Ok(Self {
            services: views(services.context("the cluster's Services cannot be listed")?),
            nodes: views(nodes.context("the cluster's Nodes cannot be listed")?),
            endpoints,
        })
    }

    /// Where the endpoints of a Service are, if load balancers go by that.
    pub(super) fn endpoints(&self, service: &ServiceView) -> Option<Endpoints> {
        let endpoints = self.endpoints.as_ref().filter(|_| service.is_local);
        endpoints.map(|endpoints| endpoints.of(&service.key))
    }
}

async fn endpoints(client: Client) -> anyhow::Result<EndpointChanges> {
    let listed = Api::<EndpointSlice>::all(client)
        .list(&ListParams::default())
        .await
        .context("the cluster's EndpointSlices cannot be listed")?;
    let endpoints = EndpointChanges::default();
    for slice in listed {
        endpoints.slice(&Change {
            key: ObjectKey::new(slice.namespace().unwrap_or_default(), slice.name_any()),
            old: None,
            new: Some(Arc::new(SliceView::slim(slice))),
        });
    }
    Ok(endpoints)
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
            let key = key_of(&manifest, None)?;
            chosen.push(Arc::new(as_applied(client.clone(), &key, manifest).await?));
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
    let is_served = match routing.server(service) {
        Some(Server::Cloud(_)) => routing.wanted_of(service).is_some(),
        Some(Server::L2Networks) => service.wants_load_balancer(),
        None => return false,
    };
    is_served || service.has_finalizer()
}

/// Puts the Services of a manifest, as they would be, among those of the cluster, and gives their keys. Those that
/// say no namespace are in this one, and others are not permitted beside it; `None`: `default`, and all are.
///
/// # Errors
/// If it cannot be read, holds no Service or one of another namespace, or the API server does not take one.
pub(in crate::run) async fn with_manifest(
    client: &Client,
    path: &Path,
    namespace: Option<&str>,
    services: &mut Vec<Arc<ServiceView>>,
) -> anyhow::Result<Vec<ObjectKey>> {
    let mut keys = Vec::new();
    for manifest in read(path)? {
        let key = key_of(&manifest, namespace)?;
        let applied = as_applied(client.clone(), &key, manifest).await?;
        keys.push(applied.key.clone());
        services.retain(|service| service.key != applied.key);
        services.push(Arc::new(applied));
    }
    ensure!(!keys.is_empty(), "{} holds no Service", path.display());
    Ok(keys)
}

/// The Services of a manifest, others left out.
fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let objects = manifest::read(path)?;
    Ok(objects.into_iter().filter(is_service).collect())
}

fn is_service(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("Service")
}

/// The Service that a manifest describes, in this namespace if it says none.
fn key_of(manifest: &Value, namespace: Option<&str>) -> anyhow::Result<ObjectKey> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").unwrap_or_default();
    ensure!(
        !name.is_empty(),
        "a Service of the manifest has no metadata.name"
    );
    let own = text("/metadata/namespace");
    let key = ObjectKey::new(own.or(namespace).unwrap_or("default"), name);
    if let Some(only) = namespace {
        ensure!(
            key.namespace == only,
            "{key} of the manifest is not in the namespace {only} of --namespace"
        );
    }
    Ok(key)
}

/// The Service as it would be after `kubectl apply`: the API server says so, by a dry run.
async fn as_applied(
    client: Client,
    key: &ObjectKey,
    manifest: Value,
) -> anyhow::Result<ServiceView> {
    let ObjectKey { namespace, name } = key;
    let api = Api::<Service>::namespaced(client, namespace);
    let only = ListParams::default().fields(&format!("metadata.name={name}"));
    let live = api.list(&only).await;
    let live = live.with_context(|| format!("{key}: the cluster's Services cannot be listed"))?;
    let applied = match live.items.first() {
        Some(live) => {
            let patch = as_patch(&manifest, live.annotations().get(LAST_APPLIED));
            let params = PatchParams {
                dry_run: true,
                ..PatchParams::default()
            };
            api.patch(name, &params, &Patch::Strategic(&patch)).await
        }
        None => {
            let service = serde_json::from_value(manifest.clone());
            let service = service.with_context(|| format!("{key}: this is no Service"))?;
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            api.create(&params, &service).await
        }
    };
    let applied = applied.with_context(|| {
        format!("{key}: the API server does not take the manifest, asked by a dry run of an apply")
    })?;
    Ok(ServiceView::slim(applied))
}

/// What `kubectl apply` would send: the manifest, and an end to what it has applied before and does
/// not find in the manifest any more. Ports are told apart by their numbers, as in the API.
fn as_patch(manifest: &Value, last_applied: Option<&String>) -> Value {
    let last: Value = last_applied
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut patch = manifest.clone();
    for map in ["/metadata/annotations", "/metadata/labels", "/spec"] {
        let before = last.pointer(map).and_then(Value::as_object);
        for key in before.into_iter().flat_map(Map::keys) {
            if manifest
                .pointer(&format!("{map}/{}", escaped(key)))
                .is_none()
            {
                put(&mut patch, map, key, Value::Null);
            }
        }
    }
    let ports = |object: &Value| -> Vec<Value> {
        let ports = object.pointer("/spec/ports").and_then(Value::as_array);
        ports.cloned().unwrap_or_default()
    };
    let number = |port: &Value| port.get("port").cloned();
    let kept: Vec<_> = ports(manifest).iter().map(number).collect();
    let gone = ports(&last).into_iter().map(|port| number(&port));
    let gone = gone.filter(|number| !kept.contains(number));
    let delete = |number| json!({"$patch": "delete", "port": number});
    if let Some(all) = patch
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
    {
        all.extend(gone.map(delete));
    }
    patch
}

/// As part of a JSON pointer (RFC 6901, section 3).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Sets a key in the map of this name below `metadata`, or in `spec`.
fn put(object: &mut Value, map: &str, key: &str, value: Value) {
    let mut place = object;
    for part in map.split('/').filter(|part| !part.is_empty()) {
        if place.get(part).is_none_or(|there| !there.is_object()) {
            let Some(parent) = place.as_object_mut() else {
                return;
            };
            parent.insert(part.to_owned(), json!({}));
        }
        let Some(next) = place.get_mut(part) else {
            return;
        };
        place = next;
    }
    if let Some(place) = place.as_object_mut() {
        place.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_all_documents_and_lists() {
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
    fn a_manifest_is_in_the_namespace_that_it_says() {
        let silent = json!({"metadata": {"name": "web"}});
        let other = json!({"metadata": {"name": "web", "namespace": "other"}});
        for (manifest, namespace, expected) in [
            (&silent, None, Some("default/web")),
            (&silent, Some("shop"), Some("shop/web")),
            (&other, None, Some("other/web")),
            (&other, Some("other"), Some("other/web")),
            (&other, Some("shop"), None),
        ] {
            let key = key_of(manifest, namespace).map(|key| key.to_string());
            assert_eq!(key.ok().as_deref(), expected, "{manifest} {namespace:?}");
        }
        key_of(&json!({"metadata": {}}), None).unwrap_err();
    }

    #[test]
    fn removes_formerly_applied_fields() {
        let last = json!({
            "metadata": {"annotations": {"example.com/a": "1", "b": "2"}},
            "spec": {"loadBalancerSourceRanges": ["10.0.0.0/8"], "ports": [{"port": 80}, {"port": 443}]},
        });
        let manifest = json!({
            "metadata": {"name": "web", "annotations": {"b": "2"}},
            "spec": {"ports": [{"port": 443}, {"port": 8443}]},
        });
        let patch = as_patch(&manifest, Some(&last.to_string()));
        assert_eq!(
            patch,
            json!({
                "metadata": {"name": "web", "annotations": {"example.com/a": null, "b": "2"}},
                "spec": {
                    "loadBalancerSourceRanges": null,
                    "ports": [
                        {"port": 443}, {"port": 8443}, {"$patch": "delete", "port": 80},
                    ],
                },
            })
        );
        assert_eq!(as_patch(&manifest, None), manifest);
    }
}
