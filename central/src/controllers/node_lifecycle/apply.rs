//! Changes Nodes, or deletes them after a second look.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use mooring_common::k8s::{ApiFailure, EventKind, Slim, classify};
use mooring_common::names::{reasons, taints as keys};
use mooring_common::node_facts::Presence;
use mooring_common::node_init::remove_taint;
use mooring_common::node_view::{NodeView, Readiness};
use mooring_common::provider_id::ProviderId;
use mooring_common::taints;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Controller;
use super::plan::LifecycleStep;
use crate::election::NotLeading;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the API server did not do it")]
    Api(#[from] kube::Error),
    #[error("a patch cannot be written")]
    Patch(#[from] serde_json::Error),
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
}

/// How long a second look may take: a machine that the cloud does not answer for must not keep the
/// other Nodes waiting.
const LONGEST_LOOK: Duration = Duration::from_secs(10);

impl Controller {
    pub(super) async fn take(&self, step: &LifecycleStep) -> Result<(), Failure> {
        self.context.leadership.check()?;
        match step {
            LifecycleStep::AddShutdownTaint(node) => self.add_taint(node).await?,
            LifecycleStep::RemoveShutdownTaint(node) => {
                let operations = remove_taint(&node.taints, keys::SHUTDOWN);
                self.patch(node, operations).await?;
            }
            LifecycleStep::Delete { node, machine } => return self.delete(node, machine).await,
        }
        tracing::info!("{step}");
        Ok(())
    }

    async fn add_taint(&self, node: &Arc<NodeView>) -> Result<(), Failure> {
        let operations = if node.taints.is_empty() {
            vec![
                json!({"op": "test", "path": "/spec/taints", "value": null}),
                json!({"op": "add", "path": "/spec/taints", "value": [taints::shutdown()]}),
            ]
        } else {
            vec![
                json!({"op": "test", "path": "/spec/taints", "value": node.taints}),
                json!({"op": "add", "path": "/spec/taints/-", "value": taints::shutdown()}),
            ]
        };
        self.patch(node, operations).await
    }

    /// A Node that has changed meanwhile is judged anew in the next pass.
    async fn patch(&self, node: &Arc<NodeView>, operations: Vec<Value>) -> Result<(), Failure> {
        let mut guarded = vec![json!({"op": "test", "path": "/metadata/uid", "value": node.uid})];
        guarded.extend(operations);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(Value::Array(guarded))?);
        match self
            .nodes
            .patch(&node.name, &PatchParams::default(), &patch)
            .await
        {
            Ok(_) => {
                self.node_states.wrote(node);
                Ok(())
            }
            Err(error) => match classify(&error) {
                ApiFailure::NotFound | ApiFailure::Conflict => Ok(()),
                _ => Err(error.into()),
            },
        }
    }

    async fn delete(&self, node: &Arc<NodeView>, machine: &ProviderId) -> Result<(), Failure> {
        let second = timeout(LONGEST_LOOK, self.context.instances.confirm(node));
        let second = self.context.leadership.until_ending(second).await?;
        match second.unwrap_or(Presence::Unsure) {
            Presence::Gone => {}
            Presence::Running | Presence::Stopped | Presence::Unsure => {
                let name = &node.name;
                tracing::debug!(name, %machine, "kept: it is not certainly gone by a second look");
                self.node_states.reprieve(node, self.flags.monitor_period);
                return Ok(());
            }
        }
        let Some(version) = self.still_judged_right(node).await? else {
            return Ok(());
        };
        let about = node.reference();
        let note = format!(
            "Deleting Node {} because its machine {machine} does not exist any more",
            node.name
        );
        self.events
            .report(&about, EventKind::Normal, reasons::DELETING_NODE, note)
            .await;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(node.uid.clone()),
                resource_version: Some(version),
            }),
            ..DeleteParams::default()
        };
        // Last of all, with nothing awaited before the request is made.
        self.context.leadership.check()?;
        match self.nodes.delete(&node.name, &params).await {
            Ok(_) => {
                self.node_states.wrote(node);
                self.node_states.deleted(machine);
                self.metrics.deleted.inc();
                tracing::info!(node = node.name, %machine, "deleted: its machine is gone");
                Ok(())
            }
            Err(error) => match classify(&error) {
                ApiFailure::NotFound | ApiFailure::Conflict => Ok(()),
                _ => {
                    let reason = reasons::DELETING_NODE_FAILED;
                    let note = format!("Could not delete Node {}: {error}", node.name);
                    self.events
                        .report(&about, EventKind::Warning, reason, note)
                        .await;
                    Err(error.into())
                }
            },
        }
    }

    /// The version of the Node as it is now, if it still is the one that was judged, and not Ready.
    async fn still_judged_right(&self, node: &NodeView) -> Result<Option<String>, Failure> {
        let Some(live) = self.nodes.get_opt(&node.name).await? else {
            return Ok(None);
        };
        let version = live.metadata.resource_version.clone();
        let live = NodeView::slim(live);
        let same = live.uid == node.uid && live.readiness != Readiness::Ready && !live.deleting;
        Ok(version.filter(|_| same))
    }

    /// Each held Node is told of once, and again when it was not held in between.
    pub(super) async fn tell_held(&self, held: &[(Arc<NodeView>, usize, usize)]) {
        self.metrics
            .held
            .set(i64::try_from(held.len()).unwrap_or(i64::MAX));
        let news: Vec<_> = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::take(&mut *told);
            *told = held.iter().map(|(node, ..)| node.uid.clone()).collect();
            held.iter()
                .filter(|(node, ..)| !before.contains(&node.uid))
                .collect()
        };
        for (node, gone, ours) in news {
            let note = format!(
                "The machine of Node {} seems gone, but so do {gone} of {ours} in its cloud at once: \
                 none of their Nodes is deleted. If they really are gone, delete the Nodes yourself or raise \
                 --max-node-deletions-percent (now {}).",
                node.name, self.flags.max_deletions_percent
            );
            tracing::warn!(node = node.name, gone, ours, "deletion held");
            let reason = reasons::NODE_DELETION_HELD;
            self.events
                .report(&node.reference(), EventKind::Warning, reason, note)
                .await;
        }
    }
}
