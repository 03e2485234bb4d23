//! Load balancers of cloudscale.ch, for the [engine](crate::engine).
//!
//! A Service has one load balancer; each of its ports a pool with members, one health monitor and
//! one listener.

mod desired;
mod listings;
mod model;
mod observed;
mod options;
mod plan;
mod step;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::engine::Plan;
use mooring_common::names::cloudscale_annotations as keys;
use tokio::time::Instant;

use super::api::balancers::{BALANCERS, Balancer};
use super::{Cloudscale, NAME};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Notice, ReconcileError,
};
use crate::engine::Engine;
use crate::engine::annotations::Reader;
use crate::engine::canonical::address_of;
use crate::engine::inventory::Inventory;
use crate::engine::members::Members;
use crate::engine::provider::{AccountWords, Holder, IdBy, Provider, Vocabulary};
use crate::engine::selector::Selector;
use crate::engine::step::Step as _;
use crate::views::service_view::{Ingress, ServiceView};
use desired::Desired;
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
        id_by: IdBy::Central,
        name_key: Some(keys::NAME),
        name_prefix: Some("k8s-service-"),
        selector_key: Some(keys::NODE_SELECTOR),
        account: AccountWords {
            resource: "a load balancer",
            account: "project",
            credentials: "CLOUDSCALE_ACCESS_TOKEN",
        },
        exclusive: "floating IP",
        exclusive_key: keys::FLOATING_IPS,
        subnets_key: keys::ALLOWED_SUBNETS,
        affinity: [keys::POOL_ALGORITHM, "source_ip"],
    };
    /// Load balancers, pools, listeners, health monitors, floating IPs.
    const LISTINGS: usize = 5;
    const FOLLOWS_ENDPOINTS: bool = true;

    fn read(&self, reader: &mut Reader<'_>) -> Options {
        Options::read(reader)
    }

    fn selector(options: &Options) -> &Selector {
        &options.node_selector
    }

    fn subnets(options: &Options) -> &BTreeSet<String> {
        &options.allowed_subnets
    }

    fn desired(request: &LoadBalancerRequest, options: &Options, members: &Members) -> Desired {
        desired::desired(request, options, members)
    }

    fn asked_exclusives(&self, service: &ServiceView) -> BTreeSet<String> {
        let text = service.annotation(keys::FLOATING_IPS).unwrap_or_default();
        let asked: Vec<String> = serde_json::from_str(text).unwrap_or_default();
        asked.iter().filter_map(|text| address_of(text)).collect()
    }

    fn notices(
        request: &LoadBalancerRequest,
        options: &Options,
        desired: &Desired,
        _observed: Option<&Observed>,
    ) -> Vec<Notice> {
        desired::notices(request, options, desired)
    }

    fn plan(desired: &Desired, observed: Option<&Observed>) -> Result<Plan<Step>, ReconcileError> {
        plan::plan(desired, observed)
    }

    fn status(balancer: &Balancer, options: &Options) -> LoadBalancerStatus {
        provided(balancer, options)
    }

    fn deletion(balancer: &Balancer) -> Vec<Step> {
        vec![Step::DeleteBalancer {
            uuid: balancer.uuid.clone(),
            name: balancer.name.clone(),
        }]
    }

    async fn list(&self) -> Result<Vec<Balancer>, CloudError> {
        self.cloud.client.fetch(&BALANCERS.list(&[])).await
    }

    async fn get(&self, id: &str) -> Result<Option<Balancer>, CloudError> {
        if uuid::Uuid::try_parse(id).is_err() {
            return Ok(None);
        }
        self.cloud.client.find(&BALANCERS.get(&[], id)).await
    }

    async fn observe(
        &self,
        listed: &Balancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        self.parts.observe(listed, since).await
    }

    async fn serving(&self, pools: &[String]) -> Result<HashSet<String>, CloudError> {
        self.parts.serving(pools).await
    }

    async fn send(
        &self,
        step: &Step,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        let Some(request) = step.request(balancer, planned) else {
            let what = format!("{step}: the pool that it is about was not made");
            return Err(CloudError::new(NAME, ErrorKind::Malformed, what));
        };
        let effect = step.effect(planned);
        effect.send(&self.cloud.client, &request).await
    }

    async fn exclusives(
        &self,
        since: Instant,
    ) -> Result<BTreeMap<String, Option<Holder>>, CloudError> {
        let listing = self.parts.floating_ips(since).await?;
        let all = listing.all.iter();
        Ok(all.map(|ip| (ip.address(), ip.holder())).collect())
    }
}

/// What the Service has.
fn provided(balancer: &Balancer, options: &Options) -> LoadBalancerStatus {
    let ingress = match &options.force_hostname {
        Some(hostname) => vec![Ingress {
            hostname: Some(hostname.clone()),
            ..Ingress::default()
        }],
        None => balancer
            .vip_addresses
            .iter()
            .flatten()
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
