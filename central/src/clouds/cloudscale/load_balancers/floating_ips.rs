//! Which floating IPs a Service may have: each leads to one load balancer or server only, and is
//! taken from nobody who uses it, unless the operator permits that.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use mooring_common::names::cloudscale_annotations as keys;

use super::super::api::floating_ips::{self, FloatingIp};
use super::Shared;
use super::desired::Desired;
use super::networks::canonical_network;
use super::observe::Question;
use super::observed::Observed;
use super::ownership::{Claim, made_for};
use crate::cloud_api::CloudError;
use crate::clouds::load_balancers::{Demand, Setback, TakeOver};
use crate::service_view::ServiceView;

/// What a floating IP leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A load balancer, by UUID.
    LoadBalancer(String),
    /// A server, by UUID.
    Server(String),
}

/// What floating IPs that a Service may have led to when that was decided, by network.
pub(super) type Permitted = BTreeMap<String, Option<Holder>>;

impl Holder {
    fn of(ip: &FloatingIp) -> Option<Self> {
        let balancer = ip.load_balancer.as_ref();
        let balancer = balancer.map(|held| Self::LoadBalancer(held.uuid.clone()));
        let server = ip.server.as_ref();
        balancer.or_else(|| server.map(|held| Self::Server(held.uuid.clone())))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoadBalancer(uuid) => write!(f, "the load balancer {uuid}"),
            Self::Server(uuid) => write!(f, "the server {uuid}"),
        }
    }
}

/// Those that a Service cannot have, each with the reason.
#[derive(Default)]
struct Denied {
    /// Another Service has the better right.
    lost: Vec<String>,
    /// Somebody uses it.
    used: Vec<String>,
    /// The project does not have it.
    unknown: Vec<String>,
}

impl Shared {
    /// Refuses floating IPs that another Service has a better right to, that somebody else uses, and
    /// that the project does not have. Gives those that are to be assigned.
    ///
    /// # Errors
    /// [`Setback`].
    pub(super) async fn check_floating_ips(
        &self,
        demand: &Demand,
        question: &Question,
        desired: &Desired,
        observed: Option<&Observed>,
    ) -> Result<Permitted, Setback> {
        let held = |network: &&String| {
            observed.is_some_and(|observed| observed.floating_ips.contains(*network))
        };
        let missing: Vec<&String> = desired
            .floating_ips
            .iter()
            .filter(|network| !held(network))
            .collect();
        if missing.is_empty() {
            return Ok(Permitted::new());
        }
        let holders = self.holders(question, &missing).await?;
        let mut denied = Denied::default();
        let mut permitted = Permitted::new();
        for network in missing {
            let Some(holder) = holders.get(network) else {
                denied.unknown.push(network.clone());
                continue;
            };
            let mut others = demand.others.iter();
            let winner =
                others.find(|other| self.outranks(other, demand, network, holder.as_ref()));
            if let Some(winner) = winner {
                denied.lost.push(format!("{network}->{}", winner.key));
            } else if self
                .may_move(demand, question, network, holder.as_ref())
                .await?
            {
                permitted.insert(network.clone(), holder.clone());
            } else if let Some(holder) = holder {
                denied.used.push(format!("{network} leads to {holder}"));
            }
        }
        match denied.told(demand) {
            Some(why) => Err(Setback::Refused(why)),
            None => Ok(permitted),
        }
    }

    /// What each of the project's floating IPs leads to, by network. What is not in an old listing is
    /// looked for in one that is begun now.
    async fn holders(&self, question: &Question, wanted: &[&String]) -> Result<Permitted, Setback> {
        let since = self.memory.since(&question.uid);
        let mut listing = self.listings.floating_ips(since).await?;
        let has = |network: &String| listing.all.iter().any(|ip| canonical_text(ip) == *network);
        if !wanted.iter().all(|network| has(network)) {
            listing = self.listings.floating_ips(question.asked).await?;
        }
        let all = listing.all.iter();
        Ok(all.map(|ip| (canonical_text(ip), Holder::of(ip))).collect())
    }

    /// Whether a floating IP may be taken from what it leads to: nothing, a load balancer of this
    /// Service, or one of a Service in the same namespace that does not ask for it any more. What else
    /// it leads to somebody uses.
    async fn may_move(
        &self,
        demand: &Demand,
        question: &Question,
        network: &str,
        holder: Option<&Holder>,
    ) -> Result<bool, CloudError> {
        let Some(holder) = holder.filter(|_| !demand.may_take_over) else {
            return Ok(true);
        };
        let Holder::LoadBalancer(holder) = holder else {
            return Ok(false);
        };
        let since = self.memory.since(&question.uid);
        let listing = self.listings.balancers(since).await?;
        let listed = listing.all.iter().find(|listed| listed.uuid == *holder);
        let user = listed.and_then(made_for);
        let gives_up = |other: &&Arc<ServiceView>| {
            let has_it = user == Some(other.uid.as_str())
                || self.memory.last_uuid(&other.uid).as_ref() == Some(holder);
            has_it && other.key.namespace == demand.service.key.namespace
        };
        // Those that still ask for it have the better right anyhow.
        let is_given_up = demand
            .others
            .iter()
            .filter(gives_up)
            .any(|other| !asked_by(other).contains(network));
        Ok(user == Some(demand.service.uid.as_str()) || is_given_up)
    }

    /// Whether a floating IP that is to be assigned leads, read now, to what it led to when that was
    /// permitted.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says it.
    pub(super) async fn leads_as_permitted(
        &self,
        network: &str,
        permitted: &Permitted,
    ) -> Result<bool, CloudError> {
        let ip: FloatingIp = self.cloud.client.fetch(&floating_ips::one(network)).await?;
        Ok(permitted.get(network) == Some(&Holder::of(&ip)))
    }

    /// Whether another Service has the better right to a network: its load balancer holds it, or it
    /// asks for it too and is older.
    fn outranks(
        &self,
        other: &Arc<ServiceView>,
        demand: &Demand,
        network: &str,
        holder: Option<&Holder>,
    ) -> bool {
        if !asked_by(other).contains(network) {
            return false;
        }
        let is_of_other = match holder {
            Some(Holder::LoadBalancer(holder)) => {
                self.memory.last_uuid(&other.uid).as_ref() == Some(holder)
                    || Claim::of(other).uuid.as_ref() == Some(holder)
            }
            Some(Holder::Server(_)) | None => false,
        };
        let own = &demand.service;
        is_of_other || (other.created, &other.uid) < (own.created, &own.uid)
    }
}

impl Denied {
    /// For the Event; `None`: nothing is denied.
    fn told(&self, demand: &Demand) -> Option<String> {
        let key = keys::FLOATING_IPS;
        let mut all = Vec::new();
        if !self.lost.is_empty() {
            all.push(format!(
                "a floating IP can lead to one load balancer only, and is assigned to another \
                 service: {}; take it out of the annotation {key} of either",
                self.lost.join(", "),
            ));
        }
        if !self.used.is_empty() {
            all.push(format!(
                "the annotation {key} asks for floating IPs that are in use and not provably this \
                 Service's: {}; take them from there by hand, or out of the annotation, or {}",
                self.used.join(", "),
                TakeOver::remedy(&demand.service.key.namespace),
            ));
        }
        if !self.unknown.is_empty() {
            all.push(format!(
                "the annotation {key} asks for {}, which the project of \
                 cloudscale.ch does not have; create it there, or correct the annotation",
                self.unknown.join(", ")
            ));
        }
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The networks that a Service asks for, in canonical form. Nothing if that cannot be read: it is
/// for that Service to correct it.
fn asked_by(service: &ServiceView) -> BTreeSet<String> {
    let text = service.annotation(keys::FLOATING_IPS).unwrap_or_default();
    let asked: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    asked
        .iter()
        .filter_map(|text| canonical_network(text))
        .collect()
}

/// The network of a floating IP in canonical form; as it is if it is none.
pub(super) fn canonical_text(ip: &FloatingIp) -> String {
    canonical_network(&ip.network).unwrap_or_else(|| ip.network.clone())
}
