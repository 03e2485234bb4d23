//! The addresses that Services of L2Networks would get, by central's own code.

use std::sync::Arc;

use anyhow::{bail, ensure};
use kube::Client;

use super::flags::{Chosen, Output};
use super::print::text_of;
use super::snapshot::Snapshot;
use crate::cloud_provider::load_balancers::{Notice, PlanSummary};
use crate::controllers::service::Server;
use crate::run::plan_command::{self, Planned, as_text, as_values, with_manifest};
use crate::views::service_view::ServiceView;

/// The reason of the note that says where a cloud's part is planned.
const PLANNED_BY_CENTRAL: &str = "PlannedByCentral";

/// The plan of all Services that L2Networks serve; `None`: not all that it takes could be read.
pub(super) fn l2_plans(snapshot: &Snapshot, services: &[Arc<ServiceView>]) -> Option<Vec<Planned>> {
    let objects = &snapshot.objects;
    let is_whole = objects.services.is_some() && objects.networks.is_some();
    if !is_whole || snapshot.only.is_some() {
        return None;
    }
    let namespaces = snapshot.namespaces();
    let networks = snapshot.networks().iter().cloned();
    let nodes = snapshot.nodes.iter().collect();
    let routing = &snapshot.setup.routing;
    Some(plan_command::l2_plans(
        services,
        nodes,
        networks,
        namespaces.as_ref(),
        routing,
    ))
}

/// What is printed, and how many Services are refused.
///
/// # Errors
/// If something that it takes cannot be read, or a Service is not there.
pub(super) async fn plan(
    client: &Client,
    snapshot: &Snapshot,
    chosen: &Chosen,
    output: Output,
) -> anyhow::Result<(String, usize)> {
    let mut services = snapshot.services.clone();
    let mut named = chosen.named.clone();
    if let Some(path) = &chosen.filename {
        named = with_manifest(client, path, &mut services).await?;
    }
    let Some(plans) = l2_plans(snapshot, &services) else {
        let missing: Vec<String> = snapshot.missing.iter().map(ToString::to_string).collect();
        ensure!(
            missing.is_empty(),
            "a plan takes all Services and L2Networks of the cluster; missing rights: {}",
            missing.join("; ")
        );
        bail!("a plan takes all Services of the cluster; leave --namespace out");
    };
    let mut all = Vec::new();
    for service in &services {
        if !chosen.all && !named.contains(&service.key) {
            continue;
        }
        let planned = plans
            .iter()
            .find(|planned| planned.service.key == service.key);
        let server = snapshot.setup.routing.server(service);
        match (planned, server) {
            (Some(planned), _) => all.push(planned.clone()),
            (None, Some(Server::Cloud(cloud))) if service.is_load_balancer => {
                all.push(by_central(snapshot, service, cloud));
            }
            (None, _) if chosen.all => {}
            (None, _) => bail!(
                "{}: no address is given to it here: it is not of type LoadBalancer, or of a \
                 loadBalancerClass that is served elsewhere",
                service.key
            ),
        }
    }
    for key in &named {
        let is_there = services.iter().any(|service| service.key == *key);
        ensure!(is_there, "there is no Service {key}");
    }
    let refused = all.iter().filter(|planned| planned.plan.is_err()).count();
    let text = text_of(&as_values(&all), output, || as_text(&all))?;
    Ok((text, refused))
}

/// A cloud is asked with central's credentials.
fn by_central(snapshot: &Snapshot, service: &Arc<ServiceView>, cloud: &str) -> Planned {
    let deployment = snapshot.setup.deployment.as_deref();
    let arguments = snapshot.setup.arguments.iter();
    let arguments: Vec<&str> = arguments.map(String::as_str).collect();
    let note = format!(
        "its load balancer is planned with the credentials of {cloud}, which central has: kubectl --namespace {} \
         exec deploy/{} -- mooring-central plan {} {}",
        snapshot.system,
        deployment.unwrap_or("mooring-central"),
        service.key,
        arguments.join(" ")
    );
    let notice = Notice {
        reason: PLANNED_BY_CENTRAL,
        note: note.trim_end().to_owned(),
        by_provider: false,
    };
    Planned {
        service: service.clone(),
        plan: Ok(PlanSummary {
            steps: Vec::new(),
            notices: vec![notice],
            refused: None,
        }),
    }
}
