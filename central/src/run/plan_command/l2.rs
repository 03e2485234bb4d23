//! The part of L2Networks: which address each Service would get. The cloud is not asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client, Error, ResourceExt as _};
use mooring_common::k8s::Slim as _;
use mooring_common::l2_network::L2Network;
use mooring_common::node_view::NodeView;

use super::Planned;
use super::services::Snapshot;
use crate::controllers::address_pool::{NetworkView, preview};
use crate::controllers::service::{L2Snapshot, Routing, preview_l2};
use crate::views::service_view::ServiceView;

/// The labels of namespaces by name; `None`: they cannot be listed.
type Namespaces = Option<BTreeMap<String, BTreeMap<String, String>>>;

/// What each Service that L2Networks serve would get. Pure.
pub(in crate::run) fn l2_plans(
    services: &[Arc<ServiceView>],
    nodes: Vec<&NodeView>,
    networks: impl IntoIterator<Item = L2Network>,
    namespaces: Option<&BTreeMap<String, BTreeMap<String, String>>>,
    routing: &Routing,
) -> Vec<Planned> {
    let networks = networks.into_iter().map(NetworkView::slim);
    let world = L2Snapshot {
        services,
        nodes,
        namespaces,
        allocations: preview(networks),
        routing,
    };
    let plans = preview_l2(&world).into_iter();
    plans
        .map(|(service, plan)| Planned { service, plan })
        .collect()
}

/// The same, with what has to be read for it. `chosen` take the place of the cluster's own Services.
///
/// # Errors
/// If L2Networks cannot be listed.
pub(super) async fn plans(
    client: &Client,
    snapshot: &Snapshot,
    chosen: &[Arc<ServiceView>],
    routing: &Routing,
) -> anyhow::Result<Vec<Planned>> {
    let everything = ListParams::default();
    let networks = Api::<L2Network>::all(client.clone());
    let networks = match networks.list(&everything).await {
        // Without the CRD there is none.
        Err(Error::Api(status)) if status.code == 404 => Vec::new(),
        listed => {
            listed
                .context("the cluster's L2Networks cannot be listed")?
                .items
        }
    };
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespaces: Namespaces = namespaces.list(&everything).await.ok().map(|all| {
        let labels = all.items.into_iter();
        labels
            .map(|namespace| (namespace.name_any(), namespace.labels().clone()))
            .collect()
    });
    let mut services = snapshot.services.clone();
    services.retain(|service| chosen.iter().all(|other| other.key != service.key));
    services.extend(chosen.iter().cloned());
    let nodes = snapshot.nodes.iter().map(AsRef::as_ref).collect();
    Ok(l2_plans(
        &services,
        nodes,
        networks,
        namespaces.as_ref(),
        routing,
    ))
}
