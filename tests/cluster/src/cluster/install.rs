//! A control plane with the shipped manifests, and a cluster cleared for the next test.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use mooring_common::l2_network::L2Network;
use mooring_common::names::{LEADER_LEASE, LEADER_LEASE_NAMESPACE, NAMESPACE, annotations};
use serde_json::json;

use super::{ADDITIONAL_LABEL, CENTRAL, DAEMON, MARKER_LIMIT};
use crate::control_plane::{ControlPlane, Options};
use crate::shipped::Shipped;
use mooring_test_support::wait::eventually;

/// A control plane with the shipped manifests in force.
pub(super) struct Installed {
    control_plane: Holder,
    pub(super) shipped: Shipped,
    /// With a token of central's.
    pub(super) kubeconfig: PathBuf,
}

enum Holder {
    Own(Box<ControlPlane>),
    Shared(&'static ControlPlane),
}

impl Installed {
    pub(super) fn control_plane(&self) -> &ControlPlane {
        match &self.control_plane {
            Holder::Own(control_plane) => control_plane,
            Holder::Shared(control_plane) => control_plane,
        }
    }

    pub(super) async fn plain() -> Self {
        let started = ControlPlane::start_blocking(Options::default());
        let installed = Self::on(started.expect("the control plane starts")).await;
        installed.expect("the shipped manifests")
    }

    pub(super) async fn with_controllers() -> Self {
        let options = Options::default().with_controller_manager();
        let started = ControlPlane::start_blocking(options);
        let control_plane = started.expect("the control plane starts");
        let manifests = with_additional_label("mooring.yaml", control_plane.folder());
        let manifests = manifests.expect("the shipped manifests");
        let shipped = Shipped::install_from(&control_plane, &manifests).await;
        let shipped = shipped.expect("the shipped manifests");
        for account in [CENTRAL, DAEMON] {
            has_its_rights(&control_plane, account).await;
        }
        let installed = Self::of(Holder::Own(Box::new(control_plane)), shipped).await;
        installed.expect("a token for central")
    }

    pub(super) async fn shared() -> Self {
        let control_plane = ControlPlane::shared();
        let shipped = Shipped::install(control_plane).await;
        let shipped = shipped.expect("the shipped manifests");
        let installed = Self::of(Holder::Shared(control_plane), shipped).await;
        installed.expect("a token for central")
    }

    pub(super) async fn on(control_plane: ControlPlane) -> Result<Self> {
        let shipped = Shipped::install(&control_plane).await?;
        Self::of(Holder::Own(Box::new(control_plane)), shipped).await
    }

    async fn of(control_plane: Holder, shipped: Shipped) -> Result<Self> {
        let mut installed = Self {
            control_plane,
            shipped,
            kubeconfig: PathBuf::new(),
        };
        let kubeconfig = shipped
            .central_kubeconfig(installed.control_plane())
            .await?;
        // Whoever asks for another token of central's gets a file of that name.
        installed.kubeconfig = kubeconfig.with_file_name("central.kubeconfig");
        std::fs::rename(kubeconfig, &installed.kubeconfig)?;
        Ok(installed)
    }
}

/// This file of the shipped manifests, with the chart's `nodeDaemon.additionalLabelKeys` set to
/// [`ADDITIONAL_LABEL`].
pub(super) fn with_additional_label(name: &str, folder: &Path) -> Result<PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/manifests");
    let shipped = shipped.join(name);
    let text = std::fs::read_to_string(shipped)?;
    let none = "- name: additionalLabels\n      expression: \"[]\"";
    ensure!(text.contains(none), "the manifests have changed their form");
    let one = format!("- name: additionalLabels\n      expression: \"['{ADDITIONAL_LABEL}']\"");
    let path = folder.join(name);
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

/// Takes away what the test before has left, however that ended.
pub(super) async fn clear(control_plane: &ControlPlane) -> Result<()> {
    if control_plane.is_up() {
        control_plane.thaw_api_server()?;
    } else {
        control_plane.start_api_server().await?;
    }
    let admin = control_plane.admin();
    let gone = DeleteParams::default();
    clear_services(&admin).await?;
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let params = PatchParams::default();
    let nodes = Api::<Node>::all(admin.clone());
    for node in nodes.list(&ListParams::default()).await? {
        let name = node.metadata.name.unwrap_or_default();
        missing_is_fine(nodes.delete(&name, &gone).await)?;
        if node.metadata.finalizers.is_some() {
            missing_is_fine(nodes.patch(&name, &params, &release).await)?;
        }
    }
    let networks = Api::<L2Network>::all(admin.clone());
    for network in networks.list(&ListParams::default()).await? {
        let name = network.metadata.name.unwrap_or_default();
        missing_is_fine(networks.delete(&name, &gone).await)?;
        if network.metadata.finalizers.is_some() {
            missing_is_fine(networks.patch(&name, &params, &release).await)?;
        }
    }
    let leases = Api::<Lease>::namespaced(admin.clone(), LEADER_LEASE_NAMESPACE);
    missing_is_fine(leases.delete(LEADER_LEASE, &gone).await)?;
    let events = Api::<Event>::namespaced(admin, "default");
    events
        .delete_collection(&gone, &ListParams::default())
        .await?;
    Ok(())
}

/// All but the API server's own, on which a central that was killed may have left that it is buying.
async fn clear_services(admin: &Client) -> Result<()> {
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let (params, gone) = (PatchParams::default(), DeleteParams::default());
    let services = Api::<Service>::all(admin.clone());
    for service in services.list(&ListParams::default()).await? {
        let metadata = service.metadata;
        let name = metadata.name.unwrap_or_default();
        let namespace = metadata.namespace.unwrap_or_default();
        let services = Api::<Service>::namespaced(admin.clone(), &namespace);
        if name == "kubernetes" && namespace == "default" {
            let claim = json!({ annotations::IP_BLOCK_CLAIM: null });
            let patch = Patch::Merge(json!({ "metadata": { "annotations": claim } }));
            services.patch(&name, &params, &patch).await?;
            continue;
        }
        missing_is_fine(services.delete(&name, &gone).await)?;
        missing_is_fine(services.patch(&name, &params, &release).await)?;
    }
    Ok(())
}

fn missing_is_fine<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => Ok(other.map(drop)?),
    }
}
