//! The manifests, applied once for all tests of this program, and the identities they name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use mooring_common::l2_network::{L2Network, L2NetworkSpec, Subnet};
use mooring_common::names::NAMESPACE;
use mooring_test_cluster::attacks::refused;
use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::{NodeBuilder, PodBuilder, unique};
use mooring_test_cluster::shipped::Shipped;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

pub const LIMIT: Duration = Duration::from_secs(30);

/// A file or folder of `deploy/`.
pub fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(path)
}

/// The control plane with the manifests applied and the policies in force.
pub async fn deployed() -> &'static ControlPlane {
    static APPLIED: OnceCell<()> = OnceCell::const_new();
    let control_plane = ControlPlane::shared();
    APPLIED
        .get_or_init(async || {
            Shipped::install(control_plane).await.unwrap();
        })
        .await;
    control_plane
}

/// Makes an L2Network, and gives its name.
pub async fn make_network(admin: &Client) -> String {
    let name = unique("lan");
    let spec = L2NetworkSpec {
        subnets: vec![Subnet {
            cidr: "192.0.2.0/24".to_owned(),
            gateway: None,
        }],
        ranges: vec!["192.0.2.16/28".to_owned()],
        ..L2NetworkSpec::default()
    };
    let networks = Api::<L2Network>::all(admin.clone());
    networks
        .create(&PostParams::default(), &L2Network::new(&name, spec))
        .await
        .unwrap();
    name
}

/// A Node with everything on it that a stolen token might be used for.
pub async fn tempting_node(admin: &Client) -> String {
    let name = unique("node");
    NodeBuilder::new(&name)
        .tainted()
        .taint("dedicated", "db", "NoSchedule")
        .label("team", "red")
        .annotation("owner", "alice")
        .address("Hostname", &name)
        .ready()
        .create(admin)
        .await
        .unwrap();
    name
}

/// A Node with everything on it that a daemon might be tempted by, and a client with the token of
/// the daemon's Pod there.
pub async fn node_with_daemon(control_plane: &ControlPlane) -> (String, Client) {
    let name = tempting_node(&control_plane.admin()).await;
    let client = daemon_on(control_plane, NAMESPACE, &name).await;
    (name, client)
}

/// A client with the token of a daemon's Pod on this Node.
pub async fn daemon_on(control_plane: &ControlPlane, namespace: &str, node: &str) -> Client {
    let pod = unique("mooring-node");
    PodBuilder::new(namespace, &pod)
        .node(node)
        .service_account("mooring-node")
        .create(&control_plane.admin())
        .await
        .unwrap();
    control_plane
        .client_for(namespace, "mooring-node", Some((namespace, &pod)))
        .await
        .unwrap()
}

/// What became of a write: nothing, or the reason why it was refused.
pub type Verdict = Result<(), String>;

/// A merge patch on a Node.
pub async fn patch_node(client: &Client, name: &str, patch: &Value) -> Verdict {
    Api::<Node>::all(client.clone())
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

/// A merge patch on a Node's status.
pub async fn patch_node_status(client: &Client, name: &str, patch: &Value) -> Verdict {
    Api::<Node>::all(client.clone())
        .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(drop)
        .map_err(refusal)
}

/// A merge patch that sets a label, or takes it off.
pub fn label(key: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "labels": { key: value } } })
}

/// A merge patch that sets an annotation, or takes it off.
pub fn annotation(key: &str, value: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}

/// The message of a refusal. Any other failure is no proof of anything.
pub fn refusal(error: kube::Error) -> String {
    refused::<(), _>(Err(error)).unwrap_or_else(|error| panic!("{error:?}"))
}

/// Asserts that a policy refused something, with these words.
#[track_caller]
pub fn assert_denied(what: &str, verdict: Verdict, words: &str) {
    match verdict {
        Ok(()) => panic!("allowed: {what}"),
        Err(message) => assert!(
            message.contains("ValidatingAdmissionPolicy") && message.contains(words),
            "{what} was refused, but not with {words:?}: {message}"
        ),
    }
}
