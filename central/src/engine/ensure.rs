//! A plan for a Service that is to have a load balancer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Plan;
use mooring_common::names::annotations;
use tokio::time::Instant;

use super::Shared;
use super::annotations::Reader;
use super::applied::applied;
use super::apply::Work;
use super::cache::CachedState;
use super::drains::Drains;
use super::endpoints::EndpointStates;
use super::exclusive::Permitted;
use super::find::{Found, Query};
use super::members::{self, Members};
use super::notices;
use super::outcome::{planned, turns_up};
use super::provider::{Desired as _, Listed, ListedOf, Observed as _, Provider, StepOf, Unready};
use super::{kept_members, zones};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, Notice, PlanSummary, PreparedPlan, Progress,
    ReconcileError, WriteGuard,
};

/// A plan for a Service that is to have a load balancer.
pub(super) struct EnsurePlan<P: Provider> {
    shared: Arc<Shared<P>>,
    query: Query,
    options: P::Options,
    desired: P::Desired,
    /// What there is; `None`: nothing.
    known: Option<CachedState<P::Observed>>,
    /// What has all that is wanted, by the Service's own word, and is not observed before something changes.
    applied: Option<ListedOf<P>>,
    /// What the Service is to say once all is carried out.
    fingerprint: Option<String>,
    /// When the listing was begun that says so.
    as_of: Instant,
    steps: Vec<StepOf<P>>,
    /// The exclusive resources that it may be given.
    permitted: Permitted,
    shown: PlanSummary,
    /// For how long what was asked for may still turn up that nothing shows.
    unsettled: Option<Duration>,
    /// When to look again, if not all of the Nodes' machines could be asked for, or if members wait for
    /// others to serve.
    again: Option<Duration>,
}

impl<P: Provider> EnsurePlan<P> {
    pub(super) async fn prepare(
        shared: Arc<Shared<P>>,
        request: &LoadBalancerRequest,
    ) -> Result<Self, ReconcileError> {
        let mut reader = Reader::new(&request.service);
        let provider = &*shared.provider;
        let options = provider.read(&mut reader);
        let questions = reader.finish().map_err(ReconcileError::Invalid)?;
        let query = Query::of(request, provider);
        let nodes = members::selected(&request.nodes, P::selector(&options));
        let members::Found {
            members,
            mut notices,
            again,
        } = shared.members.find(&nodes).await;
        let all = members.with_attachments(&nodes, |node, own| P::attachments(&options, node, own));
        let members = all.clone().for_nodes(&nodes, P::subnets(&options));
        let mut desired = P::desired(request, &options, &members);
        // Members that stay for now are not among what is wanted.
        let fingerprint = desired.fingerprint().filter(|_| members.unread.is_empty());
        let there = shared.find(&query, &all, fingerprint.as_deref()).await?;
        // What a person should know is told whatever comes of the rest.
        let with_notices =
            |mut told: Vec<Notice>, desired: &P::Desired, observed: Option<&P::Observed>| {
                told.extend(questions.iter().cloned());
                let of_request = notices::of::<P>(request, &options, desired, &members, observed);
                told.extend(of_request);
                told
            };
        let mut unsettled = None;
        let mut applied = None;
        let mut is_in_doubt = false;
        let (known, as_of) = match there {
            Found::Applied(listed) => {
                applied = Some(*listed);
                (None, query.asked)
            }
            Found::Nothing(listing) => {
                is_in_doubt = shared.are_in_doubt(request, &listing, again).await?;
                (None, listing.begun)
            }
            Found::Unsettled(left) => {
                unsettled = Some(left);
                (None, query.asked)
            }
            Found::One(known) => {
                let listed = known.observed.listed();
                if query.claim.shows(listed) {
                    shared.cache.shown(&query.uid, listed.id());
                }
                (Some(*known), query.asked)
            }
            Found::Refused(why) => {
                let notices = with_notices(notices, &desired, None);
                return Err(ReconcileError::Refused(why).with(notices));
            }
        };
        let observed = known.as_ref().map(|known| &known.observed);
        let since = shared.cache.since(&query.uid);
        let looked_up = provider.look_up(&mut desired, observed, since).await;
        let checked = match looked_up {
            Ok(()) => {
                shared
                    .check_exclusives(request, &query, &mut desired, observed)
                    .await
            }
            Err(why) => Err(why),
        };
        let (permitted, refused) = match checked {
            Ok(checked) => checked,
            Err(why) => return Err(why.with(with_notices(notices, &desired, observed))),
        };
        kept_members::keep(&mut desired, &members.unread, observed);
        notices.extend(zones::keep(&mut desired, &members, observed));
        let is_held = shared
            .follow_endpoints(request, &members, &mut desired, observed)
            .await?;
        let held = shared.cache.held(&query.uid, is_held).or(again);
        let drained = observed.and_then(|observed| {
            let since = shared.cache.drains(&query.uid);
            let mut drains = Drains::new(provider.drain_period(), since);
            desired.drain(observed, &mut drains);
            let (next, since) = drains.finish();
            shared.cache.keep_drains(&query.uid, since);
            next
        });
        let again = held.into_iter().chain(drained).min();
        let is_changing = observed.is_some_and(|observed| observed.listed().is_changing());
        let notices = with_notices(notices, &desired, observed);
        if observed.is_some_and(|observed| !observed.listed().is_made()) {
            // Something is there, but not what was asked for last.
            unsettled = shared.unsettled(&query);
        }
        let plan = match P::plan(&desired, observed) {
            _ if unsettled.is_some() || applied.is_some() || is_in_doubt => Plan::default(),
            // Nothing is done until the cloud is, and then all of it can be told.
            Err(_) if is_changing || (observed.is_none() && again.is_some()) => Plan::default(),
            Err(why) => {
                let why = refused.map_or(why, ReconcileError::Refused);
                return Err(why.with(notices));
            }
            Ok(plan) => plan,
        };
        let mut steps = plan.steps().to_vec();
        let surplus = known.iter().flat_map(|known| &known.surplus);
        steps.extend(surplus.flat_map(|listed| P::removal(request, listed)));
        let shown = PlanSummary {
            steps: steps.iter().map(planned).collect(),
            notices,
            refused,
        };
        Ok(Self {
            shared,
            query,
            options,
            desired,
            known,
            applied,
            fingerprint,
            as_of,
            steps,
            permitted,
            shown,
            unsettled,
            again,
        })
    }
}

impl<P: Provider> Shared<P> {
    /// Says of each member that is wanted whether it is enabled, where endpoints are followed. Gives whether
    /// some wait for others to serve.
    async fn follow_endpoints(
        &self,
        request: &LoadBalancerRequest,
        members: &Members,
        desired: &mut P::Desired,
        observed: Option<&P::Observed>,
    ) -> Result<bool, CloudError> {
        let states = EndpointStates::of(request, members);
        let (Some(states), Some(observed)) = (states, observed) else {
            return Ok(false);
        };
        let pools = states.to_ask(desired.pools(), observed);
        let serving = self.provider.serving(&pools).await?;
        Ok(states.settle(desired.pools(), observed, &serving))
    }
}

#[async_trait]
impl<P: Provider> PreparedPlan for EnsurePlan<P> {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let shared = &self.shared;
        let _turn = shared.cache.turn(&self.query.uid).lock_owned().await;
        if let Some(left) = self.unsettled {
            // What lacks it is not remembered: each look is a new one.
            shared.cache.invalidate(&self.query.uid);
            return Ok(turns_up(left, P::WORDS));
        }
        let listed = self.known.as_ref().map(|known| known.observed.listed());
        if let Some(changing) = listed.filter(|listed| listed.is_changing()) {
            return Ok(shared.wait(&self.query.uid, changing.name()));
        }
        let mut work = Work::new(
            shared,
            guard,
            &self.query,
            self.permitted,
            self.known,
            self.as_of,
        );
        let ran = work.run(&self.steps).await.inspect_err(|error| {
            // Something that a step names is no more: a Node's machine, it may be.
            if matches!(error, ReconcileError::Cloud(error) if error.is_not_found()) {
                shared.members.doubt();
            }
        });
        if let Some(wait) = ran? {
            return Ok(wait);
        }
        let notices = work.notices();
        let refused = shared.cache.refused(&self.query.uid, !notices.is_empty());
        let again = self.again.into_iter().chain(refused).min();
        let known = work.into_known();
        let unready = known
            .as_ref()
            .and_then(|known| P::unready(&self.desired, &known.observed));
        if let Some(unready) = unready {
            // How far it has come is asked anew.
            shared.cache.invalidate(&self.query.uid);
            return match unready {
                Unready::Wait(what) => Ok(shared.wait_for(&self.query.uid, what)),
                Unready::Failed(why) => {
                    let error = CloudError::new(P::WORDS.provider, ErrorKind::Busy, why);
                    Err(ReconcileError::Cloud(error).with(notices))
                }
            };
        }
        let listed = known.as_ref().map(|known| known.observed.listed());
        let listed = listed.or(self.applied.as_ref());
        if let Some(listed) = listed.filter(|listed| listed.lacks_addresses()) {
            let (cloud, name) = (P::WORDS.cloud, listed.name());
            let what = format!("{cloud} does not say the addresses of the load balancer {name}");
            return Ok(shared.wait_for(&self.query.uid, what));
        }
        shared.cache.rested(&self.query.uid);
        if let Some(why) = self.shown.refused {
            return Err(ReconcileError::Refused(why).with_retry(notices, again));
        }
        match (listed, self.again) {
            (Some(listed), _) => {
                let mut status = P::status(listed, &self.options);
                let fingerprint = self.fingerprint.filter(|_| again.is_none());
                status.annotations.extend(
                    fingerprint
                        .map(|of_desired| (annotations::APPLIED, applied(listed, &of_desired))),
                );
                Ok(Progress::Ensured(LoadBalancerStatus {
                    again,
                    notices,
                    ..status
                }))
            }
            (None, Some(after)) => Ok(Progress::Wait {
                after,
                what: "the servers of the Nodes cannot be listed".to_owned(),
            }),
            (None, None) => Ok(Progress::Ensured(LoadBalancerStatus::default())),
        }
    }
}
