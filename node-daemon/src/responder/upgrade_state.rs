//! What a daemon leaves to the process that takes its place on the same node: all that it needs in
//! order to go on as the same member, so that nothing is handed over and nobody notices.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::protocol::{self, Key, NodeId};

/// The state of all segments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpgradeState {
    /// Who it is.
    pub node: NodeId,
    /// By segment.
    pub segments: BTreeMap<String, SegmentState>,
}

/// The state of one segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SegmentState {
    /// `metadata.uid` of the L2Network: one that was made again under its name inherits nothing.
    pub uid: String,
    /// The protocol's: the successor goes on as the same run.
    pub machine: protocol::MachineState,
    /// The keys that are only answered for.
    pub quiet: BTreeSet<Key>,
    /// The keys whose burst of announcements is not over.
    pub unfinished: BTreeSet<Key>,
}
