//! Which routes are lacking, which are to go, and what there is to say. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use mooring_common::engine::{Impact, Plan, Step};
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;

use super::observe::{NodeRoutes, Observed};
use crate::cloud_provider::pod_network::{Route, Unroutable};

/// One change to the routes of the cloud.
#[derive(Clone, Debug)]
pub(super) enum RouteStep {
    /// The route of a Node that is gone, or of one that has other pod CIDRs now.
    Delete {
        route: Route,
        /// The Node that called for it last. None: another Node needs its range.
        node: Option<String>,
    },
    Create {
        route: Route,
        node: Arc<NodeView>,
    },
}

impl RouteStep {
    pub(super) const fn route(&self) -> &Route {
        match self {
            Self::Delete { route, .. } | Self::Create { route, .. } => route,
        }
    }
}

impl fmt::Display for RouteStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delete { route, .. } => write!(f, "delete the route {route}"),
            Self::Create { route, node } => write!(f, "create the route {route} for {}", node.name),
        }
    }
}

impl Step for RouteStep {
    fn impact(&self) -> Impact {
        match self {
            Self::Delete { .. } => Impact::Considerable,
            Self::Create { .. } => Impact::None,
        }
    }
}

/// Why a Node does not get a route, as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The cloud cannot have it.
    Unroutable(Unroutable),
    /// Another Node, which is older, has the same pod CIDR.
    Claimed { by: String },
    /// The range is on a machine of which nothing proves that it was put there for this cluster.
    Elsewhere { machine: ProviderId },
}

/// A Node that does not get a route.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) node: Arc<NodeView>,
    pub(super) route: Route,
    pub(super) why: Refusal,
}

/// What the flags say, and which families the cloud can write.
pub(super) struct Rules<'a> {
    pub(super) cluster_cidrs: &'a [IpNet],
    pub(super) delete_orphans: bool,
    pub(super) can_write: &'a dyn Fn(&IpNet) -> bool,
}

/// What a pass comes to.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    /// Deletions come first: two machines cannot have one range.
    pub(super) plan: Plan<RouteStep>,
    pub(super) refused: Vec<Refused>,
    /// In the cluster CIDR, on a Node's machine, wanted by no Node, and not provably ours.
    pub(super) unclaimed: BTreeSet<Route>,
}

pub(super) fn plan(observed: &Observed, rules: &Rules<'_>) -> Decisions {
    let mut decisions = Decisions::default();
    let owners = owners(observed, &mut decisions.refused);
    let mut of_machines: HashMap<&ProviderId, Vec<IpNet>> = HashMap::new();
    for one in &observed.nodes {
        let pod_cidrs = of_machines.entry(&one.machine).or_default();
        pod_cidrs.extend(&one.pod_cidrs);
    }
    let mut in_the_way: BTreeMap<IpNet, ProviderId> = BTreeMap::new();
    let routes = observed.table.iter();
    let routes = routes.flat_map(|(machine, ranges)| ranges.iter().map(move |r| (machine, *r)));
    for (machine, destination) in routes {
        let owner = owners.get(&destination);
        let of_machine = of_machines.get(machine);
        let carries = of_machine.is_some_and(|cidrs| cidrs.iter().any(|c| destination.contains(c)));
        let inside = rules.cluster_cidrs.iter().any(|c| c.contains(&destination));
        if carries || !inside || !(rules.can_write)(&destination) {
            continue;
        }
        let route = Route {
            machine: machine.clone(),
            destination,
        };
        let seen = observed.seen.get(&route);
        let is_nodes = of_machine.is_some();
        if seen.is_some() || (is_nodes && (owner.is_some() || rules.delete_orphans)) {
            let node = seen.cloned();
            decisions.plan.push(RouteStep::Delete { route, node });
        } else if owner.is_some() {
            in_the_way.insert(destination, machine.clone());
        } else if is_nodes {
            decisions.unclaimed.insert(route);
        }
    }
    for (destination, owner) in owners {
        create(
            destination,
            owner,
            observed,
            rules,
            &in_the_way,
            &mut decisions,
        );
    }
    decisions
}

/// Who has which pod CIDR: of several Nodes the oldest.
fn owners<'a>(
    observed: &'a Observed,
    refused: &mut Vec<Refused>,
) -> BTreeMap<IpNet, &'a NodeRoutes> {
    let mut owners: BTreeMap<IpNet, &NodeRoutes> = BTreeMap::new();
    for one in &observed.nodes {
        for destination in &one.pod_cidrs {
            match owners.get(destination) {
                None => {
                    owners.insert(*destination, one);
                }
                Some(owner) if owner.machine == one.machine => {}
                Some(owner) => refused.push(Refused {
                    node: one.node.clone(),
                    route: Route {
                        machine: one.machine.clone(),
                        destination: *destination,
                    },
                    why: Refusal::Claimed {
                        by: owner.node.name.clone(),
                    },
                }),
            }
        }
    }
    owners
}

fn create(
    destination: IpNet,
    owner: &NodeRoutes,
    observed: &Observed,
    rules: &Rules<'_>,
    in_the_way: &BTreeMap<IpNet, ProviderId>,
    decisions: &mut Decisions,
) {
    let ranges = observed.table.get(&owner.machine);
    if ranges.is_some_and(|ranges| ranges.iter().any(|range| range.contains(&destination))) {
        return;
    }
    let route = Route {
        machine: owner.machine.clone(),
        destination,
    };
    let node = owner.node.clone();
    let why = if ranges.is_none() {
        Refusal::Unroutable(Unroutable::NoInterface)
    } else if !(rules.can_write)(&destination) {
        Refusal::Unroutable(Unroutable::Family)
    } else if let Some(machine) = in_the_way.get(&destination) {
        let machine = machine.clone();
        Refusal::Elsewhere { machine }
    } else {
        decisions.plan.push(RouteStep::Create { route, node });
        return;
    };
    decisions.refused.push(Refused { node, route, why });
}

/// The Nodes whose condition `NetworkUnavailable` is to change, and to what. `lacking`: the UIDs of those
/// that lack a route.
pub(super) fn conditions(
    observed: &Observed,
    lacking: &HashSet<String>,
) -> Vec<(Arc<NodeView>, bool)> {
    let nodes = observed.nodes.iter();
    let conditions = nodes.map(|one| {
        let is_unavailable = one.pod_cidrs.is_empty() || lacking.contains(&one.node.uid);
        (one.node.clone(), is_unavailable)
    });
    conditions
        .filter(|(node, is_unavailable)| {
            !node.deleting && node.network_unavailable != Some(*is_unavailable)
        })
        .collect()
}

#[cfg(test)]
mod tests;
