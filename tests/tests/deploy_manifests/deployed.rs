//! The manifests, applied once for all tests of this program, and the identities they name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use mooring_common::names::NAMESPACE;
use mooring_tests::control_plane::ControlPlane;
use mooring_tests::objects::{NodeBuilder, PodBuilder, apply_manifests, unique};
use mooring_tests::wait::eventually;
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
            apply_manifests(control_plane, &deploy("manifests/mooring.yaml"))
                .await
                .unwrap();
            policies_stand(control_plane).await;
        })
        .await;
    control_plane
}

/// Waits for all three policies: the API server takes up new ones within a second or so.
async fn policies_stand(control_plane: &ControlPlane) {
    let admin = control_plane.admin();
    let as_account = async |account| {
        let client = control_plane.client_for(NAMESPACE, account, None).await;
        client.unwrap()
    };
    let (daemon, central) = (
        as_account("mooring-node").await,
        as_account("mooring-central").await,
    );
    let probe = unique("probe");
    NodeBuilder::new(&probe).create(&admin).await.unwrap();
    let label = Patch::Merge(json!({ "metadata": { "labels": { "probe": "1" } } }));
    let dry_patch = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let dry_post = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut lease = Lease::default();
    lease.metadata.name = Some(probe.clone());
    let nodes = Api::<Node>::all(daemon.clone());
    let leases = Api::<Lease>::namespaced(daemon, NAMESPACE);
    let services = Api::<Service>::namespaced(central, "default");
    eventually("the policies stand", LIMIT, async || {
        is_denied(nodes.patch(&probe, &dry_patch, &label).await)
            && is_denied(leases.create(&dry_post, &lease).await)
            && is_denied(
                services
                    .patch_status("kubernetes", &dry_patch, &label)
                    .await,
            )
    })
    .await;
    Api::<Node>::all(admin)
        .delete(&probe, &DeleteParams::default())
        .await
        .unwrap();
}

/// Whether an admission policy (and not RBAC) refused it.
fn is_denied<T>(answer: kube::Result<T>) -> bool {
    answer.is_err_and(|error| refusal(error).contains("ValidatingAdmissionPolicy"))
}

/// A Node with everything on it that a daemon might be tempted by, and a client with the token of
/// the daemon's Pod there.
pub async fn node_with_daemon(control_plane: &ControlPlane) -> (String, Client) {
    let admin = control_plane.admin();
    let name = unique("node");
    NodeBuilder::new(&name)
        .tainted()
        .taint("dedicated", "db", "NoSchedule")
        .label("team", "red")
        .annotation("owner", "alice")
        .address("Hostname", &name)
        .ready()
        .create(&admin)
        .await
        .unwrap();
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

/// The message of a refusal. Any other failure is no proof of anything.
pub fn refusal(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 || status.code == 422 => status.message,
        other => panic!("neither allowed nor refused: {other:?}"),
    }
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
