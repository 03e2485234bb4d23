//! Changes routes and conditions, and says what could not be done.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ApiFailure, EventKind, Slim as _, classify};
use mooring_common::names::{node_conditions, reasons};
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use mooring_common::work_queue::Backoff;
use serde_json::json;
use tokio::time::Instant;

use super::Controller;
use super::history::called_for;
use super::plan::{Decisions, Refusal, Refused, RouteStep};
use crate::cloud_provider::pod_network::{Route, RouteError, RouteTable};
use crate::election::NotLeading;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Route(#[from] RouteError),
    #[error("the API server did not do it")]
    Api(#[from] kube::Error),
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

/// How long a route is left alone that could not be created.
const AFTER_FAILURE: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(60),
};

/// How many steps are taken at the same time.
const SIDE_BY_SIDE: usize = 8;

/// How long a condition that was written may take to show in the cache.
const SHOWS_WITHIN: Duration = Duration::from_secs(10);

/// What is remembered from pass to pass.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// How often a route could not be created in a row, and when it is tried again.
    failed: HashMap<Route, (u32, Instant)>,
    /// What was said of a Node, by its UID, since it lacks a route.
    pub(super) told: HashMap<String, BTreeSet<String>>,
    /// The condition last written on a Node, by its UID.
    conditions: HashMap<String, (bool, Instant)>,
    /// Routes that were made (true) or deleted, and when: older listings do not show it.
    written: HashMap<Route, (bool, Instant)>,
    /// What was logged.
    pub(super) unclaimed: BTreeSet<Route>,
}

impl Attempts {
    /// Brings a listing that was begun then up to date.
    pub(super) fn show_written(&mut self, begun: Instant, table: &mut RouteTable) {
        self.written.retain(|_, (_, at)| *at >= begun);
        for (route, (is_there, _)) in &self.written {
            if let Some(ranges) = table.get_mut(&route.machine) {
                ranges.retain(|range| *range != route.destination);
                ranges.extend(is_there.then_some(route.destination));
            }
        }
    }
}

impl Controller {
    pub(super) fn attempts(&self) -> std::sync::MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the steps, deletions first, those of one machine one after the other. Gives the UIDs of the Nodes
    /// that lack a route now, and when to try again at the latest.
    pub(super) async fn apply(&self, decisions: &Decisions) -> (HashSet<String>, Option<Duration>) {
        let steps = decisions.plan.steps().to_vec().into_iter();
        let (deletions, creations): (Vec<_>, Vec<_>) =
            steps.partition(|step| matches!(step, RouteStep::Delete { .. }));
        let mut lacking = HashSet::new();
        let mut next: Option<Duration> = None;
        for steps in [deletions, creations] {
            let take = |step: RouteStep| {
                let taken = async move { (self.take(&step).await, step) };
                taken.boxed()
            };
            for (taken, step) in by_machine(steps, take).await {
                let Err(wait) = taken else { continue };
                next = Some(next.map_or(wait, |next| next.min(wait)));
                if let RouteStep::Create { node, .. } = step {
                    lacking.insert(node.uid.clone());
                }
            }
        }
        for refused in &decisions.refused {
            lacking.insert(refused.node.uid.clone());
            self.report(&refused.node, self.explain(refused)).await;
        }
        (lacking, next)
    }

    /// Fails with how long the step is left alone.
    async fn take(&self, step: &RouteStep) -> Result<(), Duration> {
        let route = step.route();
        if let Some(wait) = self.pause(route) {
            return Err(wait);
        }
        let Err(failure) = self.carry_out(step).await else {
            self.attempts().failed.remove(route);
            return Ok(());
        };
        let error = with_causes(&failure);
        tracing::warn!(error, "could not {step}");
        if let (RouteStep::Create { node, .. }, Failure::Route(RouteError::Cloud(error))) =
            (step, &failure)
        {
            let (cidr, name) = (route.destination, &node.name);
            let note = format!("Could not create route {cidr} for node {name}: {error}");
            self.report(node, note).await;
        }
        Err(self.failed(route))
    }

    async fn carry_out(&self, step: &RouteStep) -> Result<(), Failure> {
        let may_write = || self.context.leadership.check();
        let is_there = matches!(step, RouteStep::Create { .. });
        match step {
            RouteStep::Create { route, .. } => self.routes.create(route, &may_write).await?,
            RouteStep::Delete { route, node } => {
                if self.is_wanted(route, node.as_deref()).await? {
                    return Ok(());
                }
                self.routes.delete(route, &may_write).await?;
                self.history.deleted(route);
            }
        }
        let written = (is_there, Instant::now());
        self.attempts()
            .written
            .insert(step.route().clone(), written);
        tracing::info!("{step}");
        Ok(())
    }

    /// Whether a Node calls for a route, by the API server itself: the cache may have lost the Node.
    async fn is_wanted(&self, route: &Route, node: Option<&str>) -> Result<bool, Failure> {
        let Some(name) = node else {
            return Ok(false);
        };
        let live = self.nodes.get_opt(name).await?.map(NodeView::slim);
        Ok(called_for(live.as_ref(), &*self.context.instances).contains(route))
    }

    fn pause(&self, route: &Route) -> Option<Duration> {
        let (_, until) = *self.attempts().failed.get(route)?;
        until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    fn failed(&self, route: &Route) -> Duration {
        let mut attempts = self.attempts();
        let (failures, until) = attempts
            .failed
            .entry(route.clone())
            .or_insert((0, Instant::now()));
        *failures += 1;
        let wait = AFTER_FAILURE.after(*failures);
        *until = Instant::now() + wait;
        wait
    }

    pub(super) fn explain(&self, refused: &Refused) -> String {
        let (cidr, name) = (refused.route.destination, &refused.node.name);
        let why = match &refused.why {
            Refusal::Unroutable(why) => self.routes.explain(&refused.route, *why),
            Refusal::Claimed { by } => format!(
                "Node {by}, which is older, has the same pod CIDR; delete Node {name} so that it registers \
                 again and gets another one"
            ),
            Refusal::Elsewhere { machine } => format!(
                "the range is on {machine}, and nothing shows that it was put there for a Node of this \
                 cluster; remove it from that machine if nobody needs it there"
            ),
        };
        format!("Could not create route {cidr} for node {name}: {why}")
    }

    /// The same is said once, until the Node has all its routes.
    async fn report(&self, node: &Arc<NodeView>, note: String) {
        let is_news = {
            let mut attempts = self.attempts();
            let told = attempts.told.entry(node.uid.clone()).or_default();
            told.insert(note.clone())
        };
        if is_news {
            let (about, reason) = (node.reference(), reasons::FAILED_TO_CREATE_ROUTE);
            let kind = EventKind::Warning;
            self.events.report(&about, kind, reason, note).await;
        }
    }

    /// Writes the conditions, but for those that were just written and do not show yet.
    pub(super) async fn write_conditions(
        &self,
        conditions: Vec<(Arc<NodeView>, bool)>,
    ) -> Result<(), Failure> {
        let is_new = |(node, wanted): &(Arc<NodeView>, bool)| {
            let attempts = self.attempts();
            let written = attempts.conditions.get(&node.uid);
            !written.is_some_and(|(last, at)| last == wanted && at.elapsed() < SHOWS_WITHIN)
        };
        let writes = conditions.into_iter().filter(is_new);
        let writes = writes.map(async |(node, wanted)| self.write_condition(&node, wanted).await);
        let mut ended = stream::iter(writes).buffer_unordered(SIDE_BY_SIDE);
        let mut failure = Ok(());
        while let Some(written) = ended.next().await {
            failure = written.and(failure);
        }
        failure
    }

    async fn write_condition(
        &self,
        node: &Arc<NodeView>,
        is_unavailable: bool,
    ) -> Result<(), Failure> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let (status, reason, message) = if is_unavailable {
            (
                "True",
                node_conditions::NO_ROUTE_CREATED,
                "RouteController failed to create a route",
            )
        } else {
            (
                "False",
                node_conditions::ROUTE_CREATED,
                "RouteController created a route",
            )
        };
        // Conditions are merged by their type; another Node of this name is left alone.
        let patch = json!({
            "metadata": { "uid": node.uid },
            "status": { "conditions": [{
                "type": node_conditions::NETWORK_UNAVAILABLE, "status": status, "reason": reason,
                "message": message, "lastHeartbeatTime": now, "lastTransitionTime": now,
            }] },
        });
        self.context.leadership.check()?;
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        let patched = self.nodes.patch_status(&node.name, &params, &patch);
        match patched.await {
            Ok(_) => {
                let mut attempts = self.attempts();
                let written = (is_unavailable, Instant::now());
                attempts.conditions.insert(node.uid.clone(), written);
                tracing::info!(
                    node = node.name,
                    is_unavailable,
                    "NetworkUnavailable is written"
                );
                Ok(())
            }
            Err(error) => match classify(&error) {
                ApiFailure::NotFound | ApiFailure::Conflict => Ok(()),
                _ => Err(error.into()),
            },
        }
    }

    /// Forgets what concerns no Node any more, and what Nodes have been told that have their routes now.
    pub(super) fn forget(
        &self,
        nodes: &HashSet<&str>,
        lacking: &HashSet<String>,
        planned: &HashSet<&Route>,
    ) {
        let mut attempts = self.attempts();
        attempts.told.retain(|uid, _| lacking.contains(uid));
        attempts
            .conditions
            .retain(|uid, _| nodes.contains(uid.as_str()));
        attempts.failed.retain(|route, _| planned.contains(route));
    }
}

/// Takes steps, those of one machine one after the other: what is read of it is written back. Gives what came
/// of each.
async fn by_machine<'a, T: Send>(
    steps: Vec<RouteStep>,
    take: impl Fn(RouteStep) -> BoxFuture<'a, T> + Copy + Send,
) -> Vec<T> {
    let mut machines: HashMap<ProviderId, Vec<RouteStep>> = HashMap::new();
    for step in steps {
        let machine = step.route().machine.clone();
        machines.entry(machine).or_default().push(step);
    }
    let taken = machines.into_values().map(|steps| async move {
        let mut taken = Vec::new();
        for step in steps {
            taken.push(take(step).await);
        }
        taken
    });
    let taken = stream::iter(taken).buffer_unordered(SIDE_BY_SIDE);
    taken.concat().await
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_machine_is_written_on_one_step_at_a_time() {
        let step = |machine: &str, range: &str| RouteStep::Delete {
            route: Route {
                machine: machine.parse().unwrap(),
                destination: range.parse().unwrap(),
            },
            node: None,
        };
        let (one, other) = ("linode://1", "linode://2");
        let steps = vec![
            step(one, "10.0.1.0/24"),
            step(one, "10.0.2.0/24"),
            step(other, "10.0.3.0/24"),
        ];
        let under_way = Mutex::new(Vec::new());
        let now = || under_way.lock().unwrap();
        let take = |step: RouteStep| {
            let taken = async move {
                let machine = step.route().machine.clone();
                let before = now().clone();
                assert!(!before.contains(&machine), "{machine} twice at once");
                now().push(machine.clone());
                tokio::time::sleep(Duration::from_secs(1)).await;
                now().retain(|other| *other != machine);
                !before.is_empty()
            };
            taken.boxed()
        };
        let beside_another = by_machine(steps, take).await;
        assert_eq!(beside_another.len(), 3);
        assert!(
            beside_another.contains(&true),
            "machines are written on side by side"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_shows_in_older_listings() {
        let route = |range: &str| Route {
            machine: "linode://7".parse().unwrap(),
            destination: range.parse().unwrap(),
        };
        let (kept, made, gone) = ("10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24");
        let begun = Instant::now();
        let mut attempts = Attempts::default();
        attempts.written.insert(route(made), (true, begun));
        attempts.written.insert(route(gone), (false, begun));
        let listed = RouteTable::from([(
            route(kept).machine,
            vec![route(kept).destination, route(gone).destination],
        )]);
        let mut shown = listed.clone();
        attempts.show_written(begun, &mut shown);
        let expected = vec![route(kept).destination, route(made).destination];
        assert_eq!(shown[&route(kept).machine], expected);
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut later = listed.clone();
        attempts.show_written(Instant::now(), &mut later);
        assert_eq!(later, listed, "a later listing says it itself");
    }
}
