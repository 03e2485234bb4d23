//! Writes on a Node: patches that change only what they name, so that whatever others write
//! meanwhile survives.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::NodeStep;
use super::init_states::InitStates;
use crate::engine::Plan;
use crate::errors::with_causes;
use crate::k8s::{ApiFailure, EventKind, Events, Slim, classify};
use crate::names::{reasons, taints as taint_keys};
use crate::node_addresses::NodeAddress;
use crate::node_view::NodeView;
use crate::taints;

/// Writes on Nodes, and says so in Events.
pub struct Writer {
    nodes: Api<Node>,
    events: Events,
    init_states: InitStates,
}

/// How a plan was carried out.
#[derive(Debug)]
pub enum CarriedOut {
    /// All is as planned.
    Written {
        /// The Node after it.
        node: Box<NodeView>,
        /// Whether it was initialised just now.
        initialized: bool,
    },
    /// The Node is gone.
    Gone,
    /// The Node changed meanwhile so that another look at it is needed.
    Overtaken,
    /// Writing was forbidden before all was written.
    Forbidden,
}

/// How often a Node that somebody else has changed is read and planned anew.
const ATTEMPTS: u32 = 20;

/// Why a write did not happen.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailure {
    /// The Node is gone, or another of its name has taken its place.
    #[error("the Node is gone")]
    Gone,
    /// Somebody changed what the write was based on: read the Node again and plan anew.
    #[error("the Node was changed meanwhile")]
    Conflict,
    /// The API server refuses it.
    #[error("the API server refused to {step}")]
    Refused {
        /// What was to be done.
        step: String,
        /// Its words.
        source: kube::Error,
    },
    /// The API server could not be asked.
    #[error("could not {step}")]
    Transient {
        /// What was to be done.
        step: String,
        /// Why.
        source: kube::Error,
    },
}

impl Writer {
    /// Writes with this client, reports with these Events.
    #[must_use]
    pub fn new(client: Client, events: Events) -> Self {
        Self {
            nodes: Api::all(client),
            events,
            init_states: InitStates::default(),
        }
    }

    /// What is remembered of Nodes.
    #[must_use]
    pub const fn init_states(&self) -> &InitStates {
        &self.init_states
    }

    /// Says on the Node why it is left as it is; the same is said once.
    pub async fn refuse(&self, node: &NodeView, reason: &str, note: &str) {
        self.report(node, EventKind::Warning, reason, note).await;
    }

    /// Says something on the Node once.
    pub(super) async fn report(&self, node: &NodeView, kind: EventKind, reason: &str, note: &str) {
        if self.init_states.is_news(&node.name, &node.uid, note) {
            tracing::warn!(node = node.name, reason, note, "not all is written");
            self.events
                .report(&node.reference(), kind, reason, note)
                .await;
        }
    }

    /// Takes the steps of a plan. `may_write` is asked before each; where somebody else has changed
    /// the Node meanwhile, it is read, and `plan_anew` plans for it as it is then, which includes to
    /// look for its machine again. A Node that has taken the place of the one that was planned for
    /// is left to another pass. What the API server refuses, an Event tells. The same where `node` comes from a cache that may not show yet what was last written: nothing is written
    /// twice.
    ///
    /// # Errors
    /// [`WriteFailure`], but never `Gone`; `Conflict` only if it goes on for long.
    pub async fn carry_out<F>(
        &self,
        mut node: NodeView,
        mut plan: Plan<NodeStep>,
        may_write: &(dyn Fn() -> bool + Send + Sync),
        plan_anew: impl Fn(NodeView) -> F,
    ) -> Result<CarriedOut, WriteFailure>
    where
        F: Future<Output = Option<Plan<NodeStep>>>,
    {
        let mut stale = !plan.is_empty() && self.init_states.may_lag(&node);
        for _ in 0..ATTEMPTS {
            if !stale {
                match self.take_all(node.clone(), &plan, may_write).await {
                    Err(WriteFailure::Conflict) => {}
                    Err(WriteFailure::Gone) => return Ok(CarriedOut::Gone),
                    Err(error @ WriteFailure::Refused { .. }) => {
                        let (reason, note) = (reasons::INITIALIZATION_REFUSED, with_causes(&error));
                        self.refuse(&node, reason, &note).await;
                        return Err(error);
                    }
                    ended => return ended,
                }
            }
            stale = false;
            match self.read(&node.name).await? {
                Some(fresh) if fresh.uid == node.uid => node = fresh,
                Some(_) => return Ok(CarriedOut::Overtaken),
                None => return Ok(CarriedOut::Gone),
            }
            match plan_anew(node.clone()).await {
                Some(anew) => plan = anew,
                None => return Ok(CarriedOut::Overtaken),
            }
        }
        Err(WriteFailure::Conflict)
    }

    async fn take_all(
        &self,
        mut node: NodeView,
        plan: &Plan<NodeStep>,
        may_write: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<CarriedOut, WriteFailure> {
        let mut initialized = false;
        if plan.is_empty() {
            self.init_states.settled(&node);
        }
        for step in plan.steps() {
            if let NodeStep::SetAddresses(addresses) = step {
                self.tell_if_contested(&node, addresses).await;
            }
            // Last of all, with nothing awaited before the request is made.
            if !may_write() {
                return Ok(CarriedOut::Forbidden);
            }
            let Some(written) = self.take(&node, step).await? else {
                continue;
            };
            node = written;
            self.init_states.wrote(&node);
            if matches!(step, NodeStep::Initialize(_)) {
                initialized = true;
                let note = "Node synced successfully";
                let about = node.reference();
                self.events
                    .report(&about, EventKind::Normal, reasons::SYNCED, note)
                    .await;
            }
        }
        self.init_states.well(&node.name, &node.uid);
        Ok(CarriedOut::Written {
            node: Box::new(node),
            initialized,
        })
    }

    async fn tell_if_contested(&self, node: &NodeView, addresses: &[NodeAddress]) {
        if self
            .init_states
            .overwrites(&node.name, &node.uid, addresses)
        {
            let note = "Somebody else keeps changing the addresses of this Node. Is its kubelet \
                        running without --cloud-provider=external, or is another controller at work?";
            let reason = reasons::ADDRESSES_CONTESTED;
            self.events
                .report(&node.reference(), EventKind::Warning, reason, note)
                .await;
        }
    }

    /// The Node as it is now; `None` if there is none of this name.
    async fn read(&self, name: &str) -> Result<Option<NodeView>, WriteFailure> {
        match self.nodes.get_opt(name).await {
            Ok(node) => Ok(node.map(NodeView::slim)),
            Err(source) => Err(WriteFailure::Transient {
                step: format!("read Node {name}"),
                source,
            }),
        }
    }

    /// Takes one step, and returns the Node as it is after it; or only asks whether it could be taken.
    pub(super) async fn apply(
        &self,
        node: &NodeView,
        step: &NodeStep,
        dry_run: bool,
    ) -> Result<NodeView, WriteFailure> {
        let params = PatchParams {
            dry_run,
            ..PatchParams::default()
        };
        let written = match step {
            NodeStep::SetAddresses(addresses) => {
                let patch = Patch::Merge(addresses_patch(&node.uid, addresses));
                self.nodes.patch_status(&node.name, &params, &patch).await
            }
            NodeStep::Describe(_) | NodeStep::Initialize(_) => {
                let operations = serde_json::from_value(Value::Array(operations(node, step)))
                    .map_err(|error| WriteFailure::Refused {
                        step: step.to_string(),
                        source: kube::Error::SerdeError(error),
                    })?;
                let patch: Patch<()> = Patch::Json(operations);
                self.nodes.patch(&node.name, &params, &patch).await
            }
        };
        written
            .map(NodeView::slim)
            .map_err(|error| match classify(&error) {
                ApiFailure::NotFound => WriteFailure::Gone,
                ApiFailure::Conflict => WriteFailure::Conflict,
                ApiFailure::Refused => WriteFailure::Refused {
                    step: step.to_string(),
                    source: error,
                },
                ApiFailure::Transient => WriteFailure::Transient {
                    step: step.to_string(),
                    source: error,
                },
            })
    }
}

/// A wrong UID makes the API server answer with a conflict: the Node that registered again under
/// the same name is another machine's.
fn addresses_patch(uid: &str, addresses: &[NodeAddress]) -> Value {
    json!({"metadata": {"uid": uid}, "status": {"addresses": addresses}})
}

/// The operations of one JSON patch. `test` guards what must not have changed: the UID, the place
/// of the taint, and labels that are touched only as they were seen.
fn operations(node: &NodeView, step: &NodeStep) -> Vec<Value> {
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": node.uid})];
    match step {
        NodeStep::SetAddresses(_) => {}
        NodeStep::Describe(description) => operations.extend(description.operations(node)),
        NodeStep::Initialize(description) => {
            operations.extend(description.operations(node));
            operations.extend(remove_taint(&node.taints, taint_keys::UNINITIALIZED));
        }
    }
    operations
}

/// Operations that remove all taints with this key and leave the others as they are. Only the
/// place and key of each is tested: another taint that changes meanwhile is no conflict.
#[must_use]
pub fn remove_taint(all: &[Taint], key: &str) -> Vec<Value> {
    taints::positions(all, key)
        .into_iter()
        .flat_map(|index| {
            [
                json!({"op": "test", "path": format!("/spec/taints/{index}/key"), "value": key}),
                json!({"op": "remove", "path": format!("/spec/taints/{index}")}),
            ]
        })
        .collect()
}
