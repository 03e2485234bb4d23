//! The address of the control plane: what the status of L2Networks says of it, and the Event where an L2Network and
//! the control plane file differ.

use mooring_common::k8s::{EventKind, ObjectKey};
use mooring_common::names::reasons;

use super::EventReporter;
use crate::announce::EventSink;
use crate::announce::control_plane_entry::{Findings, note};
use crate::cluster::snapshot::Snapshot;

impl<E: EventSink> EventReporter<E> {
    /// What is found about each L2Network that has the address. A difference is told once, until it is another.
    pub(in crate::announce::supervisor) fn control_plane(
        &mut self,
        snapshot: &Snapshot,
        findings: Findings,
    ) {
        for (segment, finding) in &findings {
            let before = self.control_plane.get(segment);
            let before = before.and_then(|before| before.difference.as_ref());
            if before == finding.difference.as_ref() {
                continue;
            }
            let Some(difference) = &finding.difference else {
                tracing::info!(
                    segment,
                    "spec.controlPlane and the control plane file are the same"
                );
                continue;
            };
            tracing::warn!(
                segment,
                difference,
                "spec.controlPlane and the control plane file differ; the file counts"
            );
            if let Some(network) = snapshot
                .networks
                .get(&ObjectKey::cluster_wide(segment.as_str()))
            {
                let note = note(&self.node_name, segment, difference);
                let (kind, reason) = (EventKind::Warning, reasons::CONTROL_PLANE_FILE_DIFFERS);
                self.events
                    .event(network.reference(segment), kind, reason, note);
            }
        }
        self.control_plane = findings;
    }

    /// What was found last.
    pub(in crate::announce::supervisor) const fn found_about_control_plane(&self) -> &Findings {
        &self.control_plane
    }
}
