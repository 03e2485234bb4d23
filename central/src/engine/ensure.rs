//! A plan for a Service that is to have a load balancer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Plan;
use tokio::time::Instant;

use super::Shared;
use super::apply::Work;
use super::cache::CachedState;
use super::exclusive::Permitted;
use super::find::{Found, Query};
use super::members;
use super::outcome::{planned, turns_up};
use super::provider::{Observed, Provider, Step, StepOf};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, LoadBalancerStatus, PlanSummary, PreparedPlan, Progress, ReconcileError,
    WriteGuard,
};

/// A plan for a Service that is to have a load balancer.
pub(super) struct EnsurePlan<P: Provider> {
    shared: Arc<Shared<P>>,
    query: Query,
    options: P::Options,
    /// What there is; `None`: nothing.
    known: Option<CachedState<P::Observed>>,
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
        let options = P::read(&request.service).map_err(ReconcileError::Invalid)?;
        let query = Query::of(request, P::WORDS);
        let selector = P::selector(&options);
        let nodes = request.nodes.iter().filter(|node| selector.matches(node));
        let nodes: Vec<_> = nodes.cloned().collect();
        let members::Found {
            members,
            mut notices,
            again,
        } = shared.members.find(&nodes).await;
        let mut desired = P::desired(request, &options, &members);
        let mut unsettled = None;
        let (known, as_of) = match shared.find(&query, &members).await? {
            Found::Nothing(listing) => {
                if again.is_none() {
                    shared.check_credentials(request, &listing).await?;
                }
                (None, listing.begun)
            }
            Found::Unsettled(left) => {
                unsettled = Some(left);
                (None, query.asked)
            }
            Found::One(known) => (Some(*known), query.asked),
            Found::Refused(why) => return Err(ReconcileError::Refused(why)),
        };
        let observed = known.as_ref().map(|known| &known.observed);
        let wanted = P::exclusives_of(&desired);
        let permitted = shared
            .check_exclusives(request, &query, wanted, observed)
            .await?;
        let settled = shared
            .provider
            .settle(request, &members, &mut desired, observed);
        let (is_held, told) = settled.await?;
        notices.extend(told);
        let again = shared.cache.held(&query.uid, is_held).or(again);
        let is_changing = observed.is_some_and(Observed::is_changing);
        notices.extend(P::notices(request, &options, &desired, &members, observed));
        let plan = match P::plan(&desired, observed) {
            _ if unsettled.is_some() => Plan::default(),
            // Nothing is done until the cloud is, and then all of it can be told.
            Err(_) if is_changing || (observed.is_none() && again.is_some()) => Plan::default(),
            Err(why) => return Err(why.with(notices)),
            Ok(plan) => plan,
        };
        let mut steps = plan.steps().to_vec();
        let surplus = known.iter().flat_map(|known| &known.surplus);
        steps.extend(surplus.map(|(id, name)| Step::delete_balancer(id, name)));
        let shown = PlanSummary {
            steps: steps.iter().map(planned).collect(),
            notices,
        };
        Ok(Self {
            shared,
            query,
            options,
            known,
            as_of,
            steps,
            permitted,
            shown,
            unsettled,
            again,
        })
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
            return Ok(turns_up(left, P::WORDS));
        }
        let observed = self.known.as_ref().map(|known| &known.observed);
        if let Some(changing) = observed.filter(|observed| observed.is_changing()) {
            return Ok(shared.wait(&self.query.uid, changing.name()));
        }
        shared.cache.rested(&self.query.uid);
        let mut work = Work::new(
            shared,
            guard,
            &self.query,
            self.permitted,
            self.known,
            self.as_of,
        );
        if let Some(wait) = work.run(&self.steps).await? {
            return Ok(wait);
        }
        let notices = work.notices();
        let refused = shared.cache.refused(&self.query.uid, !notices.is_empty());
        match (work.into_known(), self.again) {
            (Some(known), again) => Ok(Progress::Ensured(LoadBalancerStatus {
                again: again.into_iter().chain(refused).min(),
                notices,
                ..P::status(&known.observed, &self.options)
            })),
            (None, Some(after)) => Ok(Progress::Wait {
                after,
                what: "the servers of the Nodes cannot be listed".to_owned(),
            }),
            (None, None) => Ok(Progress::Ensured(LoadBalancerStatus::default())),
        }
    }
}
