//! Load balancers of cloudscale.ch, for the [engine](crate::engine).
//!
//! A Service has one load balancer; each of its ports a pool with members, one health monitor and
//! one listener.

mod assembly;
mod change;
mod desired;
mod endpoints;
mod floating_ips;
mod listed_parts;
mod listings;
mod model;
mod observed;
mod options;
mod plan;
mod requests;
mod step;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::engine::Plan;
use mooring_common::names::cloudscale_annotations as keys;
use tokio::time::Instant;

use super::api::Reference;
use super::api::balancers::{self, Balancer};
use super::{Cloudscale, NAME};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    InvalidField, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Notice, ReconcileError,
};
use crate::engine::Engine;
use crate::engine::inventory::Inventory;
use crate::engine::members::Members;
use crate::engine::provider::{AccountWords, Effect, Holder, Provider, Step as _, Vocabulary};
use crate::engine::selector::Selector;
use crate::views::service_view::{Ingress, ServiceView};
use desired::Desired;
use endpoints::EndpointStates;
use listings::PartListings;
use observed::Observed;
use options::Options;
use step::Step;

/// The load balancers of a project; `inventory`: its machines.
pub(super) fn of_project(
    cloud: Arc<Cloudscale>,
    inventory: Arc<Inventory>,
) -> Arc<dyn LoadBalancers> {
    let parts = PartListings::new(cloud.clone());
    Arc::new(Engine::new(Balancers { cloud, parts }, inventory))
}

/// What the engine asks of cloudscale.ch.
struct Balancers {
    cloud: Arc<Cloudscale>,
    parts: PartListings,
}

#[async_trait]
impl Provider for Balancers {
    type Options = Options;
    type Desired = Desired;
    type Observed = Observed;

    const WORDS: &'static Vocabulary = &Vocabulary {
        provider: NAME,
        component: "cloudscale-cloud-controller-manager",
        cloud: "cloudscale.ch",
        id_key: keys::UUID,
        name_key: keys::NAME,
        name_prefix: "k8s-service-",
        selector_key: keys::NODE_SELECTOR,
        account: AccountWords {
            resource: "a load balancer",
            account: "project",
            credentials: "CLOUDSCALE_ACCESS_TOKEN",
        },
        exclusive: "floating IP",
        exclusive_key: keys::FLOATING_IPS,
    };
    /// Load balancers, pools, listeners, health monitors, floating IPs.
    const LISTINGS: usize = 5;
    const FOLLOWS_ENDPOINTS: bool = true;

    fn read(service: &ServiceView) -> Result<Options, Vec<InvalidField>> {
        Options::read(service)
    }

    fn selector(options: &Options) -> &Selector {
        &options.node_selector
    }

    fn desired(request: &LoadBalancerRequest, options: &Options, members: &Members) -> Desired {
        desired::desired(request, options, members)
    }

    fn exclusives_of(desired: &Desired) -> &BTreeSet<String> {
        &desired.floating_ips
    }

    fn asked_exclusives(service: &ServiceView) -> BTreeSet<String> {
        floating_ips::asked_by(service)
    }

    async fn settle(
        &self,
        request: &LoadBalancerRequest,
        members: &Members,
        desired: &mut Desired,
        observed: Option<&Observed>,
    ) -> Result<(bool, Vec<Notice>), CloudError> {
        let elsewhere = zones::keep(desired, members, observed);
        let notices = elsewhere.into_iter().collect();
        let endpoint_states = EndpointStates::of(request, members);
        let (Some(endpoint_states), Some(observed)) = (endpoint_states, observed) else {
            return Ok((false, notices));
        };
        let pools = endpoint_states.to_ask(desired, observed);
        let serving = self.parts.serving(&pools).await?;
        Ok((endpoint_states.settle(desired, observed, &serving), notices))
    }

    fn notices(
        request: &LoadBalancerRequest,
        options: &Options,
        desired: &Desired,
        members: &Members,
        observed: Option<&Observed>,
    ) -> Vec<Notice> {
        let mut notices = options.notices.clone();
        let found = desired::notices(request, options, desired, members, observed);
        notices.extend(found);
        notices
    }

    fn plan(desired: &Desired, observed: Option<&Observed>) -> Result<Plan<Step>, ReconcileError> {
        plan::plan(desired, observed)
    }

    fn status(observed: &Observed, options: &Options) -> LoadBalancerStatus {
        provided(observed, options)
    }

    async fn list(&self) -> Result<Vec<Balancer>, CloudError> {
        self.cloud.client.fetch(&balancers::all()).await
    }

    async fn get(&self, id: &str) -> Result<Option<Balancer>, CloudError> {
        if uuid::Uuid::try_parse(id).is_err() {
            return Ok(None);
        }
        match self.cloud.client.fetch(&balancers::one(id)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(Some(answer?)),
        }
    }

    async fn observe(
        &self,
        listed: &Balancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        self.parts.observe(listed, since).await
    }

    async fn send(
        &self,
        step: &Step,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        let Some(request) = requests::request(step, balancer, planned) else {
            let what = format!("{step}: the pool that it is about was not made");
            return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
        };
        let client = &self.cloud.client;
        let makes = matches!(
            step.effect(planned),
            Effect::CreateBalancer | Effect::CreateMember(..) | Effect::Create
        );
        if makes {
            let made: Reference = client.fetch(&request).await?;
            return Ok(made.uuid);
        }
        client.call(&request).await?;
        Ok(String::new())
    }

    async fn exclusives(
        &self,
        since: Instant,
    ) -> Result<BTreeMap<String, Option<Holder>>, CloudError> {
        let listing = self.parts.floating_ips(since).await?;
        let all = listing.all.iter();
        Ok(all
            .map(|ip| (floating_ips::canonical_text(ip), floating_ips::holder(ip)))
            .collect())
    }

    async fn exclusive(&self, network: &str) -> Result<Option<Holder>, CloudError> {
        let request = super::api::floating_ips::one(network);
        let ip = self.cloud.client.fetch(&request).await?;
        Ok(floating_ips::holder(&ip))
    }
}

/// What the Service has.
fn provided(observed: &Observed, options: &Options) -> LoadBalancerStatus {
    let balancer = &observed.balancer;
    let ingress = match &options.force_hostname {
        Some(hostname) => vec![Ingress {
            hostname: Some(hostname.clone()),
            ..Ingress::default()
        }],
        None => balancer
            .vips
            .iter()
            .map(|vip| Ingress {
                ip: Some(vip.address.clone()),
                hostname: None,
                ip_mode: Some(options.ip_mode.to_owned()),
            })
            .collect(),
    };
    let mut annotations = vec![
        (keys::UUID, balancer.uuid.clone()),
        (keys::CONFIG_VERSION, keys::CONFIG_VERSION_VALUE.to_owned()),
    ];
    annotations.extend(balancer.zone.clone().map(|zone| (keys::ZONE, zone)));
    LoadBalancerStatus {
        ingress,
        annotations,
        load_balancer_ip: None,
        again: None,
        notices: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
