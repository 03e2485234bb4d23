//! Who gets which pod CIDRs. Pure.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use mooring_common::engine::{Plan, Step};
use mooring_common::node_view::NodeView;

use super::observe::Observed;
use super::pool::Pool;

/// A Node gets its pod CIDRs, all of them at once: they can be set only once.
#[derive(Clone, Debug)]
pub(super) struct Assign {
    pub(super) node: Arc<NodeView>,
    pub(super) cidrs: Vec<IpNet>,
}

impl fmt::Display for Assign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cidrs: Vec<String> = self.cidrs.iter().map(ToString::to_string).collect();
        write!(
            f,
            "give {} the pod CIDRs {}",
            self.node.name,
            cidrs.join(", ")
        )
    }
}

impl Step for Assign {}

/// What a pass comes to.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) plan: Plan<Assign>,
    /// For these no block is free.
    pub(super) exhausted: Vec<Arc<NodeView>>,
    /// These have a pod CIDR that an older Node, named last, has too.
    pub(super) twice: Vec<(Arc<NodeView>, IpNet, String)>,
    /// How many blocks are taken.
    pub(super) used: u64,
    /// After which block to go on.
    pub(super) cursor: u64,
}

/// `pool` has no block taken but what the cloud keeps for itself.
pub(super) fn plan(observed: &Observed, mut pool: Pool, cursor: u64) -> Decisions {
    let mut decisions = Decisions {
        cursor,
        ..Decisions::default()
    };
    let mut owners: HashMap<IpNet, &str> = HashMap::new();
    for (node, cidrs) in &observed.taken {
        for cidr in cidrs {
            occupy(&mut pool, cidr);
            match owners.get(cidr) {
                Some(owner) => {
                    let owner = (*owner).to_owned();
                    decisions.twice.push((node.clone(), *cidr, owner));
                }
                None => {
                    owners.insert(*cidr, &node.name);
                }
            }
        }
    }
    for cidr in &observed.unseen {
        occupy(&mut pool, cidr);
    }
    for applicant in &observed.applicants {
        let node = applicant.node.clone();
        if !applicant.given.is_empty() {
            let cidrs = applicant.given.clone();
            decisions.plan.push(Assign { node, cidrs });
            continue;
        }
        let ipv6 = applicant.ipv6.map(IpNet::V6);
        if let Some((cidr, owner)) = ipv6.and_then(|cidr| Some((cidr, owners.get(&cidr)?))) {
            decisions.twice.push((node, cidr, (*owner).to_owned()));
            continue;
        }
        let Some((block, after)) = pool.next(decisions.cursor) else {
            decisions.exhausted.push(node);
            continue;
        };
        decisions.cursor = after;
        if let Some(cidr) = ipv6 {
            owners.insert(cidr, &applicant.node.name);
        }
        let cidrs = std::iter::once(IpNet::V4(block)).chain(ipv6).collect();
        decisions.plan.push(Assign { node, cidrs });
    }
    decisions.used = pool.used();
    decisions
}

fn occupy(pool: &mut Pool, cidr: &IpNet) {
    if let IpNet::V4(range) = cidr {
        pool.occupy(*range);
    }
}

#[cfg(test)]
mod tests;
