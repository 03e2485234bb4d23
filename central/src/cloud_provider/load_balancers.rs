//! What central asks of a cloud that has load balancers.
//!
//! ```text
//!   LoadBalancerRequest ──► prepare: observe and plan ──► PreparedPlan ──► shown: Events, `mooring-central plan`
//!                                               └──────► carried out: Progress, or a ReconcileError
//! ```
//!
//! A pass is short. What takes its time in the cloud is waited for between passes
//! ([`Progress::Wait`]), so that no worker is occupied, and each pass plans anew from what the
//! cluster says then.

mod request;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::engine::Impact;
use mooring_common::k8s::{EventKind, ObjectKey};
use mooring_common::node_view::NodeView;

use crate::cloud_api::CloudError;
use crate::election::NotLeading;
use crate::views::service_view::{Ingress, ServiceView};
pub use request::{
    Endpoints, HealthCheck, HealthTarget, LoadBalancerRequest, Others, Presence, TakeOver,
};

/// One step of a plan, for people and for machines.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct PlannedStep {
    /// What will be done, in words.
    pub step: String,
    /// What users will notice: `none`, `brief`, `considerable` or `major`.
    #[serde(serialize_with = "as_text")]
    pub impact: Impact,
}

fn as_text<S: serde::Serializer>(impact: &Impact, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(impact)
}

/// Something that a person should know although the plan can be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Notice {
    /// The Event's reason.
    pub reason: &'static str,
    /// What it is, and what to do about it.
    pub note: String,
    /// Whether the provider reports it in its own name ([`LoadBalancers::component`]).
    #[serde(skip)]
    pub by_provider: bool,
}

/// A plan that can be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PlanSummary {
    /// The steps in order. Empty: all is as wanted.
    pub steps: Vec<PlannedStep>,
    /// What a person should know.
    pub notices: Vec<Notice>,
    /// What the Service cannot have of what it asks for, and why: the pass ends with that once all steps are
    /// taken. `None`: it can have all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl PlanSummary {
    /// The worst that users will notice of any step.
    #[must_use]
    pub fn impact(&self) -> Impact {
        let impacts = self.steps.iter().map(|step| step.impact);
        impacts.max().unwrap_or_default()
    }
}

/// What a Service has when its load balancer is as wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerStatus {
    /// For `status.loadBalancer.ingress`.
    pub ingress: Vec<Ingress>,
    /// For its annotations: key and value.
    pub annotations: Vec<(&'static str, String)>,
    /// For `spec.loadBalancerIP`, which takes the right to patch Services themselves. `None`: that is
    /// left as it is.
    pub load_balancer_ip: Option<String>,
    /// When to look again although all is as wanted as far as that is known: something could not
    /// be asked, or was refused. `None`: nothing was left open.
    pub again: Option<Duration>,
    /// What a person should know of what was left open.
    pub notices: Vec<Notice>,
}

/// What of a Service's own fields goes with its load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedFields {
    /// The keys of annotations that are there.
    pub annotations: Vec<&'static str>,
    /// Whether `spec.loadBalancerIP` is what was written for it, and it lives on.
    pub load_balancer_ip: bool,
}

/// How far a pass has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All is as wanted.
    Ensured(LoadBalancerStatus),
    /// Nothing is left of it in the cloud, by the cloud's own complete answer.
    Removed,
    /// All went well, and the cloud needs time.
    Wait {
        /// When to look again.
        after: Duration,
        /// What is waited for.
        what: String,
    },
}

impl Progress {
    /// Waits for so long for this.
    #[must_use]
    pub const fn wait(after: Duration, what: String) -> Self {
        Self::Wait { after, what }
    }
}

/// One thing about a Service that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {value:?} {remedy}")]
pub struct InvalidField {
    /// Where it stands: `annotation k8s.cloudscale.ch/…`, `spec.ports[1].protocol`.
    pub place: String,
    /// What stands there, shortened.
    pub value: String,
    /// What is wrong with it and what to write instead: "is no number; write …".
    pub remedy: String,
}

/// The longest that a value is cited.
const CITED: usize = 80;

impl InvalidField {
    /// This value at this place is wrong.
    #[must_use]
    pub fn new(place: impl Into<String>, value: &str, remedy: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            value: cite(value),
            remedy: remedy.into(),
        }
    }
}

/// A value in an Event: shortened if it is long.
#[must_use]
pub fn cite(value: &str) -> String {
    let mut cited: String = value.chars().take(CITED).collect();
    if cited.len() < value.len() {
        cited.pop();
        cited.push('…');
    }
    cited
}

/// Why a pass did not come to its end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The Service cannot be understood; everything that is wrong with it. What it has is kept.
    #[error("{}; the load balancer stays as it is", joined(.0))]
    Invalid(Vec<InvalidField>),
    /// It can be understood, and is not done: why, and what to do about it.
    #[error("{0}")]
    Refused(String),
    /// It is set back, and a person should know this besides.
    #[error("{why}")]
    Noted {
        /// What sets it back.
        why: Box<ReconcileError>,
        /// What a person should know.
        notices: Vec<Notice>,
        /// When to look again, if that is known: something else was left open.
        again: Option<Duration>,
    },
    /// The cloud did not do what it was asked.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// The API server did not do what it was asked.
    #[error("{0}")]
    Cluster(String),
    /// The pass was to end.
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl ReconcileError {
    /// The same, and what a person should know besides.
    #[must_use]
    pub fn with(self, notices: Vec<Notice>) -> Self {
        self.with_retry(notices, None)
    }

    /// The same, where something else was left open too: when to look again because of that.
    #[must_use]
    pub fn with_retry(self, notices: Vec<Notice>, again: Option<Duration>) -> Self {
        if notices.is_empty() && again.is_none() {
            return self;
        }
        Self::Noted {
            why: Box::new(self),
            notices,
            again,
        }
    }
}

/// Why a pass is to end before it is through.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Stop {
    /// Another replica leads.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The Service has changed, or is being deleted: plan anew.
    #[error("the Service has changed meanwhile")]
    Changed,
    /// The API server cannot be asked whether the Service is still wanted.
    #[error("the API server does not say whether it is still wanted: {0}")]
    Unasked(String),
    /// Other Services wait, or this one has had its time: go on later.
    #[error("other Services wait")]
    Yield,
}

fn joined(faults: &[InvalidField]) -> String {
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// The engine's word on whether a plan may go on being carried out.
#[async_trait]
pub trait WriteGuard: Send + Sync {
    /// Asked before every write in the cloud.
    ///
    /// # Errors
    /// [`Stop`] if it must not be made.
    fn before_write(&self) -> Result<(), Stop>;

    /// Asked besides before a load balancer is created: asks the API server itself whether the
    /// Service is still wanted.
    ///
    /// # Errors
    /// [`Stop`] if it must not be created.
    async fn before_creation(&self) -> Result<(), Stop>;

    /// Writes these annotations on the Service at once, for whoever leads next: by default there is none.
    ///
    /// # Errors
    /// [`Stop`] if they cannot be written.
    async fn note(&self, _annotations: &[(&'static str, String)]) -> Result<(), Stop> {
        Ok(())
    }

    /// Told after every write that the cloud has taken.
    fn written(&self);
}

/// A plan, and what it takes to carry it out.
#[async_trait]
pub trait PreparedPlan: Send + Sync {
    /// What would be done.
    fn summary(&self) -> &PlanSummary;

    /// Does it, as far as it can be done at once.
    ///
    /// # Errors
    /// [`ReconcileError`]; what has been done by then stays done, and the next pass goes on from there.
    async fn carry_out(self: Box<Self>, guard: &dyn WriteGuard)
    -> Result<Progress, ReconcileError>;
}

/// Who looks after what belongs to no Service.
#[async_trait]
pub trait CollectorContext: WriteGuard {
    /// Reports an Event about the cluster, by its Service `default/kubernetes`.
    async fn report(&self, kind: EventKind, reason: &'static str, note: &str);

    /// All Nodes.
    fn nodes(&self) -> Vec<Arc<NodeView>>;

    /// Told when there is room again for Services that had to be refused.
    fn freed(&self);

    /// Waits until this process is told to end.
    async fn ending(&self);
}

/// Which Services a load balancer was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MadeFor {
    /// The one of this UID.
    Uid(String),
    /// The one of this name, whatever its UID.
    Named(ObjectKey),
    /// The one of this UID; it is no load balancer itself, but was made for one.
    Dependent(String),
    /// Several, of which none is left.
    Several,
}

impl fmt::Display for MadeFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) | Self::Dependent(uid) => {
                write!(f, "a Service of this cluster that is no more (UID {uid})")
            }
            Self::Named(key) => write!(
                f,
                "the Service {key} of this cluster, which is no more or wants none any more"
            ),
            Self::Several => {
                f.write_str("Services of this cluster, none of which has a part of it")
            }
        }
    }
}

/// A load balancer that bears this cluster's marks and those of a Service that is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The cloud's own name for it: what [`LoadBalancers::remove_orphan`] takes.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it was made for.
    pub made_for: MadeFor,
}

/// The load balancers of a cloud. All methods may be called for several Services at once, but only
/// once at a time for each of them.
#[async_trait]
pub trait LoadBalancers: Send + Sync {
    /// The provider's name.
    fn provider(&self) -> &'static str;

    /// The name under which the provider itself reports Events, as its Go controller does.
    fn component(&self) -> &'static str;

    /// Observes what there is for a Service, and plans what it takes to give it what it asks for.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`ReconcileError`], never [`ReconcileError::Stopped`].
    async fn prepare(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError>;

    /// Observes what there is for a Service that is to have no load balancer (any more), and plans
    /// its removal. Whatever the Service's annotations say, and however wrong they are: only what is
    /// provably its own is removed. An empty plan, carried out, gives [`Progress::Removed`].
    ///
    /// # Errors
    /// [`ReconcileError`], never [`ReconcileError::Stopped`] or [`ReconcileError::Invalid`].
    async fn prepare_removal(
        &self,
        request: &LoadBalancerRequest,
    ) -> Result<Box<dyn PreparedPlan>, ReconcileError>;

    /// The names of the Secrets of a Service's own namespace that its load balancer presents
    /// ([`LoadBalancerRequest::secrets`]). What cannot be understood names none.
    fn secrets(&self, _service: &ServiceView) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// Whether members follow [`LoadBalancerRequest::endpoints`]: the cloud can stop sending traffic to one without
    /// cutting the connections that it has.
    fn follows_endpoints(&self) -> bool {
        false
    }

    /// Whether a Service says anything by which it may have something in this cloud, whoever gave it that.
    fn may_have(&self, service: &ServiceView) -> bool;

    /// What of a Service's own fields goes with its load balancer, and goes last.
    fn owned_fields(&self, _service: &ServiceView) -> OwnedFields {
        OwnedFields::default()
    }

    /// This is a Service as this process has written it: what it is beside that, somebody else has made it.
    fn wrote(&self, _service: &ServiceView) {}

    /// Lets go of what is remembered of a Service that is no more, by its UID.
    fn forget(&self, service_uid: &str);

    /// What is remembered is as old as this from now on: whatever is asked next is observed anew, by
    /// one listing of each kind for all Services together.
    fn observe_anew(&self);

    /// Nodes have changed in a way that may matter to what belongs to no Service.
    fn nodes_changed(&self) {}

    /// How many requests observing everything anew takes, about: who does it regularly spaces it
    /// out accordingly.
    fn observation_cost(&self) -> usize;

    /// Load balancers that bear the marks of this cluster and of a Service that is not among
    /// `living`, from a complete and fresh listing.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete.
    async fn orphans(
        &self,
        cluster: &str,
        living: &[ServiceView],
    ) -> Result<Vec<Orphan>, CloudError>;

    /// Deletes one of this cluster, after having looked once more at its marks.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is gone or on its way.
    async fn remove_orphan(
        &self,
        cluster: &str,
        orphan: &Orphan,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError>;

    /// Looks after what belongs to no Service (any more), until [`CollectorContext::ending`]: what is on its
    /// way then comes to its answer first.
    async fn collect_garbage(&self, context: &dyn CollectorContext) {
        context.ending().await;
    }
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let number = index + 1;
            writeln!(f, "{number}. {} (impact: {})", step.step, step.impact)?;
        }
        Ok(())
    }
}
