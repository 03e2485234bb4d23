//! The addresses that Services of L2Networks would get, by central's own code.

use std::sync::Arc;

use anyhow::{bail, ensure};
use kube::Client;
use mooring_common::k8s::ObjectKey;

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
        let namespace = chosen.namespace.as_deref();
        named = with_manifest(client, path, namespace, &mut services).await?;
    }
    let all = planned(snapshot, &services, chosen, &named)?;
    let refused = all.iter().filter(|planned| planned.plan.is_err()).count();
    Ok((printed(&all, output)?, refused))
}

fn printed(all: &[Planned], output: Output) -> anyhow::Result<String> {
    text_of(&as_values(all), output, || as_text(all))
}

/// The plans of those Services that are named, or of all in the namespace that is chosen.
fn planned(
    snapshot: &Snapshot,
    services: &[Arc<ServiceView>],
    chosen: &Chosen,
    named: &[ObjectKey],
) -> anyhow::Result<Vec<Planned>> {
    let Some(plans) = l2_plans(snapshot, services) else {
        let missing: Vec<String> = snapshot.missing.iter().map(ToString::to_string).collect();
        bail!(
            "a plan takes all Services and L2Networks of the cluster; missing rights: {}",
            missing.join("; ")
        );
    };
    let is_chosen = |key: &ObjectKey| match (chosen.all, &chosen.namespace) {
        (true, Some(namespace)) => key.namespace == *namespace,
        (true, None) => true,
        (false, _) => named.contains(key),
    };
    let mut all = Vec::new();
    for service in services.iter().filter(|service| is_chosen(&service.key)) {
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
    for key in named {
        let is_there = services.iter().any(|service| service.key == *key);
        ensure!(is_there, "there is no Service {key}");
    }
    Ok(all)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run::inspect::tests::cluster::Cluster;

    fn all_in(namespace: Option<&str>) -> Chosen {
        Chosen {
            all: true,
            namespace: namespace.map(ToOwned::to_owned),
            ..Chosen::default()
        }
    }

    fn plans(snapshot: &Snapshot, chosen: &Chosen) -> anyhow::Result<Vec<Planned>> {
        planned(snapshot, &snapshot.services, chosen, &chosen.named)
    }

    #[test]
    fn prints_the_plan_in_each_form() {
        let mut cluster = Cluster::unserved();
        let all = plans(&cluster.clone().snapshot(), &all_in(None)).unwrap();
        let text = printed(&all, Output::Text).unwrap();
        assert_eq!(
            text,
            "shop/web: 2 steps, impact none\n  STEP                       IMPACT\n  \
             put the finalizer on       none\n  give it 192.0.2.10 of lan  none\n"
        );
        assert_eq!(printed(&all, Output::Wide).unwrap(), text);
        let value = json!([{
            "service": "shop/web", "impact": "none", "notices": [],
            "steps": [
                {"step": "put the finalizer on", "impact": "none"},
                {"step": "give it 192.0.2.10 of lan", "impact": "none"},
            ],
        }]);
        let shown = printed(&all, Output::Json).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        let shown = printed(&all, Output::Yaml).unwrap();
        assert_eq!(serde_norway::from_str::<Value>(&shown).unwrap(), value);

        cluster.service["metadata"]["annotations"] = json!({"mooring.dev/l2-network": "wan"});
        let all = plans(&cluster.snapshot(), &all_in(None)).unwrap();
        let text = printed(&all, Output::Text).unwrap();
        assert!(text.starts_with("shop/web: refused\n  "), "{text}");
        assert!(text.contains("there is no L2Network \"wan\""), "{text}");
        let shown = printed(&all, Output::Json).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let keys = shown[0].as_object().map(serde_json::Map::len);
        assert_eq!(
            (shown[0]["service"].as_str(), keys),
            (Some("shop/web"), Some(2))
        );
    }

    #[test]
    fn a_namespace_limits_what_all_are() {
        let snapshot = Cluster::unserved().snapshot();
        for (namespace, count) in [(None, 1), (Some("shop"), 1), (Some("other"), 0)] {
            let all = plans(&snapshot, &all_in(namespace)).unwrap();
            assert_eq!(all.len(), count, "{namespace:?}");
        }
        let named = |name: &str| Chosen {
            named: vec![ObjectKey::new("shop", name)],
            ..Chosen::default()
        };
        assert_eq!(plans(&snapshot, &named("web")).unwrap().len(), 1);
        let error = plans(&snapshot, &named("wiki")).unwrap_err();
        assert_eq!(error.to_string(), "there is no Service shop/wiki");
    }

    #[test]
    fn missing_rights_are_named() {
        let mut snapshot = Cluster::unserved().snapshot();
        snapshot.objects.networks = None;
        let error = plans(&snapshot, &all_in(None)).unwrap_err();
        assert!(error.to_string().contains("missing rights"), "{error}");
    }
}
