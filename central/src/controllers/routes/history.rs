//! Which pod CIDR was whose: what proves that a route is this cluster's.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooring_common::node_view::NodeView;

use crate::cloud_provider::Instances;
use crate::cloud_provider::pod_network::Route;

/// How many routes of Nodes that are gone are remembered: more than a leader can have left to do, and few
/// enough for a replica that stands by for months.
const MOST_GONE: usize = 10_000;

/// The routes that Nodes have called for since this process follows them. Every replica keeps it, so that a
/// new leader knows what the last one knew.
#[derive(Debug, Default)]
pub struct RouteHistory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    seen: HashMap<Route, Seen>,
    /// In the order in which they went.
    gone: VecDeque<Route>,
}

#[derive(Debug)]
struct Seen {
    node: String,
    is_gone: bool,
}

impl RouteHistory {
    /// A Node has changed.
    pub fn changed(
        &self,
        old: Option<&NodeView>,
        new: Option<&NodeView>,
        instances: &dyn Instances,
    ) {
        let (before, now) = (called_for(old, instances), called_for(new, instances));
        if before == now {
            return;
        }
        let mut state = self.lock();
        for route in before.into_iter().filter(|route| !now.contains(route)) {
            state.goes(route);
        }
        let node = new.map(|node| node.name.clone()).unwrap_or_default();
        for route in now {
            let (node, is_gone) = (node.clone(), false);
            state.seen.insert(route, Seen { node, is_gone });
        }
    }

    /// A route was deleted that no Node calls for: whoever makes it again does that by hand.
    pub fn deleted(&self, route: &Route) {
        let mut state = self.lock();
        if state.seen.get(route).is_some_and(|seen| seen.is_gone) {
            state.seen.remove(route);
        }
    }

    /// All of them, with the last Node that called for each.
    #[must_use]
    pub fn all(&self) -> HashMap<Route, String> {
        let state = self.lock();
        let seen = state.seen.iter();
        seen.map(|(route, seen)| (route.clone(), seen.node.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn goes(&mut self, route: Route) {
        if let Some(seen) = self.seen.get_mut(&route) {
            seen.is_gone = true;
            self.gone.push_back(route);
        }
        if self.gone.len() > MOST_GONE
            && let Some(oldest) = self.gone.pop_front()
            && self.seen.get(&oldest).is_some_and(|seen| seen.is_gone)
        {
            self.seen.remove(&oldest);
        }
    }
}

/// The routes that a Node calls for. None if nobody knows its machine.
pub(super) fn called_for(node: Option<&NodeView>, instances: &dyn Instances) -> Vec<Route> {
    let machine = node
        .and_then(|node| node.provider_id.as_deref())
        .and_then(|id| instances.read_id(id));
    let (Some(node), Some(Ok(machine))) = (node, machine) else {
        return Vec::new();
    };
    let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse().ok());
    let routes = cidrs.map(|destination| Route {
        machine: machine.clone(),
        destination,
    });
    routes.collect()
}
