//! Which floating IPs a Service may have: each leads to one load balancer only.

use std::collections::BTreeSet;
use std::sync::Arc;

use mooring_common::names::cloudscale_annotations as keys;

use super::super::api::floating_ips::FloatingIp;
use super::Shared;
use super::desired::Desired;
use super::networks::canonical_network;
use super::observe::Question;
use super::observed::Observed;
use super::ownership::Claim;
use crate::clouds::load_balancers::{Demand, Setback};
use crate::service_view::ServiceView;

impl Shared {
    /// Refuses floating IPs that another Service has a better right to, and those that the project
    /// does not have.
    ///
    /// # Errors
    /// [`Setback`].
    pub(super) async fn check_floating_ips(
        &self,
        demand: &Demand,
        question: &Question,
        desired: &Desired,
        observed: Option<&Observed>,
    ) -> Result<(), Setback> {
        let held = |network: &&String| {
            observed.is_some_and(|observed| observed.floating_ips.contains(*network))
        };
        let missing: Vec<&String> = desired
            .floating_ips
            .iter()
            .filter(|network| !held(network))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let holders = self.holders(question, &missing).await?;
        let mut lost = Vec::new();
        let mut unknown = Vec::new();
        for network in missing {
            match holders.iter().find(|(known, _)| known == network) {
                None => unknown.push(network.as_str()),
                Some((_, holder)) => {
                    let mut others = demand.others.iter();
                    let winner = others
                        .find(|other| self.outranks(other, demand, network, holder.as_deref()));
                    lost.extend(winner.map(|winner| format!("{network}->{}", winner.key)));
                }
            }
        }
        if !lost.is_empty() {
            return Err(Setback::Refused(format!(
                "a floating IP can lead to one load balancer only, and is assigned to another \
                 service: {}; take it out of the annotation {} of either",
                lost.join(", "),
                keys::FLOATING_IPS,
            )));
        }
        if !unknown.is_empty() {
            return Err(Setback::Refused(format!(
                "the annotation {} asks for {}, which the project of \
                 cloudscale.ch does not have; create it there, or correct the annotation",
                keys::FLOATING_IPS,
                unknown.join(", ")
            )));
        }
        Ok(())
    }

    /// The networks of the project's floating IPs, and the load balancer that each leads to. What
    /// is not in an old listing is looked for in one that is begun now.
    async fn holders(
        &self,
        question: &Question,
        wanted: &[&String],
    ) -> Result<Vec<(String, Option<String>)>, Setback> {
        let since = self.memory.since(&question.uid);
        let mut listing = self.listings.floating_ips(since).await?;
        let has = |network: &String| listing.all.iter().any(|ip| canonical_text(ip) == *network);
        if !wanted.iter().all(|network| has(network)) {
            listing = self.listings.floating_ips(question.asked).await?;
        }
        let all = listing.all.iter();
        Ok(all
            .map(|ip| {
                let holder = ip.load_balancer.as_ref();
                (canonical_text(ip), holder.map(|holder| holder.uuid.clone()))
            })
            .collect())
    }

    /// Whether another Service has the better right to a network: its load balancer holds it, or it
    /// asks for it too and is older.
    fn outranks(
        &self,
        other: &Arc<ServiceView>,
        demand: &Demand,
        network: &str,
        holder: Option<&str>,
    ) -> bool {
        if !asked_by(other).contains(network) {
            return false;
        }
        let is_of_other = holder.is_some_and(|holder| {
            self.memory.last_uuid(&other.uid).as_deref() == Some(holder)
                || Claim::of(other).uuid.as_deref() == Some(holder)
        });
        let own = &demand.service;
        is_of_other || (other.created, &other.uid) < (own.created, &own.uid)
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
