//! The fence: whether admission policies keep this daemon to what is its own, found out before it
//! writes anything.
//!
//! All daemons share one ServiceAccount, and RBAC cannot tell them apart. If the policies of the chart
//! are missing, the token of one daemon can write every Node. So the daemon tries, by dry run and as
//! itself, what the policies must refuse. Until they do, it writes nothing.
//!
//! ```text
//!  dry runs ──► probe: one answer each ──► verdict: what they come to ──► WritePermit ──► report, announce
//! ```
//!
//! # Guarantees
//! * Nothing is written before every probe was refused by the policy that it is about, apart from
//!   one Event on the own Node that says why nothing is.
//! * What cannot be found out (the API server is away, the Node is not registered yet) is tried
//!   again, and counts as neither.
//! * Once the fence has been found it is believed in for as long as the process lives.
//!
//! # Caveats
//! The other policies are not tried: there may be no L2Network to try them on, and the chart has all or none.

pub mod probe;
pub mod verdict;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use mooring_common::k8s::{EventKind, Events, Slim};
use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::Level;

use self::probe::{Prober, UNREGISTERED};
use self::verdict::{Verdict, judge};

/// How soon to look again at first: policies that were applied together with the daemon are in force
/// within a second or so.
const SOON: Duration = Duration::from_secs(1);
/// How often to look again where there is no fence.
const SLOWLY: Duration = Duration::from_secs(60);
/// How often to look again where nothing could be found out: it is not the cluster's normal state.
const PATIENTLY: Duration = Duration::from_secs(10);
/// From which look on a missing fence is an error, and an Event says so: about 7 s after the first.
const TOLD_AT: u32 = 4;

/// Whether the daemon may write. Clones open together.
#[derive(Clone, Debug)]
pub struct WritePermit(watch::Receiver<bool>);

impl WritePermit {
    /// A permit that is withheld, and what grants it.
    #[must_use]
    pub fn withheld() -> (watch::Sender<bool>, Self) {
        let (granter, permit) = watch::channel(false);
        (granter, Self(permit))
    }

    /// Waits until the daemon may write; for ever, if that never comes.
    pub async fn granted(mut self) {
        if self.0.wait_for(|open| *open).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What is known of the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing yet.
    Unknown,
    /// It stands.
    Enforced,
    /// It is missing: nothing is written.
    Missing,
    /// It is not asked for (`--allow-unfenced`).
    Waived,
}

impl State {
    const ALL: [Self; 4] = [Self::Unknown, Self::Enforced, Self::Missing, Self::Waived];

    const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Enforced => "standing",
            Self::Missing => "missing",
            Self::Waived => "waived",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// The metric of the fence. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    state: Family<StateLabel, Gauge>,
}

impl Metrics {
    /// Makes the metric and enters it into a registry.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_node_fence",
            "Whether admission policies keep this daemon to its own Node: 1 for what is so",
            metrics.state.clone(),
        );
        metrics.set(State::Unknown);
        metrics
    }

    fn set(&self, current: State) {
        for state in State::ALL {
            let label = StateLabel {
                state: state.label(),
            };
            let value = i64::from(state == current);
            self.state.get_or_create(&label).set(value);
        }
    }
}

/// What the test needs.
pub struct Test {
    /// The connection to the API server, with the daemon's own token.
    pub client: Client,
    /// The Node that this daemon runs on.
    pub node_name: String,
    /// The namespace of the daemons' Leases; `None` if it writes none.
    pub lease_namespace: Option<String>,
    /// Where a missing fence is told.
    pub events: Events,
    /// What is known of it.
    pub metrics: Metrics,
}

/// Grants the permit without a test, as `--allow-unfenced` asks for.
pub fn waive(metrics: &Metrics, granter: &watch::Sender<bool>) {
    tracing::warn!(
        "--allow-unfenced: this daemon does not ask for admission policies that keep it to its own \
         Node; without them, its token can write every Node"
    );
    metrics.set(State::Waived);
    granter.send_replace(true);
}

impl Test {
    /// Tests until there is a fence, and grants the permit.
    pub async fn run(self, granter: watch::Sender<bool>) {
        let prober = Prober::new(
            self.client.clone(),
            &self.node_name,
            self.lease_namespace.as_deref(),
        );
        let mut known = None;
        let mut missing = 0;
        let mut wait = SOON;
        let mut registered = false;
        loop {
            let verdict = judge(&prober.all().await);
            let is_news = known.as_ref() != Some(&verdict);
            let longest = match &verdict {
                Verdict::Enforced => {
                    tracing::info!(
                        "the fence stands: admission policies keep this daemon to its own Node"
                    );
                    self.metrics.set(State::Enforced);
                    granter.send_replace(true);
                    return;
                }
                Verdict::Missing(acts) => {
                    missing += 1;
                    self.metrics.set(State::Missing);
                    match level(missing, is_news) {
                        Some(Level::ERROR) => {
                            tracing::error!("nothing is written: {}", remedy(acts));
                        }
                        Some(_) => tracing::info!(
                            "nothing is written yet: the admission policies that keep this daemon to its own Node \
                             are not in force, which is usual for some seconds on a new installation"
                        ),
                        None => {}
                    }
                    if missing == TOLD_AT {
                        self.report(acts).await;
                    }
                    SLOWLY
                }
                Verdict::Unknown(faults) => {
                    if is_news {
                        let faults = faults.join("; ");
                        tracing::warn!(
                            faults,
                            "nothing is written until the fence has been tested, trying again"
                        );
                    }
                    PATIENTLY
                }
            };
            let unregistered = verdict.is_for(UNREGISTERED);
            known = Some(verdict);
            // Once: who says that it is there and that it is not is asked ever more seldom.
            if unregistered && !registered {
                registered = self.registration().await;
                if registered {
                    continue;
                }
            }
            sleep(wait.min(longest)).await;
            wait = (wait * 2).min(SLOWLY);
        }
    }

    /// Waits until the Node registers, for which no time can be told. `false`: nothing can be said.
    async fn registration(&self) -> bool {
        let nodes = Api::<Node>::all(self.client.clone());
        let there = |node: Option<&Node>| node.is_some();
        let registered = await_condition(nodes, &self.node_name, there).await;
        registered.is_ok_and(|node| node.is_some())
    }

    /// One Event is written, fence or no fence: a person must be told.
    async fn report(&self, acts: &[String]) {
        let nodes = Api::<Node>::all(self.client.clone());
        let about = match nodes.get_opt(&self.node_name).await {
            Ok(Some(node)) => NodeView::slim(node).reference(),
            Ok(None) | Err(_) => ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(self.node_name.clone()),
                ..ObjectReference::default()
            },
        };
        let note = format!("mooring-node writes nothing: {}.", remedy(acts));
        self.events
            .report(&about, EventKind::Warning, reasons::FENCE_MISSING, note)
            .await;
    }
}

/// As what the log says at this look that the fence is missing, if at all. Policies that were applied together
/// with the daemon are not in force at once: that is no error.
fn level(missing: u32, is_news: bool) -> Option<Level> {
    match missing {
        1 => Some(Level::INFO),
        TOLD_AT => Some(Level::ERROR),
        TOLD_AT.. if is_news => Some(Level::ERROR),
        _ => None,
    }
}

fn remedy(acts: &[String]) -> String {
    format!(
        "no admission policy kept this daemon from {}; apply the policies of the chart \
         (nodeDaemon.fence: true) on a Kubernetes of version 1.31 or newer, or accept with \
         --allow-unfenced that the token of one daemon can write every Node",
        acts.join(" and from ")
    )
}

#[cfg(test)]
mod tests;
