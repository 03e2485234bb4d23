//! The shipped workloads: what their containers are started with, and the Pods they would have.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::Client;
use kube::api::{Api, DeleteParams};
use mooring_common::names::NAMESPACE;

use mooring_test_cluster::control_plane::ControlPlane;
use mooring_test_cluster::objects::PodBuilder;

/// The arguments of the Deployment's container.
pub(super) async fn central_arguments(admin: &Client) -> Result<Vec<String>> {
    let deployments = Api::<Deployment>::namespaced(admin.clone(), NAMESPACE);
    let found = deployments.get("mooring-central").await?;
    arguments(found.spec.map(|spec| spec.template)).context("the Deployment mooring-central")
}

/// The arguments of the DaemonSet's container.
pub(super) async fn daemon_arguments(admin: &Client) -> Result<Vec<String>> {
    let daemon_sets = Api::<DaemonSet>::namespaced(admin.clone(), NAMESPACE);
    let found = daemon_sets.get("mooring-node").await?;
    arguments(found.spec.map(|spec| spec.template)).context("the DaemonSet mooring-node")
}

fn arguments(template: Option<PodTemplateSpec>) -> Result<Vec<String>> {
    let containers = template
        .and_then(|template| template.spec)
        .map(|spec| spec.containers)
        .unwrap_or_default();
    let container = containers
        .into_iter()
        .next()
        .context("it has no container")?;
    Ok(container.args.unwrap_or_default())
}

/// The kubeconfig with the token of the DaemonSet's Pod on a Node. The Pod is made anew, as after
/// a restart of the daemon.
pub(super) async fn daemon_kubeconfig(
    control_plane: &ControlPlane,
    node: &str,
    address: Ipv4Addr,
) -> Result<PathBuf> {
    let admin = control_plane.admin();
    let name = format!("mooring-node-{node}");
    let pods = Api::<k8s_openapi::api::core::v1::Pod>::namespaced(admin.clone(), NAMESPACE);
    let at_once = DeleteParams::default().grace_period(0);
    match pods.delete(&name, &at_once).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => drop(other?),
    }
    let address = address.to_string();
    PodBuilder::new(NAMESPACE, &name)
        .node(node)
        .service_account("mooring-node")
        .label("app.kubernetes.io/name", "mooring-node")
        .running(&[&address])
        .host_network(&address)
        .create(&admin)
        .await?;
    let pod = Some((NAMESPACE, name.as_str()));
    control_plane
        .kubeconfig_for_service_account(NAMESPACE, "mooring-node", pod)
        .await
}
