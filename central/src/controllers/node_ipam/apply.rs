//! Writes pod CIDRs on Nodes, and says which Nodes get none, and why.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use futures::stream::{self, StreamExt as _};
use ipnet::IpNet;
use kube::api::{Patch, PatchParams};
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ApiFailure, EventKind, Slim as _, classify};
use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::observe::{Given, Observed, cidrs};
use super::plan::{Assign, Decisions};
use super::{Controller, Failure};

/// How many Nodes are written at the same time.
const SIDE_BY_SIDE: usize = 8;

impl Controller {
    /// Writes what was planned; the last failure, if there was one.
    pub(super) async fn apply(&self, decisions: &Decisions) -> Result<(), Failure> {
        let steps = decisions.plan.steps().to_vec().into_iter();
        let taken = steps.map(|step| async move {
            let taken = self.assign(&step).await;
            (step, taken)
        });
        let mut ended = stream::iter(taken).buffer_unordered(SIDE_BY_SIDE);
        let mut last = Ok(());
        while let Some((step, taken)) = ended.next().await {
            let Err(failure) = taken else { continue };
            let error = with_causes(&failure);
            tracing::warn!(error, "could not {step}");
            if let Failure::Api(_) = &failure {
                let note = format!("Could not {step}: {error}");
                self.report(&step.node, reasons::CIDR_ASSIGNMENT_FAILED, note)
                    .await;
            }
            last = Err(failure);
        }
        last
    }

    /// From here on the pod CIDRs are this Node's, whatever the answer: a request without one may have been
    /// carried out, and the next pass gives the Node the same again.
    async fn assign(&self, step: &Assign) -> Result<(), Failure> {
        let node = &step.node;
        self.context.leadership.check()?;
        self.note(node, step.cidrs.clone(), false);
        let cidrs: Vec<String> = step.cidrs.iter().map(ToString::to_string).collect();
        let operations = json!([
            { "op": "test", "path": "/metadata/uid", "value": node.uid },
            { "op": "test", "path": "/spec/podCIDRs", "value": null },
            { "op": "test", "path": "/spec/podCIDR", "value": null },
            { "op": "add", "path": "/spec/podCIDRs", "value": cidrs },
            { "op": "add", "path": "/spec/podCIDR", "value": cidrs.first() },
        ]);
        match self.patch(node, operations).await {
            Ok(()) => {
                self.note(node, step.cidrs.clone(), true);
                tracing::info!("{step}");
                Ok(())
            }
            Err(Failure::Api(error)) => match classify(&error) {
                ApiFailure::NotFound | ApiFailure::Conflict => self.read_again(node).await,
                _ => Err(error.into()),
            },
            Err(failure) => Err(failure),
        }
    }

    async fn patch(&self, node: &NodeView, operations: Value) -> Result<(), Failure> {
        let patch: Patch<()> = Patch::Json(serde_json::from_value(operations)?);
        let params = PatchParams::default();
        self.nodes.patch(&node.name, &params, &patch).await?;
        Ok(())
    }

    /// Somebody else was faster, or the Node is gone, or another one now.
    async fn read_again(&self, node: &Arc<NodeView>) -> Result<(), Failure> {
        let live = self.nodes.get_opt(&node.name).await?.map(NodeView::slim);
        match live.filter(|live| live.uid == node.uid) {
            Some(live) if live.pod_cidrs.is_empty() => Err(Failure::Overtaken),
            Some(live) => {
                self.note(node, cidrs(&live), true);
                Ok(())
            }
            None => {
                self.given().remove(&node.uid);
                Ok(())
            }
        }
    }

    fn note(&self, node: &NodeView, cidrs: Vec<IpNet>, is_certain: bool) {
        let at = Instant::now();
        let given = Given {
            cidrs,
            at,
            is_certain,
        };
        self.given().insert(node.uid.clone(), given);
    }

    /// Says on each Node that gets nothing why that is.
    pub(super) async fn explain(&self, observed: &Observed, decisions: &Decisions) {
        for node in &decisions.exhausted {
            let note = format!(
                "{} of the {} blocks of /{} in --cluster-cidr={} are taken, so Node {} gets no pod CIDR. \
                 Delete Nodes that are not needed, or give this one its pod CIDRs by hand. Smaller blocks \
                 ({}) or a larger --cluster-cidr serve new Nodes",
                decisions.used,
                self.pool.size(),
                self.ipam.ipv4_mask,
                self.cluster_cidr,
                node.name,
                self.ipam.ipv4_mask_flag,
            );
            self.report(node, reasons::CIDR_NOT_AVAILABLE, note).await;
        }
        for (node, why) in &observed.refused {
            let note = format!("Node {} gets no pod CIDR: {why}", node.name);
            self.report(node, reasons::CIDR_NOT_AVAILABLE, note).await;
        }
        for (node, cidr, owner) in &decisions.twice {
            let note = format!(
                "The pod CIDR {cidr} of Node {} is that of Node {owner} too. Delete Node {}, so that it \
                 registers again and gets another one",
                node.name, node.name
            );
            self.report(node, reasons::CIDR_ASSIGNMENT_FAILED, note)
                .await;
        }
    }

    /// The same is said once of a Node.
    async fn report(&self, node: &Arc<NodeView>, reason: &str, note: String) {
        let is_news = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let told: &mut BTreeSet<String> = told.entry(node.uid.clone()).or_default();
            told.insert(note.clone())
        };
        if is_news {
            tracing::warn!(node = node.name, reason, note, "no pod CIDR");
            let (about, kind) = (node.reference(), EventKind::Warning);
            self.events.report(&about, kind, reason, note).await;
        }
    }
}
