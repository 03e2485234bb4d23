//! What a person should know of Nodes that are no members.

use mooring_common::names::{labels, reasons};

use super::some_of;
use crate::cloud_provider::load_balancers::Notice;

const EXCLUSION: &str = labels::EXCLUDE_FROM_LOAD_BALANCERS;

/// The cloud has no machine of these Nodes.
pub(super) fn left_out(cloud: &str, nodes: &[&str]) -> Option<Notice> {
    let named = some_of(nodes);
    let note = format!(
        "{cloud} has no server for these Nodes, so that they carry no traffic of this load balancer: {named}. \
         If they are elsewhere on purpose, exclude them with the label {EXCLUSION}."
    );
    (!nodes.is_empty()).then(|| notice(note))
}

/// The cloud does not say whether it has machines of these Nodes.
pub(super) fn hidden(cloud: &str, nodes: &[&str]) -> Option<Notice> {
    let named = some_of(nodes);
    let note = format!(
        "{cloud} does not show the servers of these Nodes, so that this load balancer keeps the members that it \
         has of them, and gets no others: {named}. Give the token the right to see these servers, or exclude the \
         Nodes with the label {EXCLUSION}."
    );
    (!nodes.is_empty()).then(|| notice(note))
}

fn notice(note: String) -> Notice {
    Notice {
        reason: reasons::NODE_WITHOUT_SERVER,
        note,
        by_provider: false,
    }
}
