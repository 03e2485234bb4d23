//! What a daemon leaves to the process that takes its place on the same node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::protocol::{Incarnation, NodeId};

/// The state of all segments, for the successor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inheritance {
    /// Who it is.
    pub node: NodeId,
    /// Which run; the successor goes on as the same.
    pub incarnation: Incarnation,
    /// By segment.
    pub segments: BTreeMap<String, Estate>,
}

/// The state of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estate {}
