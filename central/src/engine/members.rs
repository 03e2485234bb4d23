//! The machines of the Nodes that are to carry a Service's traffic.
//!
//! A Node whose machine cannot be told keeps no other Node from becoming a member. One that listings lack is
//! left out only if the cloud, asked for it alone, has no such machine. If the token may not see it, what is its by
//! its Node's word stays, and all others come and go.

mod alone;
mod without_server;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use alone::{Alone, Answer};
use futures::future::join_all;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use tokio::time::Instant;
use without_server::{hidden, left_out};

use crate::cloud_provider::load_balancers::Notice;
use crate::cloud_provider::{Attachment, Instances as _, Lookup};
use crate::engine::canonical::canonical_uuid;
use crate::engine::inventory::Inventory;
use crate::engine::selector::Selector;

/// How often at most the machines are listed afresh for the sake of one Node.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How long the cloud is left alone at least if it could not be asked.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How often at most all machines are listed afresh since one seems to be no more.
const DOUBT_AGAIN: Duration = Duration::from_secs(10);

/// How many machines are asked for side by side, each alone.
const SIDE_BY_SIDE: usize = 8;

/// How many Nodes are named in an Event.
const NAMED: usize = 5;

/// The machines of the Nodes that are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those that are known, in the order of their Nodes.
    pub found: Vec<MachineOf>,
    /// Whether nothing can be missing: every selected Node's machine is here, or certainly none of
    /// this cloud's.
    pub are_complete: bool,
    /// The addresses of those selected Nodes, by their own word, of whose machines the cloud does not say any, and the
    /// cloud's own names for these machines: what is a member at one of these stays as it is.
    pub unread: BTreeSet<String>,
}

/// What is known of a Node's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineOf {
    /// The Node's name.
    pub node: String,
    /// The cloud's own name for the machine.
    pub id: String,
    /// The zone's slug, if the cloud says it.
    pub zone: Option<String>,
    /// Its addresses in private networks, in the cloud's order.
    pub attachments: Vec<Attachment>,
}

impl Members {
    /// The zone of all of them. `None`: there is none, or they stand in several.
    #[must_use]
    pub fn zone(&self) -> Option<String> {
        let mut zones = self
            .found
            .iter()
            .filter_map(|machine| machine.zone.as_ref());
        let first = zones.next()?;
        zones.all(|zone| zone == first).then(|| first.clone())
    }

    /// With the addresses that `of_node` gives for each of these Nodes, from its own.
    #[must_use]
    pub fn with_attachments(
        mut self,
        nodes: &[Arc<NodeView>],
        of_node: impl Fn(&NodeView, Vec<Attachment>) -> Vec<Attachment>,
    ) -> Self {
        let by_name: HashMap<&str, &Arc<NodeView>> = nodes
            .iter()
            .map(|node| (node.name.as_str(), node))
            .collect();
        for machine in &mut self.found {
            if let Some(node) = by_name.get(machine.node.as_str()) {
                machine.attachments = of_node(node, std::mem::take(&mut machine.attachments));
            }
        }
        for node in nodes {
            if addresses(node).any(|own| self.unread.contains(&own)) {
                let own = of_node(node, Vec::new()).into_iter();
                self.unread.extend(own.map(|own| own.address.to_string()));
            }
        }
        self
    }

    /// Whether a member of this name or at this address stays although none is wanted there: not all that are
    /// wanted are known.
    #[must_use]
    pub fn keeps(&self, member: &str) -> bool {
        !self.are_complete || self.unread.contains(member)
    }

    /// The same without those that are known: enough to tell what stays.
    #[must_use]
    pub fn kept(&self) -> Self {
        Self {
            found: Vec::new(),
            are_complete: self.are_complete,
            unread: self.unread.clone(),
        }
    }

    /// What is the machine's of this Node, by the Node's word, stays.
    fn keep_those_of(&mut self, node: &NodeView, id: Option<&ProviderId>) {
        let addresses: Vec<String> = addresses(node).collect();
        self.are_complete &= !addresses.is_empty();
        self.unread.extend(addresses);
        self.unread.extend(id.map(|id| id.instance().to_owned()));
    }

    /// As members for these Nodes, which are selected: with their addresses in these subnets alone; none: in all.
    #[must_use]
    pub fn for_nodes(mut self, nodes: &[Arc<NodeView>], subnets: &BTreeSet<String>) -> Self {
        // A cloud that knows none of them is more likely to be wrong about that than right.
        self.are_complete &= nodes.is_empty() || !self.found.is_empty();
        let is_within = |attachment: &Attachment| {
            subnets.is_empty() || subnets.contains(&canonical_uuid(&attachment.subnet))
        };
        for machine in &mut self.found {
            machine.attachments.retain(is_within);
        }
        let mut found = self.found.iter();
        // Members tell their pools.
        self.are_complete &=
            self.unread.is_empty() || found.any(|machine| !machine.attachments.is_empty());
        self
    }
}

/// The Nodes that are to carry the Service's traffic.
#[must_use]
pub fn selected(nodes: &[Arc<NodeView>], selector: &Selector) -> Vec<Arc<NodeView>> {
    let selected = nodes.iter().filter(|node| selector.matches(node));
    selected.cloned().collect()
}

/// The addresses of a Node by its own word, in canonical form.
fn addresses(node: &NodeView) -> impl Iterator<Item = String> {
    let all = node.addresses.iter();
    let all = all.filter_map(|entry| entry.address.parse::<IpAddr>().ok());
    all.map(|address| address.to_string())
}

/// The first of these Nodes by name, and how many more there are.
#[must_use]
pub fn some_of(nodes: &[&str]) -> String {
    let named = nodes.get(..NAMED).unwrap_or(nodes).join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// What was found.
pub(super) struct Found {
    /// The machines.
    pub(super) members: Members,
    /// What a person should know about the others.
    pub(super) notices: Vec<Notice>,
    /// When to look again, if the cloud could not be asked about some.
    pub(super) again: Option<Duration>,
}

/// Finds machines.
pub struct MemberResolver {
    pub(super) inventory: Arc<Inventory>,
    /// What Events call the cloud.
    cloud: &'static str,
    /// When a Node's machine was looked for first that was not listed, by its provider ID.
    looked: Mutex<HashMap<String, Instant>>,
    /// What the cloud says of machines that listings lack.
    alone: Alone,
    /// No older listing is believed.
    doubted: Mutex<Option<Instant>>,
}

impl MemberResolver {
    /// Machines of this inventory. `cloud`: what Events call the cloud.
    #[must_use]
    pub fn new(inventory: Arc<Inventory>, cloud: &'static str) -> Self {
        Self {
            inventory,
            cloud,
            looked: Mutex::default(),
            alone: Alone::default(),
            doubted: Mutex::default(),
        }
    }

    /// Whether a Node says by its provider ID that it is a machine of this cloud.
    pub(super) fn claims(&self, node: &NodeView) -> bool {
        let id = node.provider_id.as_deref();
        id.is_some_and(|id| self.inventory.read_id(id).is_some())
    }

    /// The ID of its machine of this cloud.
    fn read_id(&self, node: &NodeView) -> Option<ProviderId> {
        self.inventory.read_id(node.provider_id.as_deref()?)?.ok()
    }

    /// The machines of these Nodes.
    pub(super) async fn find(&self, nodes: &[Arc<NodeView>]) -> Found {
        let mut found = Found {
            members: Members {
                are_complete: true,
                ..Members::default()
            },
            notices: Vec::new(),
            again: None,
        };
        let members = &mut found.members;
        let (mut without, mut unseen) = (Vec::new(), Vec::new());
        for (node, answer) in self.look_up_all(nodes).await {
            match answer {
                (Lookup::Known { facts, .. }, attachments) => {
                    // Whoever's network cards cannot be read may have an address nevertheless.
                    if facts.addresses.is_empty() {
                        members.keep_those_of(node, None);
                    }
                    let id = facts.provider_id.as_ref().map(ProviderId::instance);
                    members.found.push(MachineOf {
                        node: node.name.clone(),
                        id: id.unwrap_or_default().to_owned(),
                        zone: facts.zone,
                        attachments,
                    });
                }
                (Lookup::Missing | Lookup::Foreign(_), _) => without.push(node.name.as_str()),
                (Lookup::Unsure(_), _) => {
                    members.keep_those_of(node, self.read_id(node).as_ref());
                    unseen.push(node.name.as_str());
                }
                (Lookup::Unavailable { retry_after, .. }, _) => {
                    members.are_complete = false;
                    let wait = retry_after.unwrap_or_default().max(ASK_AGAIN);
                    found.again = found.again.max(Some(wait));
                }
                _ => members.are_complete = false,
            }
        }
        let notices = [left_out(self.cloud, &without), hidden(self.cloud, &unseen)];
        found.notices.extend(notices.into_iter().flatten());
        found
    }

    /// What is known of the machines of these Nodes, in their order. A Node without provider ID has none yet.
    async fn look_up_all<'a>(&self, nodes: &'a [Arc<NodeView>]) -> Vec<(&'a NodeView, Answer)> {
        let mut all = Vec::new();
        let mut missing = Vec::new();
        for node in nodes {
            if let Some(id) = node.provider_id.as_deref() {
                let answer = self.look_up(node, id).await;
                if answer.0 == Lookup::Missing {
                    missing.push((all.len(), node, id));
                }
                all.push((&**node, answer));
            }
        }
        let is_known = |(_, answer): &(_, Answer)| matches!(answer.0, Lookup::Known { .. });
        for some in missing.chunks(SIDE_BY_SIDE) {
            let asked = some
                .iter()
                .map(|(_, node, id)| self.alone.get(&self.inventory, node, id));
            let answers = join_all(asked).await;
            for ((at, ..), answer) in some.iter().zip(answers) {
                if let Some(entry) = all.get_mut(*at) {
                    entry.1 = answer;
                }
            }
            // Where none is there, the credentials may be another project's, and more questions tell no more.
            if !all.iter().any(is_known) {
                break;
            }
        }
        all
    }

    /// A machine that the listing at hand does not have is looked for in one that is made for the
    /// purpose, by all who look for it within a minute in the same.
    async fn look_up(&self, node: &NodeView, id: &str) -> (Lookup, Vec<Attachment>) {
        let found = self.inventory.attachments(node, self.doubted()).await;
        match found.0 {
            Lookup::Missing | Lookup::Unlisted(_) => {
                let since = self.first_looked_for(id);
                self.inventory.attachments(node, Some(since)).await
            }
            _ => found,
        }
    }

    /// Believes no listing of machines that was made until now: one of them seems to be no more. That is asked
    /// for once in a while at most.
    pub(super) fn doubt(&self) {
        let mut doubted = self.doubted.lock().unwrap_or_else(PoisonError::into_inner);
        if doubted.is_none_or(|at| at.elapsed() >= DOUBT_AGAIN) {
            *doubted = Some(Instant::now());
            self.alone.forget();
        }
    }

    fn doubted(&self) -> Option<Instant> {
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this machine was looked for first, within the last minute.
    fn first_looked_for(&self, id: &str) -> Instant {
        let now = Instant::now();
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.retain(|_, first| now.saturating_duration_since(*first) < LOOK_AGAIN);
        *looked.entry(id.to_owned()).or_insert(now)
    }
}

#[cfg(test)]
mod tests;
