//! What there is for a Service, from memory or from listings.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use mooring_common::names::cloudscale_tags as tags;
use tokio::time::Instant;

use super::super::NAME;
use super::super::api::balancers::Balancer;
use super::desired::Desired;
use super::listings::Listing;
use super::memory::Known;
use super::observed::Observed;
use super::ownership::{Claim, Selection, default_name, fits, not_by_name, select};
use super::{Shared, assembly};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::clouds::load_balancers::Demand;

/// How old the word that the cloud is at work on a load balancer may be.
const STATUS_AGE: Duration = Duration::from_secs(2);
/// How many lists of members are asked for at once.
const MEMBER_LISTS: usize = 4;

/// What there is for a Service.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing, by a complete listing that was begun in this pass, at this time.
    Nothing(Instant),
    /// This.
    One(Box<Known>),
    /// It must not be known: something stands in the way.
    Refused(String),
}

/// Who asks, and what for.
pub(super) struct Question {
    pub(super) uid: String,
    pub(super) claim: Claim,
    others: Vec<Claim>,
    /// When it was asked.
    pub(super) asked: Instant,
}

impl Question {
    pub(super) fn of(demand: &Demand) -> Self {
        Self {
            uid: demand.service.uid.clone(),
            claim: Claim::of(&demand.service),
            others: demand.others.iter().map(Claim::of).collect(),
            asked: Instant::now(),
        }
    }

    /// What of a listing is the Service's own.
    pub(super) fn select<'a>(&self, listing: &'a Listing<Balancer>) -> Selection<'a> {
        select(&listing.all, &self.claim, &self.others)
    }
}

impl Shared {
    /// What there is for a Service that is to have a load balancer.
    ///
    /// # Errors
    /// [`CloudError`] unless the answers are complete.
    pub(super) async fn find(
        &self,
        question: &Question,
        desired: &Desired,
    ) -> Result<Found, CloudError> {
        let uid = &question.uid;
        let means = |balancer: &Observed| question.claim.means(&balancer.balancer);
        if let Some(known) = self.remembered(uid, means).await? {
            return Ok(Found::One(Box::new(known)));
        }
        let since = self.memory.since(uid);
        let listing = self.candidates(question).await?;
        let (balancer, surplus) = match question.select(&listing) {
            Selection::Nothing => return Ok(Found::Nothing(listing.begun)),
            Selection::Refused(why) => return Ok(Found::Refused(why)),
            Selection::Own { balancer, surplus } => (balancer, surplus),
            Selection::Adopted(balancer) => (balancer, Vec::new()),
            Selection::ByName(balancer) => {
                let parts = self.listings.parts(since).await?;
                if !fits(balancer, &parts.pools.all, &parts.listeners.all, desired) {
                    return Ok(Found::Refused(not_by_name(balancer)));
                }
                (balancer, Vec::new())
            }
        };
        let observed = self.observe(balancer, since).await;
        let (observed, as_of) = observed.inspect_err(|error| {
            // The listings at hand do not fit together.
            if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Malformed) {
                self.memory.doubt(uid);
            }
        })?;
        let as_of = as_of.min(listing.begun);
        let known = Known {
            observed,
            surplus: surplus.into_iter().map(named).collect(),
            as_of,
            written: as_of,
        };
        self.memory.keep(uid, known.clone());
        Ok(Found::One(Box::new(known)))
    }

    /// What is remembered of a Service's own, or of one without a mark that it still `means`. While
    /// the cloud is at work on it, its status is looked up, for all who wait together.
    pub(super) async fn remembered(
        &self,
        uid: &str,
        means: impl Fn(&Observed) -> bool,
    ) -> Result<Option<Known>, CloudError> {
        let is_own = |known: &Known| match known.observed.balancer.tags.get(tags::SERVICE_UID) {
            Some(tag) => tag == uid,
            None => known.observed.balancer.name == default_name(uid) || means(&known.observed),
        };
        let Some(mut known) = self.memory.known(uid).filter(is_own) else {
            return Ok(None);
        };
        let balancer = &known.observed.balancer;
        if !balancer.is_changing {
            return Ok(Some(known));
        }
        let now = Instant::now();
        let since = now.checked_sub(STATUS_AGE).unwrap_or(now);
        let listing = self.listings.balancers(since.max(known.written)).await?;
        let mut all = listing.all.iter();
        let Some(listed) = all.find(|listed| listed.uuid == balancer.uuid) else {
            self.memory.doubt(uid);
            return Ok(None);
        };
        known.observed.balancer = assembly::balancer(listed);
        self.memory.keep(uid, known.clone());
        Ok(Some(known))
    }

    /// A listing that tells what there is for a Service: the one at hand if it shows one that bears
    /// the Service's mark, else one that is begun now, since nothing is made or adopted on an old
    /// one's word.
    pub(super) async fn candidates(
        &self,
        question: &Question,
    ) -> Result<Arc<Listing<Balancer>>, CloudError> {
        let since = self.memory.since(&question.uid);
        let listing = self.listings.balancers(since).await?;
        match question.select(&listing) {
            Selection::Own { .. } => Ok(listing),
            _ => self.listings.balancers(question.asked).await,
        }
    }

    /// The UUIDs of those members of these pools that serve: they are enabled, and the health monitor
    /// says so, or there is none.
    ///
    /// # Errors
    /// [`CloudError`] unless the answers are complete.
    pub(super) async fn serving(&self, pools: &[String]) -> Result<HashSet<String>, CloudError> {
        let mut serving = HashSet::new();
        for pool in pools {
            let members = self.listings.members(pool).await?.into_iter();
            let served = members.filter(|member| {
                let status = member.monitor_status.as_deref();
                let is_well = status.is_none_or(|status| ["up", "no_monitor"].contains(&status));
                member.enabled.unwrap_or(true) && is_well
            });
            serving.extend(served.map(|member| member.uuid));
        }
        Ok(serving)
    }

    /// A load balancer with all its parts, and since when that holds.
    async fn observe(
        &self,
        balancer: &Balancer,
        since: Instant,
    ) -> Result<(Observed, Instant), CloudError> {
        let parts = self.listings.parts(since).await?;
        let pools = assembly::pools_of(&balancer.uuid, &parts);
        let members: HashMap<_, _> = stream::iter(pools)
            .map(|pool| async move {
                let members = self.listings.members(&pool).await?;
                Ok::<_, CloudError>((pool, members))
            })
            .buffer_unordered(MEMBER_LISTS)
            .try_collect()
            .await?;
        let observed = assembly::observed(balancer, &parts, members)
            .map_err(|lacking| CloudError::new(NAME, ErrorKind::Malformed, lacking.to_string()))?;
        Ok((observed, parts.begun()))
    }
}

/// By UUID and name.
pub(super) fn named(balancer: &Balancer) -> (String, String) {
    (balancer.uuid.clone(), balancer.name().to_owned())
}
