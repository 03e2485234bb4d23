//! What a real implementation has left in a cluster, read from `tests/fixtures`, and who writes to it afterwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use mooring_test_cluster::control_plane::{AuditLog, ControlPlane};
use mooring_test_cluster::objects::{create_namespace, kubectl};
use mooring_test_cluster::test_namespace::MARKER_LIMIT;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The objects of one installation.
pub(crate) struct Fixture {
    folder: PathBuf,
    namespaces: BTreeSet<String>,
    nodes: Vec<Value>,
    /// The Services of type LoadBalancer, with the addresses that they have.
    pub(crate) services: Vec<Recorded>,
}

/// A Service as it was recorded.
#[derive(Clone)]
pub(crate) struct Recorded {
    namespace: String,
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    status: Value,
}

impl Recorded {
    /// Namespace and name.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) fn api(&self, cp: &ControlPlane) -> Api<Service> {
        Api::namespaced(cp.admin(), &self.namespace)
    }
}

impl Fixture {
    /// Where fixtures are.
    pub(crate) fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(name)
    }

    /// Reads one.
    pub(crate) fn read(name: &str) -> Self {
        let folder = Self::folder(name);
        let mut fixture = Self {
            namespaces: BTreeSet::new(),
            nodes: Vec::new(),
            services: Vec::new(),
            folder,
        };
        for file in ["configuration.yaml", "services.yaml"] {
            for object in documents(&fixture.folder.join(file)) {
                let namespace = object["metadata"]["namespace"]
                    .as_str()
                    .map(ToOwned::to_owned);
                fixture.namespaces.extend(namespace.clone());
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                match object["kind"].as_str().unwrap() {
                    "Node" => fixture.nodes.push(object),
                    "Service" => fixture.services.push(Recorded {
                        namespace: namespace.unwrap(),
                        name,
                        addresses: ips(&object["status"]["loadBalancer"]["ingress"]),
                        status: object["status"].clone(),
                    }),
                    _ => {}
                }
            }
        }
        assert!(fixture.services.len() > 3, "there is little to keep");
        fixture
    }

    /// Puts everything into the cluster as it was.
    pub(crate) async fn install(&self, cp: &ControlPlane) {
        for namespace in &self.namespaces {
            create_namespace(&cp.admin(), namespace).await.unwrap();
        }
        let crds = self.folder.join("crds.yaml");
        if crds.exists() {
            install_crds(cp, &crds).await;
        }
        for file in ["configuration.yaml", "services.yaml"] {
            apply(cp, &self.folder.join(file)).await;
        }
        let params = PatchParams::default();
        let nodes = Api::<Node>::all(cp.admin());
        for node in &self.nodes {
            let status = Patch::Merge(json!({"status": node["status"]}));
            let name = node["metadata"]["name"].as_str().unwrap();
            nodes.patch_status(name, &params, &status).await.unwrap();
        }
        for service in &self.services {
            let status = Patch::Merge(json!({"status": service.status}));
            service
                .api(cp)
                .patch_status(&service.name, &params, &status)
                .await
                .unwrap();
        }
    }

    /// From now on, every state that a Service is in.
    pub(crate) async fn watch(&self, cp: &ControlPlane) -> Seen {
        let services = Api::<Service>::all(cp.admin());
        let listed = services.list(&ListParams::default()).await.unwrap();
        Seen(listed.metadata.resource_version.unwrap())
    }

    /// Asserts that no write of this user had another address than the Service had before.
    pub(crate) fn assert_no_other_address_written(&self, log: &AuditLog, user: &str) {
        let writes = log.writes_by(user).of("services");
        let mut written = 0;
        for record in writes.iter() {
            let own = self.services.iter().find(|service| {
                (service.namespace.as_str(), service.name.as_str())
                    == (record.namespace.as_str(), record.name.as_str())
            });
            let own = own.unwrap_or_else(|| panic!("{}", record.summary()));
            written += 1;
            let mut found = Vec::new();
            ingresses(record.body.as_ref().unwrap(), &mut found);
            for addresses in found {
                assert_eq!(
                    addresses,
                    own.addresses,
                    "{}: {:?}",
                    record.summary(),
                    record.body
                );
            }
        }
        assert!(
            written >= self.services.len(),
            "central has written nothing: {}",
            writes.summary()
        );
    }
}

/// Since when states are seen.
pub(crate) struct Seen(String);

impl Seen {
    /// Asserts that each Service had its addresses in every state that it has been in since then.
    pub(crate) async fn assert_unchanged(self, cp: &ControlPlane, fixture: &Fixture) {
        let services = Api::<Service>::all(cp.admin());
        let now = services.list(&ListParams::default()).await.unwrap();
        let mut last: BTreeSet<String> = now
            .into_iter()
            .map(|one| one.metadata.resource_version.unwrap())
            .collect();
        last.retain(|version| version.parse::<u64>().unwrap() > self.0.parse::<u64>().unwrap());
        let params = WatchParams::default();
        let mut states = services.watch(&params, &self.0).await.unwrap().boxed();
        let all = async {
            while !last.is_empty() {
                let state = states
                    .try_next()
                    .await
                    .unwrap()
                    .expect("a watch that goes on");
                let WatchEvent::Modified(service) = state else {
                    continue;
                };
                let metadata = &service.metadata;
                let key = format!(
                    "{}/{}",
                    metadata.namespace.as_deref().unwrap(),
                    metadata.name.as_deref().unwrap()
                );
                let own = fixture
                    .services
                    .iter()
                    .find(|one| one.key() == key)
                    .unwrap();
                let ingress = serde_json::to_value(&service.status).unwrap();
                assert_eq!(
                    ips(&ingress["loadBalancer"]["ingress"]),
                    own.addresses,
                    "{key}"
                );
                last.remove(metadata.resource_version.as_deref().unwrap());
            }
        };
        tokio::time::timeout(MARKER_LIMIT, all)
            .await
            .expect("the last states are seen");
    }
}

/// Applies CRDs, and waits until they are served.
pub(crate) async fn install_crds(cp: &ControlPlane, crds: &Path) {
    apply(cp, crds).await;
    let wait = [
        "wait",
        "--for=condition=Established",
        "--timeout=20s",
        "crds",
        "--all",
    ];
    kubectl(cp, &wait).await.unwrap();
}

pub(crate) async fn apply(cp: &ControlPlane, file: &Path) {
    kubectl(
        cp,
        &["apply", "--server-side", "-f", file.to_str().unwrap()],
    )
    .await
    .unwrap();
}

/// The documents of a YAML file.
pub(crate) fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    let documents =
        serde_norway::Deserializer::from_str(&text).map(|one| Value::deserialize(one).unwrap());
    documents.filter(|one| !one.is_null()).collect()
}

fn ips(ingress: &Value) -> Vec<String> {
    let all = ingress.as_array().into_iter().flatten();
    all.map(|one| one["ip"].as_str().unwrap().to_owned())
        .collect()
}

/// Every list of ingresses in the body of a write, whatever kind of patch it is.
fn ingresses(body: &Value, found: &mut Vec<Vec<String>>) {
    if let Some(ingress) = body.get("ingress") {
        found.push(ips(ingress));
    }
    let is_status = body
        .get("path")
        .and_then(Value::as_str)
        .is_some_and(|path| path.ends_with("/ingress"));
    if let (true, Some(value)) = (is_status, body.get("value")) {
        found.push(ips(value));
    }
    match body {
        Value::Array(all) => all.iter().for_each(|one| ingresses(one, found)),
        Value::Object(all) => all.values().for_each(|one| ingresses(one, found)),
        _ => {}
    }
}
