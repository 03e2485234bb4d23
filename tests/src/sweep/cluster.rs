//! The API server that all cases share, with three Nodes that all of them use.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Service;
use kube::api::Api;

use crate::cloud_sim::cloudscale::{Interface, Machine};
use crate::control_plane::{ControlPlane, Options};
use crate::objects::NodeBuilder;
use crate::shipped::Shipped;

/// The label by which cases choose their Nodes, and its value on those that all have.
pub(super) const CASE_LABEL: &str = "sweep.example.com/case";
pub(super) const SHARED: &str = "shared";

/// Their names with the UUIDs of their servers, which are the same in every case's cloud.
pub(super) const NODES: [(&str, &str); 3] = [
    ("n1", "00000000-0000-4000-8000-000000000001"),
    ("n2", "00000000-0000-4000-8000-000000000002"),
    ("n3", "00000000-0000-4000-8000-000000000003"),
];

/// What all cases share.
pub(super) struct Cluster {
    pub(super) cp: ControlPlane,
    pub(super) shipped: Shipped,
    pub(super) kubeconfig: PathBuf,
    /// What load balancers are marked with.
    pub(super) uid: String,
}

impl Cluster {
    pub(super) async fn start() -> Result<Self> {
        let cp = ControlPlane::start(Options::default()).await?;
        let shipped = Shipped::install(&cp).await?;
        let kubeconfig = shipped.central_kubeconfig(&cp).await?;
        let admin = cp.admin();
        for (name, uuid) in NODES {
            let node = NodeBuilder::new(name).label(CASE_LABEL, SHARED).ready();
            let node = node.provider_id(&format!("cloudscale://{uuid}"));
            node.create(&admin).await?;
        }
        let services = Api::<Service>::namespaced(admin, "default");
        let uid = services.get("kubernetes").await?.metadata.uid;
        Ok(Self {
            cp,
            shipped,
            kubeconfig,
            uid: uid.context("every object has a UID")?,
        })
    }
}

/// The server of the n-th Node, counted from 1.
pub(super) fn machine(n: usize) -> Machine {
    let public = Interface::public().address(&format!("192.0.2.{n}"));
    let private = Interface::private().address(&format!("10.0.0.{n}"));
    Machine::named(&format!("n{n}"))
        .interface(public)
        .interface(private)
}
