//! What there is for a Service, from memory or from listings.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use mooring_common::names::annotations;
use tokio::time::Instant;

use super::Shared;
use super::applied::{applied, id_of, noted};
use super::cache::CachedState;
use super::listing::Listing;
use super::members::Members;
use super::ownership::{Claim, Selection, is_of_another_cluster, missing, select, unproven};
use super::provider::{Listed, ListedOf, Observed, Provider};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::LoadBalancerRequest;
use crate::views::service_view::ServiceView;

/// How old the word that the cloud is at work on a load balancer may be.
const STATUS_AGE: Duration = Duration::from_secs(2);

/// What there is for a Service.
#[derive(Debug)]
pub(super) enum Found<P: Provider> {
    /// Nothing, by this complete listing, which was begun in this pass.
    Nothing(Arc<Listing<ListedOf<P>>>),
    /// Nothing yet: one was asked for, and may still turn up for so long.
    Unsettled(Duration),
    /// This, which has all that is wanted by the Service's own word.
    Applied(Box<ListedOf<P>>),
    /// This.
    One(Box<CachedState<P::Observed>>),
    /// It must not be known: something stands in the way.
    Refused(String),
}

/// What a Service claims of a cloud.
pub(super) fn claim<P: Provider>(service: &Arc<ServiceView>, provider: &P) -> Claim {
    Claim::of(service, P::WORDS, provider.default_name(service))
}

/// Who asks, and what for.
pub(super) struct Query {
    pub(super) uid: String,
    pub(super) claim: Claim,
    others: Vec<Claim>,
    /// The mark of this cluster.
    pub(super) cluster: Option<String>,
    /// When a load balancer was asked for in this cloud, by the Service's own word.
    asked_for: Option<Timestamp>,
    /// For how long the cloud may take to show what it was asked to make.
    settle_time: Duration,
    /// What the Service says was carried out.
    pub(super) applied: Option<String>,
    /// The ID in that, where no other annotation of central's has it.
    noted: Option<String>,
    /// Whether it may take over what somebody else uses.
    pub(super) may_take_over: bool,
    /// When it was asked.
    pub(super) asked: Instant,
}

impl Query {
    pub(super) fn of<P: Provider>(request: &LoadBalancerRequest, provider: &P) -> Self {
        let others = request.others.iter();
        Self {
            uid: request.service.uid.clone(),
            claim: claim(&request.service, provider),
            others: others.map(|other| claim(other, provider)).collect(),
            cluster: request.cluster.clone(),
            asked_for: request
                .service
                .creation_asked_of(P::WORDS.provider)
                .and_then(|text| text.parse().ok()),
            applied: request
                .service
                .annotation(annotations::APPLIED)
                .map(ToOwned::to_owned),
            noted: noted(&request.service, P::WORDS).map(ToOwned::to_owned),
            settle_time: request.settle_time,
            may_take_over: request.may_take_over,
            asked: Instant::now(),
        }
    }

    /// Whether the operator permits the Service to have a load balancer that nothing proves to be its own.
    fn may_have(&self, balancer: &impl Listed) -> bool {
        self.may_take_over && !self.is_of_another_cluster(balancer)
    }

    fn is_of_another_cluster(&self, balancer: &impl Listed) -> bool {
        is_of_another_cluster(balancer, self.cluster.as_deref())
    }

    /// Whether the Service says that this one had all that was wanted, and it is nobody's. That is no proof:
    /// whoever may write a Service can write that too.
    pub(super) fn notes(&self, balancer: &impl Listed) -> bool {
        let noted = self.applied.as_deref().and_then(id_of);
        noted == Some(balancer.id())
            && balancer.owner().is_none()
            && !self.is_of_another_cluster(balancer)
    }

    /// Whether one bears the marks of the Service and of this cluster.
    pub(super) fn bears_mark(&self, balancer: &impl Listed) -> bool {
        balancer.owner() == Some(self.uid.as_str()) && !self.is_of_another_cluster(balancer)
    }

    /// What of a listing is the Service's own.
    pub(super) fn select<'a, L: Listed>(&self, listing: &'a Listing<L>) -> Selection<'a, L> {
        self.select_among(&listing.all)
    }

    /// Whether the one is in a listing that a person wants the Service to have, if somebody wants one.
    fn has_wish<L: Listed>(&self, listing: &Listing<L>) -> bool {
        let is_listed = |wish: &str| listing.all.iter().any(|listed| listed.id() == wish);
        self.claim.wish().is_none_or(is_listed)
    }

    /// One that the Service may have, of which the cloud does not say the addresses: only these would prove it.
    fn unshown<'a, L: Listed>(&self, listing: &'a Listing<L>) -> Option<&'a L> {
        if !self.claim.is_published() || matches!(self.select(listing), Selection::Own { .. }) {
            return None;
        }
        let mut all = listing.all.iter();
        all.find(|one| one.lacks_addresses() && one.owner().is_none() && self.claim.means(*one))
    }

    /// What of these is the Service's own.
    fn select_among<'a, L: Listed>(&self, balancers: &'a [L]) -> Selection<'a, L> {
        select(balancers, &self.claim, &self.others)
    }
}

impl<P: Provider> Shared<P> {
    /// What there is for a Service that is to have a load balancer. `fingerprint`: of what is wanted. What
    /// was carried out is not observed again when this process starts: the Service says so, and the regular
    /// look at everything follows.
    ///
    /// # Errors
    /// [`CloudError`] unless the answers are complete.
    pub(super) async fn find(
        &self,
        query: &Query,
        members: &Members,
        fingerprint: Option<&str>,
    ) -> Result<Found<P>, CloudError> {
        let uid = &query.uid;
        let wish = query.claim.wish();
        let means = |observed: &P::Observed| query.claim.may_be_meant(observed.listed());
        if let Some(known) = self.remembered(uid, means).await?
            && wish.is_none_or(|wish| known.observed.listed().id() == wish)
        {
            return Ok(Found::One(Box::new(known)));
        }
        let since = self.cache.since(uid);
        let listing = self.candidates(query).await?;
        let unlisted: Vec<ListedOf<P>>;
        let mut selection = query.select(&listing);
        // A listing may lag behind what was made, or lack what is there.
        if let Some(wish) = wish
            && !query.has_wish(&listing)
        {
            let Some(there) = self.unlisted(wish).await? else {
                return Ok(Found::Refused(missing(wish, &query.claim)));
            };
            unlisted = listing.all.iter().cloned().chain([there]).collect();
            selection = query.select_among(&unlisted);
        } else if matches!(selection, Selection::Nothing) {
            unlisted = self.unlisted_recorded(query).await?;
            selection = query.select_among(&unlisted);
        }
        let (balancer, surplus, is_proven, rival) = match selection {
            Selection::Nothing => {
                let unsettled = self.unsettled(query);
                return Ok(unsettled.map_or(Found::Nothing(listing), Found::Unsettled));
            }
            Selection::Refused(why) => return Ok(Found::Refused(why)),
            Selection::Own { balancer, surplus } | Selection::Adopted { balancer, surplus } => {
                (balancer, surplus, true, None)
            }
            Selection::Unproven {
                balancer,
                surplus,
                rival,
            } => {
                let may_have = rival.is_none() && query.may_have(balancer);
                (balancer, surplus, may_have, rival)
            }
        };
        let wanted = fingerprint.map(|of_desired| applied(balancer, of_desired));
        if is_proven
            && surplus.is_empty()
            && !balancer.lacks_addresses()
            && wanted.is_some()
            && query.applied == wanted
            && self.cache.is_untouched(uid)
        {
            return Ok(Found::Applied(Box::new(balancer.clone())));
        }
        // What nothing proves to be its own is judged by what it is used for now.
        let since = if is_proven { since } else { query.asked };
        let mut observed = self.provider.observe(balancer, since).await;
        if let Ok((incomplete, _)) = &observed
            && query.claim.is_published()
            && incomplete.lacks_parts()
        {
            // It has served, and parts are missing: one listing alone is not believed.
            observed = self.provider.observe(balancer, Instant::now()).await;
        }
        let (observed, as_of) = observed.inspect_err(|error| {
            // The listings at hand do not fit together.
            if matches!(error.kind, ErrorKind::NotFound | ErrorKind::Malformed) {
                self.cache.invalidate(uid);
            }
        })?;
        let claim = &query.claim;
        let is_unused = observed.is_unused() && !query.is_of_another_cluster(balancer);
        let may_be_had = is_proven || rival.is_none() && is_unused;
        if !may_be_had && !claim.is_led_to(&observed, members) {
            let why = rival.unwrap_or_else(|| unproven(balancer, claim));
            return Ok(Found::Refused(why));
        }
        if observed.listed().is_made() {
            self.cache.settled(uid);
        }
        let as_of = as_of.min(listing.begun);
        let known = CachedState {
            observed,
            surplus: surplus.into_iter().cloned().collect(),
            as_of,
            written: as_of,
        };
        self.cache.keep(uid, known.clone());
        Ok(Found::One(Box::new(known)))
    }

    /// What is remembered of a Service's own, or of one without a mark that it still `means`. While
    /// the cloud is at work on it, or does not say its addresses, it is looked up, for all who wait together.
    pub(super) async fn remembered(
        &self,
        uid: &str,
        means: impl Fn(&P::Observed) -> bool,
    ) -> Result<Option<CachedState<P::Observed>>, CloudError> {
        let is_own = |known: &CachedState<P::Observed>| match known.observed.listed().owner() {
            Some(owner) => owner == uid,
            None => means(&known.observed),
        };
        let Some(mut known) = self.cache.known(uid).filter(is_own) else {
            return Ok(None);
        };
        let listed = known.observed.listed();
        let id = listed.id().to_owned();
        if !listed.is_changing() && !listed.lacks_addresses() {
            return Ok(Some(known));
        }
        let now = Instant::now();
        let since = now.checked_sub(STATUS_AGE).unwrap_or(now);
        let listing = self.listings.get(since.max(known.written)).await?;
        let mut all = listing.all.iter();
        let listed = all.find(|listed| listed.id() == id).cloned();
        // A listing may lag behind what was made.
        let there = match listed {
            Some(listed) => Some(listed),
            None => self.unlisted(&id).await?,
        };
        let Some(there) = there else {
            self.cache.invalidate(uid);
            return Ok(None);
        };
        self.cache.settled(uid);
        *known.observed.listed_mut() = there;
        self.cache.keep(uid, known.clone());
        Ok(Some(known))
    }

    /// The IDs that are known of a Service's load balancer: by its annotations, which anybody may have written,
    /// and from this process.
    pub(super) fn recorded(&self, query: &Query) -> Vec<String> {
        let last = self.cache.last_id(&query.uid);
        let mut recorded: Vec<String> = Vec::new();
        for id in [query.claim.id.clone(), query.noted.clone(), last] {
            recorded.extend(id.filter(|id| !recorded.contains(id)));
        }
        recorded
    }

    /// What there is by the IDs that are known of a Service's load balancer, whatever a listing says.
    async fn unlisted_recorded(&self, query: &Query) -> Result<Vec<ListedOf<P>>, CloudError> {
        let mut there = Vec::new();
        for id in self.recorded(query) {
            there.extend(self.unlisted(&id).await?);
        }
        Ok(there)
    }

    /// For how long a load balancer may still turn up that was asked for.
    pub(super) fn unsettled(&self, query: &Query) -> Option<Duration> {
        let Query {
            uid,
            asked_for,
            settle_time,
            ..
        } = query;
        self.cache.unsettled(uid, *asked_for, *settle_time)
    }

    /// A listing that tells what there is for a Service: the one at hand if it shows one that bears
    /// the Service's mark, and the one that a person wants it to have, else one that is begun now, since nothing is made or adopted on an old
    /// one's word.
    pub(super) async fn candidates(
        &self,
        query: &Query,
    ) -> Result<Arc<Listing<ListedOf<P>>>, CloudError> {
        let since = self.cache.since(&query.uid);
        let listing = self.listings.get(since).await?;
        let listing = match query.select(&listing) {
            Selection::Own { .. } if query.has_wish(&listing) => return Ok(listing),
            // It was begun after that.
            _ if self.cache.has_deleted(&query.uid) => listing,
            _ => self.listings.get(query.asked).await?,
        };
        match query.unshown(&listing) {
            None => Ok(listing),
            Some(unshown) => Err(CloudError::new(
                P::WORDS.provider,
                ErrorKind::Busy,
                format!(
                    "the cloud does not say now which addresses the load balancer {} ({}) has, and nothing else \
                     tells whether it is this Service's; nothing is changed or deleted until it says them",
                    unshown.name(),
                    unshown.id()
                ),
            )),
        }
    }
}
