//! Which exclusive resources a Service may have: floating IPs, Cloud IPs, reserved addresses. Each leads to
//! one load balancer or server only, and is taken from nobody who uses it, unless the operator permits that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Shared;
use super::find::{Query, claim};
use super::ownership::made_for;
use super::provider::{
    Desired as _, Holder, Listed as _, ListedOf, Observed, Provider, Vocabulary,
};
use crate::cloud_api::CloudError;
use crate::cloud_provider::load_balancers::{LoadBalancerRequest, ReconcileError, TakeOver};
use crate::views::service_view::ServiceView;

/// What those that a Service may have led to when that was decided, by name.
pub(super) type Permitted = BTreeMap<String, Option<Holder>>;

/// Those that a Service cannot have, each with the reason.
#[derive(Default)]
struct Denied {
    /// Another Service has the better right.
    lost: Vec<String>,
    /// Somebody uses it.
    used: Vec<String>,
    /// The cloud does not have it.
    unknown: Vec<String>,
}

impl<P: Provider> Shared<P> {
    /// Refuses those that another Service has a better right to, that somebody else uses, and that the
    /// cloud does not have. Gives those that are to be assigned, and why others cannot be had: what there is
    /// goes on without these, if it can.
    ///
    /// # Errors
    /// [`ReconcileError`].
    pub(super) async fn check_exclusives(
        &self,
        request: &LoadBalancerRequest,
        query: &Query,
        desired: &mut P::Desired,
        observed: Option<&P::Observed>,
    ) -> Result<(Permitted, Option<String>), ReconcileError> {
        let held =
            |name: &&String| observed.is_some_and(|observed| observed.exclusives().contains(*name));
        let wanted = desired.exclusives().iter();
        let missing: BTreeSet<String> = wanted.filter(|name| !held(name)).cloned().collect();
        if missing.is_empty() {
            return Ok((Permitted::new(), None));
        }
        let holders = self.holders(query, &missing).await?;
        let mut denied = Denied::default();
        let mut permitted = Permitted::new();
        for name in &missing {
            let Some(holder) = holders.get(name) else {
                denied.unknown.push(name.clone());
                continue;
            };
            let listed = self.listed_holder(query, holder.as_ref()).await?;
            let mut others = request.others.iter();
            let winner = others.find(|other| {
                let asks = self.provider.asked_exclusives(other).contains(name);
                asks && self.outranks(other, request, holder.as_ref(), listed.as_ref())
            });
            if let Some(winner) = winner {
                denied.lost.push(format!("{name}->{}", winner.key));
            } else if self.may_move(request, name, holder.as_ref(), listed.as_ref()) {
                permitted.insert(name.clone(), holder.clone());
            } else if let Some(holder) = holder {
                denied.used.push(format!("{name} leads to {holder}"));
            }
        }
        let Some(why) = denied.told(request, P::WORDS) else {
            return Ok((permitted, None));
        };
        let without = missing
            .into_iter()
            .filter(|name| !permitted.contains_key(name));
        // Nothing is made for a Service that cannot have all.
        if observed.is_some() && desired.deny(&without.collect()) {
            return Ok((permitted, Some(why)));
        }
        Err(ReconcileError::Refused(why))
    }

    /// What each of them leads to. What is not in an old listing is looked for in one that is begun now.
    async fn holders(
        &self,
        query: &Query,
        wanted: &BTreeSet<String>,
    ) -> Result<Permitted, CloudError> {
        let known = self
            .provider
            .exclusives(self.cache.since(&query.uid))
            .await?;
        if wanted.iter().all(|name| known.contains_key(name)) {
            return Ok(known);
        }
        self.provider.exclusives(query.asked).await
    }

    /// The load balancer that one leads to, as it is listed.
    async fn listed_holder(
        &self,
        query: &Query,
        holder: Option<&Holder>,
    ) -> Result<Option<ListedOf<P>>, CloudError> {
        let Some(Holder::LoadBalancer(holder)) = holder else {
            return Ok(None);
        };
        let listing = self.listings.get(self.cache.since(&query.uid)).await?;
        let mut all = listing.all.iter();
        Ok(all.find(|listed| listed.id() == holder).cloned())
    }

    /// Whether a load balancer is provably a Service's: by its marks, or by what this process knows.
    fn has(&self, service: &ServiceView, holder: &str, listed: Option<&ListedOf<P>>) -> bool {
        let user = listed.and_then(|listed| made_for(listed, P::WORDS));
        user == Some(service.uid.as_str())
            || self.cache.last_id(&service.uid).as_deref() == Some(holder)
    }

    /// Whether one may be taken from what it leads to: nothing, a load balancer of this Service, or one of
    /// a Service in the same namespace that does not ask for it any more. What else it leads to somebody
    /// uses.
    fn may_move(
        &self,
        request: &LoadBalancerRequest,
        name: &str,
        holder: Option<&Holder>,
        listed: Option<&ListedOf<P>>,
    ) -> bool {
        let Some(holder) = holder.filter(|_| !request.may_take_over) else {
            return true;
        };
        let Holder::LoadBalancer(holder) = holder else {
            return false;
        };
        let own = &request.service;
        let gives_up = |other: &Arc<ServiceView>| {
            other.key.namespace == own.key.namespace
                && self.has(other, holder, listed)
                && !self.provider.asked_exclusives(other).contains(name)
        };
        self.has(own, holder, listed) || request.others.iter().any(gives_up)
    }

    /// Whether one that is to be assigned leads, read now, to what it led to when that was permitted.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says it.
    pub(super) async fn leads_as_permitted(
        &self,
        name: &str,
        permitted: &Permitted,
    ) -> Result<bool, CloudError> {
        let now = self.provider.exclusive(name).await?;
        Ok(permitted.get(name) == Some(&now))
    }

    /// Whether another Service, which asks for one too, has the better right to it: its load balancer holds it,
    /// or nothing does and it is older. An annotation that names a load balancer counts only as long as it is
    /// provably nobody's.
    fn outranks(
        &self,
        other: &Arc<ServiceView>,
        request: &LoadBalancerRequest,
        holder: Option<&Holder>,
        listed: Option<&ListedOf<P>>,
    ) -> bool {
        let own = &request.service;
        match holder {
            Some(Holder::LoadBalancer(holder)) if self.has(own, holder, listed) => false,
            Some(Holder::LoadBalancer(holder)) => {
                let mut others = request.others.iter();
                let is_known = others.any(|service| self.has(service, holder, listed));
                match is_known {
                    true => self.has(other, holder, listed),
                    false => claim(other, &*self.provider).is_of_id(holder),
                }
            }
            Some(Holder::Server(_)) => false,
            None => (other.created, &other.uid) < (own.created, &own.uid),
        }
    }
}

impl Denied {
    /// For the Event; `None`: nothing is denied.
    fn told(&self, request: &LoadBalancerRequest, words: &Vocabulary) -> Option<String> {
        let Vocabulary {
            exclusive,
            exclusive_key: key,
            cloud,
            ..
        } = words;
        let mut all = Vec::new();
        if !self.lost.is_empty() {
            all.push(format!(
                "a {exclusive} can lead to one load balancer only, and is assigned to another \
                 service: {}; take it out of the annotation {key} of either",
                self.lost.join(", "),
            ));
        }
        if !self.used.is_empty() {
            all.push(format!(
                "the annotation {key} asks for {exclusive}s that are in use and not provably this \
                 Service's: {}; take them from there by hand, or out of the annotation, or {}",
                self.used.join(", "),
                TakeOver::remedy(&request.service.key.namespace),
            ));
        }
        if !self.unknown.is_empty() {
            let account = words.account.account;
            all.push(format!(
                "the annotation {key} asks for {}, which the {account} of {cloud} does not have; create it \
                 there, or correct the annotation",
                self.unknown.join(", ")
            ));
        }
        (!all.is_empty()).then(|| all.join("; "))
    }
}
