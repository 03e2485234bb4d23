//! What a cloud's engine reads and writes in the cluster, beside the Service that a pass is for.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use mooring_common::k8s::{ApiFailure, Slim, classify};
use mooring_common::l2_network::L2Network;
use mooring_common::names::{components, labels};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::cloud_provider::load_balancers::ReconcileError;
use crate::views::service_view::ServiceView;

/// The Service that every API server makes: the cluster's claim is on it.
const CLAIM_SERVICE: (&str, &str) = ("default", "kubernetes");
/// The name under which fields are owned.
const MANAGER: &str = components::CENTRAL;
/// The namespace whose UID tells clusters apart, as Go controllers have it.
const NAMESPACE: &str = "kube-system";

/// Annotations of a Node to write; `None`: there is to be none.
pub type NodeAnnotations = BTreeMap<String, Option<String>>;

/// The API server did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClusterError(pub String);

impl From<ClusterError> for ReconcileError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error.0)
    }
}

/// Who is about to buy, as the cluster has it at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// What whoever claims has written; `None`: nobody does.
    pub text: Option<String>,
    /// `metadata.resourceVersion` of the Service with the claim.
    pub version: String,
    /// Whether it has a map of annotations.
    pub has_annotations: bool,
}

/// The cluster.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// What tells it from others.
    async fn id(&self) -> Result<String, ClusterError>;

    /// All its Services, as they are now.
    async fn services(&self) -> Result<Vec<ServiceView>, ClusterError>;

    /// Writes these fields of an L2Network's spec, and leaves the others.
    async fn apply_l2_network(&self, name: &str, spec: Value) -> Result<(), ClusterError>;

    /// Writes these annotations of a Node, or takes them away, and leaves the others.
    async fn annotate_node(
        &self,
        name: &str,
        annotations: &NodeAnnotations,
    ) -> Result<(), ClusterError>;

    /// Who is about to buy.
    async fn claim(&self) -> Result<Claim, ClusterError>;

    /// Writes another claim in place of this one, or takes it away. `None`: somebody was quicker.
    async fn swap_claim(
        &self,
        before: &Claim,
        text: Option<String>,
    ) -> Result<Option<Claim>, ClusterError>;
}

/// The one that the API server keeps.
pub struct RealCluster {
    client: Client,
    /// The annotation that bears a claim.
    claim_key: &'static str,
    id: OnceCell<String>,
}

impl RealCluster {
    /// The cluster of this client, in which purchases are claimed by this annotation.
    #[must_use]
    pub fn new(client: Client, claim_key: &'static str) -> Self {
        Self {
            client,
            claim_key,
            id: OnceCell::new(),
        }
    }

    fn failed(what: &str, error: &kube::Error) -> ClusterError {
        ClusterError(format!("{what}: {error}"))
    }

    fn read(&self, service: &Service) -> Claim {
        let annotations = service.metadata.annotations.as_ref();
        Claim {
            text: annotations.and_then(|all| all.get(self.claim_key).cloned()),
            version: service.resource_version().unwrap_or_default(),
            has_annotations: annotations.is_some(),
        }
    }
}

#[async_trait]
impl Cluster for RealCluster {
    async fn id(&self) -> Result<String, ClusterError> {
        let read = async || {
            let api = Api::<Namespace>::all(self.client.clone());
            let namespace = api.get(NAMESPACE).await;
            let what = "the namespace kube-system, whose UID tells this cluster from others, cannot \
                        be read";
            let namespace = namespace.map_err(|error| Self::failed(what, &error))?;
            match namespace.uid().filter(|uid| !uid.is_empty()) {
                Some(uid) => Ok(uid),
                None => Err(ClusterError(
                    "the namespace kube-system has no UID".to_owned(),
                )),
            }
        };
        self.id.get_or_try_init(read).await.cloned()
    }

    async fn services(&self) -> Result<Vec<ServiceView>, ClusterError> {
        let listed = Api::<Service>::all(self.client.clone())
            .list(&ListParams::default())
            .await;
        let listed = listed.map_err(|error| Self::failed("Services cannot be listed", &error))?;
        Ok(listed.items.into_iter().map(ServiceView::slim).collect())
    }

    async fn apply_l2_network(&self, name: &str, spec: Value) -> Result<(), ClusterError> {
        let api = Api::<L2Network>::all(self.client.clone());
        let object = json!({
            "apiVersion": L2Network::api_version(&()),
            "kind": L2Network::kind(&()),
            "metadata": {"name": name, "labels": {labels::MANAGED_BY: MANAGER}},
            "spec": spec,
        });
        let params = PatchParams::apply(MANAGER).force();
        let written = api.patch(name, &params, &Patch::Apply(&object)).await;
        let what = format!("the L2Network {name} cannot be written");
        written.map_err(|error| Self::failed(&what, &error))?;
        Ok(())
    }

    async fn annotate_node(
        &self,
        name: &str,
        annotations: &NodeAnnotations,
    ) -> Result<(), ClusterError> {
        let api = Api::<Node>::all(self.client.clone());
        let patch = json!({"metadata": {"annotations": annotations}});
        let written = api
            .patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        let what = format!("the annotations of the Node {name} cannot be written");
        written.map_err(|error| Self::failed(&what, &error))?;
        Ok(())
    }

    async fn claim(&self) -> Result<Claim, ClusterError> {
        let (namespace, name) = CLAIM_SERVICE;
        let api = Api::<Service>::namespaced(self.client.clone(), namespace);
        // Asked for by a list, for which older roles suffice.
        let only = ListParams::default().fields(&format!("metadata.name={name}"));
        let what = "the Service default/kubernetes, on which purchases are claimed, cannot be read";
        let listed = api.list(&only).await;
        let listed = listed.map_err(|error| Self::failed(what, &error))?;
        match listed.items.first() {
            Some(service) => Ok(self.read(service)),
            None => Err(ClusterError(
                "there is no Service default/kubernetes, on which purchases are claimed".to_owned(),
            )),
        }
    }

    async fn swap_claim(
        &self,
        before: &Claim,
        text: Option<String>,
    ) -> Result<Option<Claim>, ClusterError> {
        let (namespace, name) = CLAIM_SERVICE;
        let api = Api::<Service>::namespaced(self.client.clone(), namespace);
        let operations = operations(self.claim_key, before, text);
        let unwritable = |error| ClusterError(format!("a claim cannot be written: {error}"));
        let patch = serde_json::from_value(Value::Array(operations)).map_err(unwritable)?;
        let patch: Patch<()> = Patch::Json(patch);
        match api
            .patch_status(name, &PatchParams::default(), &patch)
            .await
        {
            Ok(written) => Ok(Some(self.read(&written))),
            Err(error) => match classify(&error) {
                ApiFailure::Conflict => Ok(None),
                _ => Err(Self::failed(
                    "the purchase cannot be claimed on the Service default/kubernetes",
                    &error,
                )),
            },
        }
    }
}

/// A JSON patch (RFC 6902) of the Service with the claim's `status`, which permits annotations too.
fn operations(key: &str, before: &Claim, text: Option<String>) -> Vec<Value> {
    let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    let mut operations =
        vec![json!({"op": "test", "path": "/metadata/resourceVersion", "value": before.version})];
    if !before.has_annotations {
        operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
    }
    match text {
        Some(text) => operations.push(json!({"op": "add", "path": path, "value": text})),
        None if before.text.is_some() => operations.push(json!({"op": "remove", "path": path})),
        None => {}
    }
    operations
}
