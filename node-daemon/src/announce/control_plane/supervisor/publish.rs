//! How this node does, for those who look at it from outside.

use std::sync::Arc;

use mooring_common::control_plane::{ControlPlaneFile, Role};

use super::Work;
use super::report::{name, voter_names};
use crate::announce::control_plane::published::{Part, Published};

impl Work {
    /// Publishes how this node does, if that has changed.
    pub(super) fn publish(&self, file: &ControlPlaneFile) {
        let now = self.state(file);
        self.with.published.send_if_modified(|known| {
            let is_new = known.as_deref() != Some(&now);
            if is_new {
                *known = Some(Arc::new(now));
            }
            is_new
        });
    }

    fn state(&self, file: &ControlPlaneFile) -> Published {
        let node = &self.with.node_name;
        let remembered = &self.with.remembered;
        let announces = self.reporter.announces();
        let mut members = self.members.iter();
        let speaker =
            members.find(|member| member.node != self.me && member.alive && member.holds > 0);
        let speaker = speaker.map(|member| name(file, member.node));
        let own = (!announces.is_empty()).then(|| node.clone());
        let file_fault = self.with.file_fault.borrow().clone();
        let faults: Vec<String> = file_fault
            .into_iter()
            .chain(self.reporter.faults())
            .collect();
        Published {
            addresses: file.addresses.clone(),
            port: file.port,
            file_revision: file.revision,
            served_revision: remembered.served.generation,
            accepted_revision: remembered.accepted.as_ref().map(|set| set.generation),
            voters: voter_names(file, &remembered.served),
            part: match file.role_of(node) {
                Role::Member => Part::Member,
                Role::Witness => Part::Witness,
                Role::Stranger => Part::Stranger,
            },
            ready: self.is_ready(),
            speaker: own.or(speaker),
            announces,
            fault: (!faults.is_empty()).then(|| faults.join("; ")),
            ..Published::of(node)
        }
    }
}
