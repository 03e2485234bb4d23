//! Load balancers of Brightbox, for the [engine](crate::engine).
//!
//! ```text
//!   Cloud IP ──► load balancer ──► servers ◄── server group ◄── firewall policy with rules
//! ```
//!
//! All of it has one name, `<service>.<namespace>.<cluster>`, by which the Go controller finds it too, and is
//! taken for one thing here: a [`Bundle`]. There are no tags; the description of the server group, which is made
//! first and goes last, says for whom it was made.

mod bundle;
mod desired;
mod domains;
mod listings;
mod options;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::engine::Plan;
use mooring_common::names::reasons;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::annotations as keys;
use super::api::{Balancer, CloudIp};
use super::{Brightbox, NAME};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Notice, ReconcileError,
};
use crate::engine::Engine;
use crate::engine::annotations::Reader;
use crate::engine::dns::{Resolve, SystemResolver};
use crate::engine::inventory::Inventory;
use crate::engine::members::Members;
use crate::engine::notices::notice;
use crate::engine::provider::{
    AccountWords, Holder, IdBy, Listed as _, Provider, Unready, Vocabulary,
};
use crate::engine::resource_step::ResourceStep;
use crate::views::service_view::{Ingress, ServiceView};
use bundle::{Bundle, holder_of};
use desired::Desired;
use listings::AccountListings;
use options::{CloudIpWish, Options};

/// The load balancers of an account; `inventory`: its servers; `cluster`: what names end with.
pub(super) fn of_account(
    cloud: Arc<Brightbox>,
    inventory: Arc<Inventory>,
    cluster: String,
) -> Arc<dyn LoadBalancers> {
    let balancers = Balancers {
        listings: AccountListings::new(&cloud),
        resolver: Box::new(SystemResolver),
        without_domains: Mutex::default(),
        cloud,
        cluster,
    };
    Arc::new(Engine::new(balancers, inventory))
}

/// What the engine asks of Brightbox.
struct Balancers {
    cloud: Arc<Brightbox>,
    cluster: String,
    listings: AccountListings,
    resolver: Box<dyn Resolve>,
    /// Load balancers without HTTPS that bear no mark, and have no domains either: the Go controller may leave
    /// some, which listings do not show.
    without_domains: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Provider for Balancers {
    type Options = Options;
    type Desired = Desired;
    type Observed = Bundle;

    const WORDS: &'static Vocabulary = &Vocabulary {
        provider: NAME,
        component: "brightbox-cloud-controller-manager",
        cloud: "Brightbox",
        id_key: "",
        id_by: IdBy::Name,
        name_key: None,
        name_prefix: None,
        selector_key: None,
        account: AccountWords {
            resource: "a load balancer",
            account: "account",
            credentials: "BRIGHTBOX_CLIENT and BRIGHTBOX_CLIENT_SECRET, or BRIGHTBOX_ACCOUNT",
        },
        exclusive: "Cloud IP",
        exclusive_key: keys::CLOUD_IP.key,
        subnets_key: "",
        affinity: [keys::POLICY.key, "source-address"],
    };
    /// Load balancers, server groups, firewall policies, Cloud IPs.
    const LISTINGS: usize = 4;
    /// Health checks are of node ports, which no Node without endpoints answers at.
    const FOLLOWS_ENDPOINTS: bool = false;

    fn default_name(&self, service: &ServiceView) -> String {
        let key = &service.key;
        format!("{}.{}.{}", key.name, key.namespace, self.cluster)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Options {
        let name = self.default_name(reader.service);
        Options::read(reader, name)
    }

    fn desired(request: &LoadBalancerRequest, options: &Options, members: &Members) -> Desired {
        desired::desired(request, options, members)
    }

    async fn look_up(
        &self,
        desired: &mut Desired,
        observed: Option<&Bundle>,
        since: Instant,
    ) -> Result<(), ReconcileError> {
        desired.chosen = desired.own_choice(observed);
        if desired.chosen.is_none() {
            desired.chosen = self.elsewhere(&desired.wish, since).await?;
        }
        desired.exclusives.extend(desired.asked());
        domains::look_up(desired, observed, &*self.resolver).await?;
        Ok(())
    }

    fn unready(desired: &Desired, observed: &Bundle) -> Option<Unready> {
        plan::unready(desired, observed)
    }

    /// By identifier, also where the Service names one by its address, or has one of its own.
    fn asked_exclusives(&self, service: &ServiceView) -> BTreeSet<String> {
        let wish = CloudIpWish::of(service);
        let listing = self.listings.cloud_ips.last();
        let listed = listing.iter().flat_map(|listing| &listing.all);
        let own_name = self.default_name(service);
        let asked = listed.filter(|ip| match wish {
            CloudIpWish::Own => ip.name == own_name,
            _ => wish.is_met_by(ip),
        });
        asked.map(|ip| ip.id.clone()).collect()
    }

    fn notices(
        _request: &LoadBalancerRequest,
        options: &Options,
        _desired: &Desired,
        _observed: Option<&Bundle>,
    ) -> Vec<Notice> {
        let note = "spec.loadBalancerSourceRanges has no effect: load balancers of Brightbox take connections from \
                    everybody, and the firewall of the Nodes sees their addresses alone. Keep clients out behind \
                    the load balancer, by the PROXY protocol, and take the field out.";
        let said = options
            .has_sources
            .then(|| notice(reasons::UNSUPPORTED_FIELD, note.to_owned()));
        said.into_iter().collect()
    }

    fn plan(
        desired: &Desired,
        observed: Option<&Bundle>,
    ) -> Result<Plan<ResourceStep>, ReconcileError> {
        plan::plan(desired, observed)
    }

    /// Host names alone, since service proxies would otherwise serve the addresses themselves.
    fn status(bundle: &Bundle, _options: &Options) -> LoadBalancerStatus {
        let names = bundle.host_names().map(|name| Ingress::of_name(name));
        LoadBalancerStatus {
            ingress: names.collect(),
            ..LoadBalancerStatus::default()
        }
    }

    fn deletion(bundle: &Bundle) -> Vec<ResourceStep> {
        plan::removal(bundle)
    }

    async fn list(&self) -> Result<Vec<Bundle>, CloudError> {
        let listing = self.listings.bundles.get(Instant::now()).await?;
        Ok(listing.all.clone())
    }

    async fn get(&self, name: &str) -> Result<Option<Bundle>, CloudError> {
        let mut all = self.list().await?.into_iter();
        Ok(all.find(|bundle| bundle.name == name))
    }

    /// What listings may leave out is asked for.
    async fn observe(
        &self,
        listed: &Bundle,
        since: Instant,
    ) -> Result<(Bundle, Instant), CloudError> {
        let listing = self.listings.bundles.get(since).await?;
        let mut all = listing.all.iter();
        let there = all.find(|bundle| bundle.name == listed.name).cloned();
        let mut bundle = there.ok_or_else(|| {
            let what = format!("{}: nothing has this name any more", listed.name);
            CloudError::new(NAME, ErrorKind::NotFound, what)
        })?;
        let is_marked = bundle.owner().is_some();
        let known = self.without_domains.lock().await;
        let may_have = |one: &Balancer| one.has_https() || !is_marked && !known.contains(&one.id);
        let mut balancers = bundle.balancers.iter_mut();
        let lacking = balancers.find(|one| one.is_alive() && one.acme.is_none() && may_have(one));
        drop(known);
        if let Some(balancer) = lacking {
            let whole: Balancer = self.cloud.client.one(&balancer.id).await?;
            balancer.acme = whole.acme;
            if balancer.domains().next().is_none() {
                let mut known = self.without_domains.lock().await;
                known.insert(balancer.id.clone());
            }
        }
        Ok((bundle, listing.begun))
    }

    async fn send(
        &self,
        step: &ResourceStep,
        _bundle: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        let made = step.send(&self.cloud.client, planned).await?;
        self.listings.moves.0.takes_step(step, planned);
        Ok(made)
    }

    async fn exclusives(
        &self,
        since: Instant,
    ) -> Result<BTreeMap<String, Option<Holder>>, CloudError> {
        let listing = self.listings.cloud_ips.get(since).await?;
        let all = listing.all.iter();
        Ok(all.map(|ip| (ip.id.clone(), holder(ip))).collect())
    }

    async fn exclusive(&self, id: &str) -> Result<Option<Holder>, CloudError> {
        let ip: CloudIp = self.cloud.client.one(id).await?;
        Ok(holder(&ip))
    }
}

impl Balancers {
    /// The Cloud IP that a Service names, which does not lead to its load balancer.
    async fn elsewhere(
        &self,
        wish: &CloudIpWish,
        since: Instant,
    ) -> Result<Option<CloudIp>, ReconcileError> {
        if *wish == CloudIpWish::Own {
            return Ok(None);
        }
        let is_it = |ip: &CloudIp| wish.is_met_by(ip);
        let found = self.listings.cloud_ips.find(since, is_it).await?;
        match (found, wish) {
            (Some(ip), _) => Ok(Some(self.listings.moves.seen(ip))),
            (None, CloudIpWish::Address(address)) => Err(ReconcileError::Refused(format!(
                "spec.loadBalancerIP asks for {address}, which no Cloud IP of the account has; create one, and \
                 name it in the annotation {}, or take the field out",
                keys::CLOUD_IP.key
            ))),
            (None, _) => Ok(None),
        }
    }
}

/// What a Cloud IP leads to.
fn holder(ip: &CloudIp) -> Option<Holder> {
    match (&ip.load_balancer, ip.target()) {
        (Some(balancer), _) => Some(Holder::LoadBalancer(holder_of(balancer))),
        (None, Some(other)) => Some(Holder::Server(other.to_owned())),
        (None, None) => None,
    }
}
