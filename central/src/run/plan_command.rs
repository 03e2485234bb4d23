//! `mooring-central plan`: what would be done for Services, and what their users would notice of it.
//!
//! Of Services with addresses of L2Networks it prints which they would get, or why none.
//! It reads the cluster and the cloud as the controller does, plans as the controller does, prints
//! the plan, and changes nothing: neither in the cloud nor in the cluster.

mod flags;
mod l2;
mod print;
mod services;

pub(super) use l2::l2_plans;
pub(super) use print::{table as as_text, values as as_values};
pub(super) use services::with_manifest;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use kube::Client;
use mooring_common::k8s::{ClientOptions, client};
use mooring_common::program::{self, Threads};
use prometheus_client::registry::Registry;

use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancers, PlanSummary, ReconcileError,
};
use crate::controllers::service::{ClusterView, Routing, Server, read_secrets};
use crate::flags::ProcessEnv;
use crate::providers;
use crate::views::service_view::ServiceView;
use flags::{PlanFlags, long_names, table};
use services::Snapshot;

const NO_LOAD_BALANCERS: &str =
    "this provider has no load balancers; --cloud-provider names another one";

/// What is planned for one Service.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) service: Arc<ServiceView>,
    pub(super) plan: Result<PlanSummary, String>,
}

impl Planned {
    /// Whether the Service cannot have all that it asks for.
    pub(super) fn is_refused(&self) -> bool {
        !matches!(&self.plan, Ok(shown) if shown.refused.is_none())
    }
}

/// The whole command, from what stands behind `plan` to the exit code: 0 if every Service could be
/// planned for, 1 if one is refused, or cluster or cloud cannot be asked, 2 for a command line that
/// cannot be read.
#[must_use]
pub fn main(env: ProcessEnv<'_>, arguments: Vec<String>) -> ExitCode {
    program::main(
        &table(),
        long_names(arguments),
        |values| PlanFlags::read(values, env),
        |flags| (flags.common.verbosity, flags.common.log_format),
        Threads::PerCore,
        run,
    )
}

async fn run(flags: PlanFlags) -> anyhow::Result<()> {
    let mut opened = providers::open(&flags.common, &mut Registry::default()).await?;
    if opened.load_balancers.is_empty() && opened.networks.is_empty() {
        bail!("{NO_LOAD_BALANCERS}");
    }
    let client = connect(&flags).await?;
    let clouds = opened.make_load_balancers(&client, "mooring-plan");
    let routing = Routing {
        own_classes: flags.common.services.own_classes.clone(),
        serves_classless: flags.common.services.serves_classless,
        l2_networks: !opened.networks.is_empty(),
        clouds: clouds.iter().map(|cloud| cloud.provider()).collect(),
    };
    let can_follow = clouds.iter().any(|cloud| cloud.follows_endpoints());
    let follows_endpoints = flags.common.services.follows_endpoints && can_follow;
    let snapshot = Snapshot::take(client.clone(), follows_endpoints).await?;
    let chosen = services::choose(&flags, client.clone(), &snapshot, &routing).await?;
    let of_l2 = |service: &Arc<ServiceView>| routing.server(service) == Some(Server::L2Networks);
    let l2_plans = match chosen.iter().any(of_l2) {
        true => l2::plans(&client, &snapshot, &chosen, &routing).await?,
        false => Vec::new(),
    };
    let take_over = &flags.common.services.take_over;
    let mut all = Vec::new();
    for service in chosen {
        let mut plans = l2_plans.iter();
        if let Some(planned) = plans.find(|planned| planned.service.key == service.key) {
            all.push(planned.clone());
            continue;
        }
        let Some(load_balancers) = serving(&clouds, &routing, &service) else {
            continue;
        };
        let provider = load_balancers.provider();
        let (nodes, services) = (snapshot.nodes.clone(), snapshot.services.clone());
        let view = ClusterView::new(nodes, services, &routing, provider);
        let endpoints = snapshot.endpoints(&service);
        let is_wanted = routing.wanted_of(&service) == Some(provider);
        let secrets = match is_wanted {
            true => load_balancers.secrets(&service),
            false => BTreeSet::new(),
        };
        let request = LoadBalancerRequest {
            secrets: read_secrets(&client, &service.key.namespace, secrets).await,
            health: flags.common.services.health,
            endpoints: endpoints.filter(|_| load_balancers.follows_endpoints()),
            settle_time: flags.common.services.settle_time,
            may_take_over: take_over.permits(&service.key.namespace),
            ..view.request(&service)
        };
        let plan = plan(load_balancers, &request, is_wanted).await;
        all.push(Planned { service, plan });
    }
    let text = if flags.as_json {
        print::json(&all)?
    } else {
        print::table(&all)
    };
    writeln!(std::io::stdout(), "{text}").context("cannot print")?;
    let refused = all.iter().filter(|planned| planned.is_refused()).count();
    if refused > 0 {
        bail!("{refused} of {} Services cannot be planned for", all.len());
    }
    Ok(())
}

/// Who gives a Service its load balancer, or has given it one.
fn serving<'a>(
    clouds: &'a [Arc<dyn LoadBalancers>],
    routing: &Routing,
    service: &ServiceView,
) -> Option<&'a dyn LoadBalancers> {
    let Some(Server::Cloud(provider)) = routing.server(service) else {
        return None;
    };
    let mut clouds = clouds.iter();
    let found = clouds.find(|cloud| cloud.provider() == provider);
    found.map(|cloud| &**cloud)
}

async fn connect(flags: &PlanFlags) -> anyhow::Result<Client> {
    let options = ClientOptions {
        kubeconfig: flags.common.kubeconfig.clone(),
        master: flags.common.master.clone(),
        user_agent: "mooring-plan".to_owned(),
        ..ClientOptions::default()
    };
    Ok(client(&options).await?)
}

async fn plan(
    load_balancers: &dyn LoadBalancers,
    request: &LoadBalancerRequest,
    is_wanted: bool,
) -> Result<PlanSummary, String> {
    let prepared = if is_wanted {
        load_balancers.prepare(request).await
    } else {
        load_balancers.prepare_removal(request).await
    };
    let told = |error: ReconcileError| error.to_string();
    prepared
        .map(|prepared| prepared.summary().clone())
        .map_err(told)
}
