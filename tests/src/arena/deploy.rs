//! A control plane with the shipped manifests, and a cluster cleared for the next test.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use mooring_common::l2_network::L2Network;
use mooring_common::names::NAMESPACE;
use serde_json::json;

use super::{ADDITIONAL_LABEL, CENTRAL, DAEMON, MARKER_LIMIT};
use crate::control_plane::{ControlPlane, Options};
use crate::objects::apply_manifests;
use crate::shipped::policies_stand;
use crate::wait::eventually;

/// A control plane with the shipped manifests in force.
pub(super) struct Deployed {
    pub(super) control_plane: ControlPlane,
    /// With a token of central's.
    pub(super) kubeconfig: PathBuf,
}

impl Deployed {
    pub(super) async fn start() -> Self {
        let options = Options::default().with_controller_manager();
        let started = ControlPlane::start_blocking(options);
        let control_plane = started.expect("the control plane starts");
        let manifests = manifests(control_plane.folder()).expect("the shipped manifests");
        let applied = apply_manifests(&control_plane, &manifests).await;
        applied.expect("the shipped manifests can be applied");
        for account in [CENTRAL, DAEMON] {
            has_its_rights(&control_plane, account).await;
        }
        // A daemon that is started before finds no fence, and waits.
        let stand = policies_stand(&control_plane).await;
        stand.expect("the admission policies are in force");
        let kubeconfig = control_plane.kubeconfig_for_service_account(NAMESPACE, CENTRAL, None);
        let kubeconfig = kubeconfig.await.expect("a token for central");
        Self {
            control_plane,
            kubeconfig,
        }
    }
}

/// The shipped manifests, with the chart's `nodeDaemon.additionalLabelKeys` set to
/// [`ADDITIONAL_LABEL`].
fn manifests(folder: &Path) -> Result<PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/manifests/mooring.yaml");
    let text = std::fs::read_to_string(shipped)?;
    let none = "- name: additionalLabels\n      expression: \"[]\"";
    ensure!(text.contains(none), "the manifests have changed their form");
    let one = format!("- name: additionalLabels\n      expression: \"['{ADDITIONAL_LABEL}']\"");
    let path = folder.join("mooring.yaml");
    std::fs::write(&path, text.replace(none, &one))?;
    Ok(path)
}

/// The API server takes up new rights and new resources within a second or so.
async fn has_its_rights(control_plane: &ControlPlane, account: &str) {
    let client = control_plane.client_for(NAMESPACE, account, None).await;
    let client = client.expect("a token");
    let what = format!("{account} has its rights");
    eventually(&what, MARKER_LIMIT, async || -> Result<()> {
        let one = ListParams::default().limit(1);
        Api::<Node>::all(client.clone()).list(&one).await?;
        let networks = Api::<L2Network>::all(client.clone());
        networks.list(&one).await?;
        Ok(())
    })
    .await;
}

/// Takes away what the test before has left.
pub(super) async fn clear(admin: &Client) -> Result<()> {
    let nodes = Api::<Node>::all(admin.clone());
    for node in nodes.list(&ListParams::default()).await? {
        let name = node.metadata.name.unwrap_or_default();
        if node.metadata.finalizers.is_some() {
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            nodes.patch(&name, &PatchParams::default(), &patch).await?;
        }
        match nodes.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => drop(other?),
        }
    }
    let events = Api::<Event>::namespaced(admin.clone(), "default");
    events
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}
