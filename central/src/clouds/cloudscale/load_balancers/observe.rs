//! What there is for a Service, from memory or from listings.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use mooring_common::names::cloudscale_tags as tags;
use tokio::time::Instant;

use super::super::NAME;
use super::super::api::balancers::Balancer;
use super::desired::Machines;
use super::listings::Listing;
use super::memory::Known;
use super::observed::Observed;
use super::ownership::{
    Claim, Selection, default_name, is_of_another_cluster, is_unused, select, unproven,
};
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
    /// Nothing, by this complete listing, which was begun in this pass.
    Nothing(Arc<Listing<Balancer>>),
    /// Nothing yet: one was asked for, and may still turn up for so long.
    Unsettled(Duration),
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
    /// The mark of this cluster.
    pub(super) cluster: Option<String>,
    /// When a load balancer was asked for, by the Service's own word.
    asked_for: Option<Timestamp>,
    /// For how long the cloud may take to show what it was asked to make.
    settle_time: Duration,
    /// Whether it may take over what somebody else uses.
    pub(super) may_take_over: bool,
    /// When it was asked.
    pub(super) asked: Instant,
}

impl Question {
    pub(super) fn of(demand: &Demand) -> Self {
        Self {
            uid: demand.service.uid.clone(),
            claim: Claim::of(&demand.service),
            others: demand.others.iter().map(Claim::of).collect(),
            cluster: demand.cluster.clone(),
            asked_for: demand
                .service
                .creation_asked
                .as_ref()
                .and_then(|text| text.parse().ok()),
            settle_time: demand.settle_time,
            may_take_over: demand.may_take_over,
            asked: Instant::now(),
        }
    }

    /// Whether the operator permits the Service to have a load balancer that nothing proves to be its own.
    fn may_have(&self, balancer: &Balancer) -> bool {
        self.may_take_over && !self.is_of_another_cluster(balancer)
    }

    fn is_of_another_cluster(&self, balancer: &Balancer) -> bool {
        is_of_another_cluster(balancer, self.cluster.as_deref())
    }

    /// What of a listing is the Service's own.
    pub(super) fn select<'a>(&self, listing: &'a Listing<Balancer>) -> Selection<'a> {
        self.select_among(&listing.all)
    }

    /// What of these is the Service's own.
    fn select_among<'a>(&self, balancers: &'a [Balancer]) -> Selection<'a> {
        select(balancers, &self.claim, &self.others)
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
        machines: &Machines,
    ) -> Result<Found, CloudError> {
        let uid = &question.uid;
        let means = |balancer: &Observed| question.claim.means(&balancer.balancer);
        if let Some(known) = self.remembered(uid, means).await? {
            return Ok(Found::One(Box::new(known)));
        }
        let since = self.memory.since(uid);
        let listing = self.candidates(question).await?;
        let unlisted;
        let mut selection = question.select(&listing);
        if matches!(selection, Selection::Nothing) {
            // A listing may lag behind what was made, or lack what is there.
            unlisted = self.unlisted_recorded(question).await?;
            selection = question.select_among(&unlisted);
        }
        let (balancer, surplus, is_proven) = match selection {
            Selection::Nothing => {
                let unsettled = self.unsettled(question);
                return Ok(unsettled.map_or(Found::Nothing(listing), Found::Unsettled));
            }
            Selection::Refused(why) => return Ok(Found::Refused(why)),
            Selection::Own { balancer, surplus } => (balancer, surplus, true),
            Selection::Adopted(balancer) => (balancer, Vec::new(), true),
            Selection::Unproven(balancer) => (balancer, Vec::new(), question.may_have(balancer)),
        };
        // What nothing proves to be its own is judged by what it is used for now.
        let since = if is_proven { since } else { question.asked };
        let mut observed = self.observe(balancer, since).await;
        if let Ok((incomplete, _)) = &observed
            && question.claim.is_published()
            && incomplete.lacks_parts()
        {
            // It has served, and parts are missing: one listing alone is not believed.
            observed = self.observe(balancer, Instant::now()).await;
        }
        let (observed, as_of) = observed.inspect_err(|error| {
            // The listings at hand do not fit together.
            if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Malformed) {
                self.memory.doubt(uid);
            }
        })?;
        let claim = &question.claim;
        let is_free = || is_unused(&observed) && !question.is_of_another_cluster(balancer);
        if !is_proven && !is_free() && !claim.is_led_to(&observed, machines) {
            return Ok(Found::Refused(unproven(balancer, claim)));
        }
        self.memory.settled(uid);
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
        let listed = all.find(|listed| listed.uuid == balancer.uuid).cloned();
        // A listing may lag behind what was made.
        let there = match listed {
            Some(listed) => Some(listed),
            None => self.unlisted(&balancer.uuid).await?,
        };
        let Some(there) = there else {
            self.memory.doubt(uid);
            return Ok(None);
        };
        self.memory.settled(uid);
        known.observed.balancer = assembly::balancer(&there);
        self.memory.keep(uid, known.clone());
        Ok(Some(known))
    }

    /// The UUIDs that are known of a Service's load balancer.
    pub(super) fn recorded(&self, question: &Question) -> impl Iterator<Item = String> + use<> {
        let noted = question.claim.uuid.clone();
        let last = self.memory.last_uuid(&question.uid);
        let last = last.filter(|last| noted.as_ref() != Some(last));
        noted.into_iter().chain(last)
    }

    /// What there is by the UUIDs that are known of a Service's load balancer, whatever a listing says.
    async fn unlisted_recorded(&self, question: &Question) -> Result<Vec<Balancer>, CloudError> {
        let mut there = Vec::new();
        for uuid in self.recorded(question) {
            there.extend(self.unlisted(&uuid).await?);
        }
        Ok(there)
    }

    /// For how long a load balancer may still turn up that was asked for.
    pub(super) fn unsettled(&self, question: &Question) -> Option<Duration> {
        let Question {
            uid,
            asked_for,
            settle_time,
            ..
        } = question;
        self.memory.unsettled(uid, *asked_for, *settle_time)
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
            // It was begun after that.
            _ if self.memory.has_deleted(&question.uid) => Ok(listing),
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
    pub(super) async fn observe(
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
