//! Takes a Service's load balancer away.
//!
//! A pass asks for the deletion, and does not wait for it: a later one looks whether a complete listing that
//! was begun afterwards still has it, the same for all Services that wait. What the cloud was not asked to
//! delete is gone only if asking for it by its ID finds nothing, too.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::Shared;
use super::find::Query;
use super::outcome::{planned, turns_up};
use super::ownership::{Selection, given_away, is_of_another_cluster, kept};
use super::provider::{Listed as _, ListedOf, Provider, StepOf};
use super::step::{Effect, Step};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{
    LoadBalancerRequest, Notice, PlanSummary, PreparedPlan, Progress, ReconcileError, WriteGuard,
};

/// When to look again whether it is gone.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The same after its deletion was asked for.
const CONFIRM: Duration = Duration::from_secs(1);
/// For how long a deletion that the cloud has taken is not asked for again.
const DELETES: Duration = Duration::from_secs(60);

/// A removal that is planned.
pub(super) struct Removal<P: Provider> {
    shared: Arc<Shared<P>>,
    query: Query,
    /// What goes, and what that takes.
    targets: Vec<(ListedOf<P>, Vec<StepOf<P>>)>,
    /// When the listing was begun that says so.
    as_of: Instant,
    shown: PlanSummary,
}

/// What a complete listing says of what is to go.
struct Removable<L> {
    /// What is provably the Service's own.
    own: Vec<L>,
    /// Why other things stay that might have been its.
    kept: Vec<String>,
    /// When the listing was begun.
    as_of: Instant,
}

impl<P: Provider> Removal<P> {
    /// Plans it.
    ///
    /// # Errors
    /// [`CloudError`] unless it is certain what there is.
    pub(super) async fn prepare(
        shared: Arc<Shared<P>>,
        request: &LoadBalancerRequest,
    ) -> Result<Self, CloudError> {
        let query = Query::of(request, &*shared.provider);
        let Removable { own, kept, as_of } = shared.removable(&query, request).await?;
        let with_steps = own.into_iter().map(|listed| {
            let steps = P::removal(request, &listed);
            (listed, steps)
        });
        let targets: Vec<_> = with_steps.filter(|(_, steps)| !steps.is_empty()).collect();
        let steps = targets.iter().flat_map(|(_, steps)| steps).map(planned);
        let steps = steps.collect();
        let notices = kept.into_iter().map(|why| Notice {
            reason: reasons::LOAD_BALANCER_KEPT,
            note: format!("Nothing is deleted in {}: {why}.", P::WORDS.cloud),
            by_provider: false,
        });
        let shown = PlanSummary {
            steps,
            notices: notices.collect(),
            refused: None,
        };
        Ok(Self {
            shared,
            query,
            targets,
            as_of,
            shown,
        })
    }
}

/// Whose a load balancer is by the marks that it bears now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// The Service's.
    Own,
    /// Somebody else's, or nobody's.
    Anothers,
    /// It is not there any more.
    Gone,
}

impl<P: Provider> Shared<P> {
    /// What is provably a Service's own, and why other things stay that might have been its.
    async fn removable(
        &self,
        query: &Query,
        request: &LoadBalancerRequest,
    ) -> Result<Removable<ListedOf<P>>, CloudError> {
        let listing = self.candidates(query).await?;
        let removable = |own, kept| Removable {
            own,
            kept,
            as_of: listing.begun,
        };
        let cluster = query.cluster.as_deref();
        let all_of = |balancer, surplus: Vec<&ListedOf<P>>| -> Vec<ListedOf<P>> {
            let all = [balancer].into_iter().chain(surplus);
            all.cloned().collect()
        };
        let (mut targets, mut stay): (Vec<ListedOf<P>>, _) = match query.select(&listing) {
            Selection::Own { balancer, surplus } => {
                let all = all_of(balancer, surplus).into_iter();
                let (away, own): (Vec<_>, Vec<_>) =
                    all.partition(|balancer| is_of_another_cluster(balancer, cluster));
                return Ok(removable(own, away.iter().map(given_away).collect()));
            }
            Selection::Adopted { balancer, surplus } => {
                return Ok(removable(all_of(balancer, surplus), Vec::new()));
            }
            Selection::Unproven {
                balancer, surplus, ..
            } => match self.is_proven(query, request, balancer).await? {
                true => return Ok(removable(all_of(balancer, surplus), Vec::new())),
                false => {
                    let surplus = surplus.into_iter().cloned().collect();
                    (surplus, vec![kept(balancer)])
                }
            },
            Selection::Refused(why) => {
                let marked = listing
                    .all
                    .iter()
                    .filter(|listed| query.bears_mark(*listed));
                (marked.cloned().collect(), vec![why])
            }
            Selection::Nothing => (Vec::new(), Vec::new()),
        };
        let mut is_missing = query.claim.is_published();
        for id in self.recorded(query) {
            let listed = listing.all.iter().find(|listed| listed.id() == id);
            if let Some(listed) = listed {
                // Its status does not show any more what it had until now.
                if query.claim.had(listed, cluster) && self.cache.last_id(&query.uid) == Some(id) {
                    stay.clear();
                    targets.push(listed.clone());
                }
                continue;
            }
            if self.cache.has_deleted(&query.uid) {
                continue;
            }
            match self.unlisted(&id).await? {
                Some(there) if query.claim.may_delete(&there, cluster) => {
                    targets.push(there);
                }
                Some(_) => {
                    let what = format!("the listing of load balancers lacks {id}, which is there");
                    return Err(CloudError::new(
                        P::WORDS.provider,
                        ErrorKind::Malformed,
                        what,
                    ));
                }
                None => is_missing = true,
            }
        }
        if targets.is_empty() && stay.is_empty() {
            let listed = listing.all.iter();
            let noted = listed.filter(|listed| query.notes(*listed));
            stay.extend(noted.map(kept));
        }
        let is_nothing = targets.is_empty() && stay.is_empty();
        if is_nothing && is_missing && !self.cache.has_deleted(&query.uid) {
            self.check_credentials(request, &listing).await?;
        }
        Ok(removable(targets, stay))
    }

    /// Whether the Service's status has shown one to this process: the API server empties that of a Service that
    /// wants none any more.
    fn had_by_status(&self, listed: &ListedOf<P>, query: &Query) -> bool {
        let may_be = query.claim.had_by_status(listed, query.cluster.as_deref());
        may_be && self.cache.has_shown(&query.uid, listed.id())
    }

    /// Whether one that an annotation names was the Service's: its status has shown it, or has a host name
    /// instead of addresses and it leads to the Service.
    async fn is_proven(
        &self,
        query: &Query,
        request: &LoadBalancerRequest,
        balancer: &ListedOf<P>,
    ) -> Result<bool, CloudError> {
        if self.had_by_status(balancer, query) {
            return Ok(true);
        }
        if !query.claim.may_be_led_to(balancer) {
            return Ok(false);
        }
        let members = self.members.find(&request.nodes).await.members;
        let (observed, _) = self.provider.observe(balancer, query.asked).await?;
        let is_led_to = query.claim.is_led_to(&observed, &members);
        if is_led_to {
            self.cache.proven(&query.uid, balancer.id());
        }
        Ok(is_led_to)
    }

    /// Whose a load balancer is, read now.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says it.
    pub(super) async fn marks(&self, id: &str, query: &Query) -> Result<Marks, CloudError> {
        let cluster = query.cluster.as_deref();
        let is_own = |listed: &ListedOf<P>| {
            let had = || self.cache.last_id(&query.uid).as_deref() == Some(id);
            query.claim.may_delete(listed, cluster)
                || query.claim.had(listed, cluster) && had()
                || self.had_by_status(listed, query)
        };
        Ok(match self.provider.get(id).await? {
            Some(listed) if listed.id() == id && is_own(&listed) => Marks::Own,
            Some(_) => Marks::Anothers,
            None => Marks::Gone,
        })
    }

    /// One that a listing lacks, asked for by its ID.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud says whether it is there.
    pub(super) async fn unlisted(&self, id: &str) -> Result<Option<ListedOf<P>>, CloudError> {
        let there = self.provider.get(id).await?;
        Ok(there.filter(|there| there.id() == id))
    }

    /// Takes the steps to be rid of one. Whether the cloud has taken them; if not, it is at work on it.
    pub(super) async fn delete(
        &self,
        id: &str,
        steps: &[StepOf<P>],
        guard: &dyn WriteGuard,
    ) -> Result<bool, ReconcileError> {
        for step in steps {
            guard.before_write()?;
            match self.provider.send(step, id, &[]).await {
                Ok(_) => {
                    guard.written();
                    tracing::info!(id, %step, "gave up a load balancer");
                }
                Err(error) if error.is_not_found() => {}
                Err(error) if is_refusal(&error) => match self.provider.get(id).await {
                    Ok(Some(listed)) if listed.is_changing() => return Ok(false),
                    Ok(None) => return Ok(true),
                    _ => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Deletes what else was made for a Service whose load balancer is gone, by a listing that was begun at
    /// `since`. What something else uses stays for as long as it does. `None`: nothing is left to do.
    async fn remove_dependents(
        &self,
        query: &Query,
        since: Instant,
        guard: &dyn WriteGuard,
    ) -> Result<Option<Progress>, ReconcileError> {
        for dependent in self.provider.dependents(since).await? {
            let is_ours = dependent.owner == query.uid && dependent.cluster == query.cluster;
            let is_gone = |user: &String| self.cache.deleted(&query.uid, user).is_some();
            if !is_ours || !dependent.users.iter().all(is_gone) {
                continue;
            }
            if !dependent.users.is_empty() {
                // The cloud still shows what it has deleted.
                return Ok(Some(Progress::Wait {
                    after: LOOK_AGAIN,
                    what: format!("{} is still in use", dependent.name),
                }));
            }
            guard.before_write()?;
            self.provider.delete_dependent(&dependent).await?;
            guard.written();
            tracing::info!(name = dependent.name, "deleted what a load balancer had");
        }
        Ok(None)
    }
}

/// Whether the cloud has looked at the request and not taken it, which may be because it is at work.
pub(super) fn is_refusal(error: &CloudError) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Busy) || error.status == Some(503)
}

/// Whether nothing is left of the load balancer after this step. One that is let go is left to others.
fn deletes(step: &impl Step) -> bool {
    matches!(step.effect(&[]), Effect::DeleteBalancer(..))
}

#[async_trait]
impl<P: Provider> PreparedPlan for Removal<P> {
    fn summary(&self) -> &PlanSummary {
        &self.shown
    }

    async fn carry_out(
        self: Box<Self>,
        guard: &dyn WriteGuard,
    ) -> Result<Progress, ReconcileError> {
        let uid = &self.query.uid;
        let _turn = self.shared.cache.turn(uid).lock_owned().await;
        let cache = &self.shared.cache;
        if self.targets.is_empty() {
            if let Some(left) = self.shared.unsettled(&self.query) {
                return Ok(turns_up(left, P::WORDS));
            }
            let Self { query, as_of, .. } = &*self;
            let wait = self.shared.remove_dependents(query, *as_of, guard).await?;
            if let Some(wait) = wait {
                return Ok(wait);
            }
            cache.removed(uid);
            return Ok(Progress::Removed);
        }
        let is_partial = self.targets.iter().any(|(listed, _)| !listed.is_made());
        if let Some(left) = self.shared.unsettled(&self.query).filter(|_| is_partial) {
            // What was asked for may turn up, and nothing would lead to it then.
            return Ok(turns_up(left, P::WORDS));
        }
        let mut after = LOOK_AGAIN;
        for (listed, steps) in &self.targets {
            let (id, name) = (listed.id(), listed.name());
            let deleted = cache.deleted(uid, id);
            if listed.is_changing() && deleted.is_some_and(|at| at.elapsed() < DELETES) {
                continue;
            }
            match self.shared.marks(id, &self.query).await? {
                Marks::Own => cache.settled(uid),
                Marks::Gone => {
                    cache.deletes(uid, id);
                    continue;
                }
                Marks::Anothers => {
                    cache.invalidate(uid);
                    return Ok(Progress::Wait {
                        after: LOOK_AGAIN,
                        what: format!("the load balancer {name} is another's by now"),
                    });
                }
            }
            // Whatever becomes of it, it is looked for anew.
            let _write = cache.begin_write(uid);
            if !self.shared.delete(id, steps, guard).await? {
                return Ok(Progress::Wait {
                    after: LOOK_AGAIN,
                    what: format!("{} is at work on the load balancer {name}", P::WORDS.cloud),
                });
            }
            if steps.iter().any(deletes) {
                cache.deletes(uid, id);
            }
            after = CONFIRM;
        }
        cache.invalidate(uid);
        Ok(Progress::Wait {
            after,
            what: format!("{} is deleting the load balancer", P::WORDS.cloud),
        })
    }
}
