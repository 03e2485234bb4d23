//! NodeBalancers, for the [engine](crate::engine).
//!
//! A Service has one NodeBalancer; each of its ports a config with nodes. A Cloud Firewall may protect it.

mod desired;
mod firewalls;
mod model;
mod observed;
mod options;
mod places;
mod plan;
mod send;
mod step;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;
use mooring_common::engine::Plan;
use mooring_common::names::annotations;
use mooring_common::node_view::NodeView;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::annotations as keys;
use super::api::node_balancers::{BALANCERS, FIREWALLS, MARKS, NodeBalancer};
use super::{Linode, NAME};
use crate::cloud_api::{CloudError, Constants, permitted};
use crate::cloud_provider::Attachment;
use crate::cloud_provider::digest::hex;
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Notice, ReconcileError,
};
use crate::engine::Engine;
use crate::engine::annotations::Reader;
use crate::engine::inventory::Inventory;
use crate::engine::listing::Listings;
use crate::engine::members::Members;
use crate::engine::provider::{
    AccountWords, Dependent, IdBy, Listed as _, Provider, Unready, Vocabulary,
};
use crate::views::service_view::{Ingress, ServiceView};
use desired::Desired;
use firewalls::Firewall;
use observed::Observed;
use options::Options;
use step::Step;

/// The NodeBalancers of an account; `inventory`: its Linodes.
pub(super) fn of_account(cloud: Arc<Linode>, inventory: Arc<Inventory>) -> Arc<dyn LoadBalancers> {
    let firewalls = Listings::of(NAME, &cloud, |cloud| async move {
        cloud.all(&FIREWALLS, &[]).await
    });
    let balancers = NodeBalancers {
        cloud,
        firewalls,
        backends: Constants::default(),
    };
    Arc::new(Engine::new(balancers, inventory))
}

/// What the engine asks of Linode.
struct NodeBalancers {
    cloud: Arc<Linode>,
    firewalls: Listings<Firewall>,
    /// The subnets by which NodeBalancers reach their nodes.
    backends: Constants<Option<u64>>,
}

#[async_trait]
impl Provider for NodeBalancers {
    type Options = Options;
    type Desired = Desired;
    type Observed = Observed;

    const WORDS: &'static Vocabulary = &Vocabulary {
        provider: NAME,
        component: "linode-cloud-controller-manager",
        cloud: "Linode",
        id_key: keys::ID.key,
        id_by: IdBy::Person,
        name_key: None,
        name_prefix: None,
        selector_key: None,
        account: AccountWords {
            resource: "a NodeBalancer",
            account: "account",
            credentials: "LINODE_API_TOKEN or the file that LINODE_API_TOKEN_FILE names",
        },
        exclusive: "reserved IPv4 address",
        exclusive_key: keys::RESERVED_IPV4.key,
        subnets_key: keys::BACKEND_SUBNET_ID.key,
        affinity: [keys::ALGORITHM.key, "source"],
    };
    /// NodeBalancers and firewalls.
    const LISTINGS: usize = 2;
    /// Health checks are of node ports, which no Node without endpoints answers at.
    const FOLLOWS_ENDPOINTS: bool = false;

    /// Nobody else's is called so: the name is made from the UID, in the form in which the Go controller
    /// makes it from the time.
    fn default_name(&self, service: &ServiceView) -> String {
        let digest = hex(&Sha256::digest(&service.uid), 12);
        format!("{}-{digest}", self.cloud.settings.flags.prefix)
    }

    fn drain_period(&self) -> Duration {
        self.cloud.settings.flags.drain_period
    }

    fn read(&self, reader: &mut Reader<'_>) -> Options {
        let label = self.default_name(reader.service);
        Options::read(reader, &self.cloud.settings, label)
    }

    fn secrets(service: &ServiceView) -> BTreeSet<String> {
        options::secrets(&mut Reader::new(service)).collect()
    }

    /// The address that the Node itself says: a person may have written another one there than the API knows.
    fn attachments(options: &Options, node: &NodeView, _own: Vec<Attachment>) -> Vec<Attachment> {
        let address = match options.ipv6_backends {
            true => public_ipv6(node),
            false => internal_ipv4(node, options.subnet.is_some()),
        };
        let attachment = address.map(|address| Attachment {
            address,
            subnet: String::new(),
        });
        attachment.into_iter().collect()
    }

    fn desired(request: &LoadBalancerRequest, options: &Options, members: &Members) -> Desired {
        desired::desired(request, options, members)
    }

    /// Nothing but a notice depends on it.
    async fn look_up(
        &self,
        desired: &mut Desired,
        observed: Option<&Observed>,
        _since: Instant,
    ) -> Result<(), ReconcileError> {
        if let Some(observed) = observed {
            match self.misplaced(&desired.balancer, &observed.balancer).await {
                Ok(misplaced) => desired.misplaced = misplaced,
                Err(error) => tracing::debug!(%error, "where a NodeBalancer is was not found out"),
            }
        }
        Ok(())
    }

    fn notices(
        request: &LoadBalancerRequest,
        options: &Options,
        desired: &Desired,
        observed: Option<&Observed>,
    ) -> Vec<Notice> {
        desired::notices(&request.service, options, desired, observed)
    }

    fn plan(desired: &Desired, observed: Option<&Observed>) -> Result<Plan<Step>, ReconcileError> {
        plan::plan(desired, observed)
    }

    fn unready(desired: &Desired, observed: &Observed) -> Option<Unready> {
        plan::unready(desired, observed)
    }

    fn status(balancer: &NodeBalancer, options: &Options) -> LoadBalancerStatus {
        LoadBalancerStatus {
            ingress: ingress(balancer, options),
            ..LoadBalancerStatus::default()
        }
    }

    fn removal(request: &LoadBalancerRequest, listed: &NodeBalancer) -> Vec<Step> {
        let service = &request.service;
        if !options::preserves(service) {
            // A Service that goes on with another one which it names says nothing of this one's address.
            let named = service.annotation(keys::ID.key);
            let goes_on =
                service.wants_load_balancer() && named.is_some_and(|id| id.trim() != listed.id);
            let is_given_up = !goes_on && !options::retains_address(service);
            return vec![Step::DeleteBalancer {
                id: listed.id.clone(),
                name: listed.label.clone(),
                release: listed.ipv4.clone().filter(|_| is_given_up),
                marks: match service.annotation(keys::FIREWALL_ID.key) {
                    Some(_) => Vec::new(),
                    None => MARKS.of(&service.uid, request.cluster.as_deref()),
                },
            }];
        }
        let is_marked = listed.owner().is_some();
        let release = is_marked.then(|| Step::Release {
            id: listed.id.clone(),
            tags: MARKS.unmarked(&listed.tags),
        });
        release.into_iter().collect()
    }

    fn deletion(listed: &NodeBalancer) -> Vec<Step> {
        vec![Step::DeleteBalancer {
            id: listed.id.clone(),
            name: listed.label.clone(),
            release: None,
            marks: Vec::new(),
        }]
    }

    async fn list(&self) -> Result<Vec<NodeBalancer>, CloudError> {
        let all: Vec<NodeBalancer> = self.cloud.all(&BALANCERS, &[]).await?;
        self.backends.keep(all.iter().map(|balancer| &*balancer.id));
        Ok(all)
    }

    async fn get(&self, id: &str) -> Result<Option<NodeBalancer>, CloudError> {
        if id.parse::<u64>().is_err() {
            return Ok(None);
        }
        self.cloud.client.find(&BALANCERS.get(&[], id)).await
    }

    async fn observe(
        &self,
        listed: &NodeBalancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        self.observe_parts(listed, since).await
    }

    async fn send(
        &self,
        step: &Step,
        balancer: &str,
        planned: &[String],
    ) -> Result<String, CloudError> {
        self.send_step(step, balancer, planned).await
    }

    async fn dependents(&self, since: Instant) -> Result<Vec<Dependent>, CloudError> {
        // A token that may not list them may not delete them either.
        let listing = permitted(self.firewalls.get(since).await)?;
        let all = listing.iter().flat_map(|listing| &listing.all);
        Ok(all.filter_map(dependent).collect())
    }

    async fn delete_dependent(&self, of: &Dependent) -> Result<(), CloudError> {
        let is_same = |there: &Firewall| dependent(there).as_ref() == Some(of);
        self.delete_firewall(&of.id, is_same).await
    }
}

/// A firewall that bears marks.
fn dependent(firewall: &Firewall) -> Option<Dependent> {
    Some(Dependent {
        id: firewall.id.to_string(),
        name: format!("firewall {}", firewall.label),
        owner: MARKS.owner(&firewall.tags)?.to_owned(),
        cluster: MARKS.cluster_of(&firewall.tags).map(ToOwned::to_owned),
        users: firewall.users(),
    })
}

/// Its address and its prefix length stand in the annotation; no text without one was written by central.
fn public_ipv6(node: &NodeView) -> Option<IpAddr> {
    let text = node.annotation(annotations::LINODE_PUBLIC_IPV6)?;
    let net: IpNet = text.parse().ok()?;
    Some(net.addr()).filter(IpAddr::is_ipv6)
}

/// In a VPC, the first internal address of the Node, which is the one there; else the one in the annotation
/// before that.
fn internal_ipv4(node: &NodeView, is_in_vpc: bool) -> Option<IpAddr> {
    let annotated = node.annotation(annotations::LINODE_PRIVATE_IP);
    let annotated = annotated.filter(|_| !is_in_vpc);
    if let Some(text) = annotated {
        return text.trim().parse().ok();
    }
    node.internal_ips().find(IpAddr::is_ipv4)
}

/// What the status says.
fn ingress(balancer: &NodeBalancer, options: &Options) -> Vec<Ingress> {
    let hostname = &balancer.hostname;
    if options.hostname_only && hostname.is_some() {
        return vec![Ingress {
            hostname: hostname.clone(),
            ..Ingress::default()
        }];
    }
    let is_asked = options.ipv6_ingress || balancer.ipv4.is_none();
    let ipv6 = balancer.ipv6.as_ref().filter(|_| is_asked);
    let ips = balancer.ipv4.iter().chain(ipv6);
    let entries = ips.map(|ip| Ingress {
        ip: Some(ip.clone()),
        hostname: hostname.clone(),
        ip_mode: options.ip_mode.map(ToOwned::to_owned),
    });
    entries.collect()
}
