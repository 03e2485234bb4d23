//! The Nodes without pod CIDRs, what they can have, and what all others have.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use ipnet::{IpNet, Ipv6Net};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use mooring_common::k8s::Slim as _;
use mooring_common::node_view::NodeView;
use mooring_common::work_queue::Backoff;
use tokio::time::{Instant, timeout};

use super::{Controller, Failure};

/// A Node without pod CIDRs.
#[derive(Clone, Debug)]
pub(super) struct Applicant {
    pub(super) node: Arc<NodeView>,
    /// What it was given already, and does not show yet.
    pub(super) given: Vec<IpNet>,
    /// Its IPv6 pod CIDR, if it needs one.
    pub(super) ipv6: Option<Ipv6Net>,
}

/// What a pass goes by.
#[derive(Debug, Default)]
pub(super) struct Observed {
    /// Who has which pod CIDR, by name: the oldest Node first.
    pub(super) taken: Vec<(Arc<NodeView>, Vec<IpNet>)>,
    /// Pod CIDRs of Nodes that the cache does not have (any more, or yet).
    pub(super) unseen: Vec<IpNet>,
    pub(super) applicants: Vec<Applicant>,
    /// There is no range for these, or the cloud could not be asked.
    pub(super) refused: Vec<(Arc<NodeView>, String)>,
    /// When to look again, if Nodes wait for the cloud.
    pub(super) look_again: Option<Duration>,
}

/// Pod CIDRs that were written, or read afresh, and do not show in the cache yet.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) cidrs: Vec<IpNet>,
    pub(super) at: Instant,
    /// Whether the API server has said so.
    pub(super) is_certain: bool,
}

/// A Node that there was no IPv6 pod CIDR for, and when the cloud is asked again.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    failures: u32,
    until: Instant,
    why: String,
}

/// How many Nodes a page of the list has.
const PAGE: u32 = 500;
/// How many machines the cloud is asked about at the same time, and for how long.
const SIDE_BY_SIDE: usize = 8;
const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// After how long a Node that is not in the cache is one that was deleted, and not one that has just come.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);
/// How soon the cloud is asked again about a machine that it has not told a range of.
const AGAIN: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(300),
};

impl Controller {
    /// Reads every Node from the API server itself: the cache may not have what the last leader wrote.
    pub(super) async fn read_all(&self) -> Result<(), Failure> {
        let mut params = ListParams::default().limit(PAGE);
        let mut all: Vec<Node> = Vec::new();
        loop {
            let page = self.nodes.list(&params).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        let mut given = self.given();
        for node in all.into_iter().map(NodeView::slim) {
            let cidrs = cidrs(&node);
            if !cidrs.is_empty() {
                let (at, is_certain) = (Instant::now(), true);
                given.insert(
                    node.uid,
                    Given {
                        cidrs,
                        at,
                        is_certain,
                    },
                );
            }
        }
        Ok(())
    }

    pub(super) async fn observe(&self) -> Observed {
        let mut nodes: Vec<_> = self
            .context
            .nodes
            .all()
            .into_iter()
            .map(|(_, n)| n)
            .collect();
        nodes.sort_by_cached_key(|node| (node.created, node.name.clone()));
        let mut observed = Observed::default();
        let mut lacking = Vec::new();
        {
            let mut given = self.given();
            let uids: HashSet<&str> = nodes.iter().map(|node| node.uid.as_str()).collect();
            given.retain(|uid, given| {
                uids.contains(uid.as_str()) || given.at.elapsed() < SHOWS_WITHIN
            });
            for node in &nodes {
                if !node.pod_cidrs.is_empty() {
                    given.remove(&node.uid);
                    observed.taken.push((node.clone(), cidrs(node)));
                    continue;
                }
                match given.get(&node.uid) {
                    Some(given) if given.is_certain && given.at.elapsed() < SHOWS_WITHIN => {}
                    Some(given) => observed.applicants.push(Applicant {
                        node: node.clone(),
                        given: given.cidrs.clone(),
                        ipv6: None,
                    }),
                    None if node.deleting => {}
                    None => lacking.push(node.clone()),
                }
            }
            // What was given to those that lack theirs by the cache is no other's either.
            observed.unseen = given
                .values()
                .flat_map(|given| given.cidrs.clone())
                .collect();
        }
        self.look_up(lacking, &mut observed).await;
        observed
    }

    /// What each can have of the cloud. One that waits is answered as it was before.
    async fn look_up(&self, lacking: Vec<Arc<NodeView>>, observed: &mut Observed) {
        let uids: HashSet<String> = lacking.iter().map(|node| node.uid.clone()).collect();
        self.waiting().retain(|uid, _| uids.contains(uid));
        let looks = lacking.into_iter().map(async |node| {
            let waits = self.waiting().get(&node.uid).cloned();
            match waits.filter(|waits| waits.until > Instant::now()) {
                Some(waits) => (node, Err(Some(waits))),
                None => {
                    let found = self.ipv6_of(&node).await;
                    let found = found.map_err(|why| Some(self.waits(&node, why?)));
                    (node, found)
                }
            }
        });
        let mut looks = stream::iter(looks).buffered(SIDE_BY_SIDE);
        while let Some((node, found)) = looks.next().await {
            match found {
                Ok(ipv6) => {
                    let given = Vec::new();
                    observed.applicants.push(Applicant { node, given, ipv6 });
                }
                Err(None) => {}
                Err(Some(waits)) => {
                    let left = waits.until.saturating_duration_since(Instant::now());
                    let sooner = observed.look_again.map_or(left, |other| other.min(left));
                    observed.look_again = Some(sooner);
                    observed.refused.push((node, waits.why));
                }
            }
        }
    }

    fn waits(&self, node: &NodeView, why: String) -> Waiting {
        let mut waiting = self.waiting();
        let failures = waiting.get(&node.uid).map_or(1, |waits| waits.failures + 1);
        let until = Instant::now() + AGAIN.after(failures);
        let waits = Waiting {
            failures,
            until,
            why,
        };
        waiting.insert(node.uid.clone(), waits.clone());
        waits
    }

    /// `Ok(None)`: none is needed.
    ///
    /// # Errors
    /// Why it has none. `None`: nobody knows its machine yet.
    async fn ipv6_of(&self, node: &NodeView) -> Result<Option<Ipv6Net>, Option<String>> {
        if self.ipam.ipv6.is_none() {
            return Ok(None);
        }
        let ranges = &self.ipam.ranges;
        let id = node.provider_id.as_deref().ok_or(None)?;
        let machine = self.context.instances.read_id(id).and_then(Result::ok);
        let machine = machine.filter(|machine| machine.scheme() == ranges.provider());
        let Some(machine) = machine else {
            return Err(Some(format!(
                "it is no machine of {}, which IPv6 pod CIDRs are allocated from (its provider ID is {id}); \
                 give it its pod CIDRs by hand",
                ranges.provider()
            )));
        };
        match timeout(LONGEST_LOOK, self.ipam.ipv6_pod_cidr(&machine)).await {
            Ok(found) => found.map_err(|why| Some(why.to_string())),
            Err(_) => Err(Some(format!(
                "{} has not answered within {} s",
                ranges.provider(),
                LONGEST_LOOK.as_secs()
            ))),
        }
    }
}

pub(super) fn cidrs(node: &NodeView) -> Vec<IpNet> {
    let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse().ok());
    cidrs.collect()
}
