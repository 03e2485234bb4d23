//! Steps about the way back: the nftables table, rules and routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Planned;
use super::devices::{device, find};
use crate::vlan::nft::{self, Firewall, NftRule};
use crate::vlan::observe::{Observed, Route, Rule};
use crate::vlan::step::{Device, Step};
use crate::vlan::wanted::Wanted;
use crate::vlan::{MarkMask, ROUTE_TABLES, RULE_PRIORITY};

/// The main routing table.
const MAIN: u32 = 254;

/// The way back for what comes in by an interface for an address of a subnet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReturnPath {
    /// The interface.
    pub device: Device,
    /// The subnet.
    pub subnet: IpNet,
    /// Its router, if it has one.
    pub router: Option<IpAddr>,
}

pub(super) fn plan(wanted: &Wanted, observed: &Observed, mask: MarkMask, planned: &mut Planned) {
    let there = match &observed.firewall {
        // Nobody would set the marks that rules look for.
        Firewall::Unsupported | Firewall::Forbidden => {
            return remove(observed, &BTreeSet::new(), &BTreeSet::new(), planned);
        }
        Firewall::Absent => None,
        Firewall::Table(rules) => Some(rules),
    };
    let paths = paths(wanted, observed);
    let numbers = number(&paths, there.map_or(&[], Vec::as_slice), mask);
    let mut table = Vec::new();
    let mut rules = BTreeSet::new();
    let mut routes = BTreeMap::new();
    for (segments, path) in paths {
        let key = (path.device.name.clone(), path.subnet);
        let Some(number) = numbers.get(&key).copied() else {
            planned.without_mark.push((segments, path));
            continue;
        };
        let mark = mask.mark(number);
        table.extend(nft::rules(&path.device.name, path.subnet, mark, mask));
        let answers = Rule {
            v6: matches!(path.subnet, IpNet::V6(_)),
            mark,
            mask: mask.bits(),
            table: ROUTE_TABLES + number,
            priority: RULE_PRIORITY,
            comes_in_by: None,
        };
        // What comes in goes where it would have gone. Only the question whether its source is right,
        // which names no interface, is for the table.
        rules.insert(Rule {
            table: MAIN,
            priority: RULE_PRIORITY - 1,
            comes_in_by: Some(path.device.name.clone()),
            ..answers.clone()
        });
        rules.insert(answers);
        let device = path.device.index;
        let everything = match path.subnet {
            IpNet::V4(_) => IpNet::from(Ipv4Net::default()),
            IpNet::V6(_) => IpNet::from(Ipv6Net::default()),
        };
        let to_router = path.router.map(|router| (everything, Some(router)));
        for (destination, router) in [(path.subnet, None)].into_iter().chain(to_router) {
            let route = Route {
                table: ROUTE_TABLES + number,
                destination,
                router,
                device,
            };
            routes.insert(route, path.device.clone());
        }
    }
    table.sort_by_key(NftRule::chain);
    let kept: BTreeSet<_> = routes.keys().cloned().collect();
    remove(observed, &rules, &kept, planned);
    // Of an interface that is down the kernel has no routes.
    let usable = |device: &Device| {
        let mut links = observed.links.iter();
        links.any(|link| link.index == device.index && link.stack.set_up)
    };
    for (route, device) in routes {
        if !observed.routes.contains(&route) && usable(&device) {
            planned.plan.push(Step::AddRoute(device, route));
        }
    }
    for rule in rules {
        if !observed.rules.contains(&rule) {
            planned.plan.push(Step::AddRule(rule));
        }
    }
    // Marks come last: packets with a mark find the way.
    let comments: Vec<_> = table.iter().map(NftRule::comment).collect();
    match there {
        Some(_) if table.is_empty() => planned.plan.push(Step::DeleteTable),
        Some(there) if *there != comments => planned.plan.push(Step::ReplaceTable(table)),
        None if !table.is_empty() => planned.plan.push(Step::ReplaceTable(table)),
        _ => {}
    }
}

/// Deletes what is ours and in no list, doubles included.
fn remove(
    observed: &Observed,
    rules: &BTreeSet<Rule>,
    routes: &BTreeSet<Route>,
    planned: &mut Planned,
) {
    let mut seen = BTreeSet::new();
    for rule in &observed.rules {
        if !rules.contains(rule) || !seen.insert(rule) {
            planned.plan.push(Step::DeleteRule(rule.clone()));
        }
    }
    for route in observed
        .routes
        .iter()
        .filter(|route| !routes.contains(route))
    {
        planned.plan.push(Step::DeleteRoute(route.clone()));
    }
}

/// The paths by interfaces that are there, each with its L2Networks.
fn paths(wanted: &Wanted, observed: &Observed) -> Vec<(String, ReturnPath)> {
    let mut paths = Vec::new();
    for want in wanted.vlans.values() {
        let Some(link) = find(observed, want.vlan) else {
            continue;
        };
        let segments: Vec<_> = want.segments.iter().map(String::as_str).collect();
        for (subnet, router) in &want.subnets {
            let path = ReturnPath {
                device: device(want.vlan, link),
                subnet: *subnet,
                router: *router,
            };
            paths.push((segments.join(", "), path));
        }
    }
    paths
}

/// A number for each path: the one that it has in the table that is there, for the connections
/// that bear its mark; else the least that is free.
fn number(
    paths: &[(String, ReturnPath)],
    there: &[String],
    mask: MarkMask,
) -> BTreeMap<(String, IpNet), u32> {
    let keys: BTreeSet<_> = paths
        .iter()
        .map(|(_, path)| (path.device.name.clone(), path.subnet))
        .collect();
    let known = nft::numbers(there, mask);
    let mut numbers: BTreeMap<_, _> = known
        .into_iter()
        .filter(|(key, _)| keys.contains(key))
        .collect();
    let mut used: BTreeSet<u32> = numbers.values().copied().collect();
    for key in keys {
        if !numbers.contains_key(&key)
            && let Some(free) = (1..=mask.room()).find(|number| !used.contains(number))
        {
            used.insert(free);
            numbers.insert(key, free);
        }
    }
    numbers
}
