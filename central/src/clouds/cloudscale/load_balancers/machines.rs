//! The machines of the Nodes that are to carry a Service's traffic.
//!
//! A Node whose machine cannot be told keeps no other Node from becoming a member.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mooring_common::names::reasons;
use mooring_common::node_view::NodeView;
use tokio::time::Instant;

use super::desired::{MachineOf, Machines};
use crate::clouds::load_balancers::Notice;
use crate::clouds::{Attachment, Lookup};
use crate::inventory::Inventory;

/// How often at most the machines are listed afresh for the sake of one Node.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How many Nodes are named.
const NAMED: usize = 5;

/// Finds machines.
pub(super) struct Finder {
    inventory: Arc<Inventory>,
    /// When a listing was made last for the sake of a Node, by its provider ID.
    looked: Mutex<HashMap<String, Instant>>,
}

impl Finder {
    pub(super) fn new(inventory: Arc<Inventory>) -> Self {
        Self {
            inventory,
            looked: Mutex::default(),
        }
    }

    /// The machines of these Nodes. A Node without provider ID has none yet.
    pub(super) async fn find(&self, nodes: &[Arc<NodeView>]) -> (Machines, Vec<Notice>) {
        let mut machines = Machines {
            found: Vec::new(),
            are_complete: true,
        };
        let mut without = Vec::new();
        for node in nodes {
            let Some(id) = &node.provider_id else {
                continue;
            };
            match self.look_up(node, id).await {
                (Lookup::Known { facts, .. }, attachments) => {
                    // Whoever's network cards cannot be read may have an address nevertheless.
                    machines.are_complete &= !facts.addresses.is_empty();
                    machines.found.push(MachineOf {
                        node: node.name.clone(),
                        zone: facts.zone,
                        attachments,
                    });
                }
                (Lookup::Missing | Lookup::Foreign(_), _) => without.push(node.name.as_str()),
                _ => machines.are_complete = false,
            }
        }
        let notices = (!without.is_empty()).then(|| left_out(&without));
        (machines, notices.into_iter().collect())
    }

    async fn look_up(&self, node: &NodeView, id: &str) -> (Lookup, Vec<Attachment>) {
        let found = self.inventory.attachments(node, None).await;
        match found.0 {
            Lookup::Missing if self.may_look_again(id) => {
                self.inventory.attachments(node, Some(Instant::now())).await
            }
            _ => found,
        }
    }

    fn may_look_again(&self, id: &str) -> bool {
        let now = Instant::now();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.retain(|_, last| now.saturating_duration_since(*last) < LOOK_AGAIN);
        looked.insert(id.to_owned(), now).is_none_or(|last| {
            // Still within the minute: it stays as it was.
            looked.insert(id.to_owned(), last);
            false
        })
    }
}

fn left_out(nodes: &[&str]) -> Notice {
    let named = nodes.get(..NAMED).unwrap_or(nodes).join(", ");
    let more = match nodes.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Notice {
        reason: reasons::NODE_WITHOUT_SERVER,
        note: format!(
            "cloudscale.ch has no server for these Nodes, so that they carry no traffic of this \
             load balancer: {named}{more}. If they are elsewhere on purpose, exclude them with the \
             label node.kubernetes.io/exclude-from-external-load-balancers."
        ),
        by_provider: false,
    }
}
