use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::cloud_provider::load_balancers::Presence;
use crate::clouds::cloudscale::load_balancers::plan::plan;
use crate::clouds::cloudscale::load_balancers::plan::tests::simulation::{Simulation, built};
use crate::clouds::cloudscale::load_balancers::plan::tests::{pool, wanted};
use crate::clouds::cloudscale::load_balancers::step::Step;
use crate::engine::endpoints::EndpointStates;
use crate::engine::provider::Desired as _;
use crate::engine::step::Action;

/// A pool before these hosts, 1 to n.
fn before(hosts: usize) -> Desired {
    let hosts = (1..).take(hosts);
    let mut pool = pool("tcp", 80, 1);
    pool.members = hosts
        .map(|host| super::super::plan::tests::member(host, 1))
        .collect();
    wanted([pool])
}

/// For the hosts in turn: `R`eady, `L`eaving, `-` neither.
fn endpoint_states(hosts: &str) -> EndpointStates {
    let of_host = |(index, host): (usize, char)| {
        let presence = match host {
            'R' => Presence::Ready,
            'L' => Presence::Leaving,
            _ => Presence::Absent,
        };
        (format!("10.0.0.{}", index + 1), presence)
    };
    hosts.chars().enumerate().map(of_host).collect()
}

/// The load balancer before these hosts, of which some are disabled: `+` or `-` each.
fn there(hosts: &str) -> Observed {
    let mut observed = built(&before(hosts.len()));
    for (member, host) in observed.pools[0].members.iter_mut().zip(hosts.chars()) {
        member.spec.enabled = host == '+';
    }
    observed
}

/// Which of the members are enabled: `+` or `-` each.
fn shown(members: impl Iterator<Item = bool>) -> String {
    members
        .map(|enabled| if enabled { '+' } else { '-' })
        .collect()
}

/// All members that are enabled and one of these hosts (counted from 1) serve.
fn serving(observed: &Observed, hosts: &[usize]) -> HashSet<String> {
    let members = observed.pools[0].members.iter().enumerate();
    let serving = members.filter(|(index, m)| m.spec.enabled && hosts.contains(&(index + 1)));
    serving.map(|(_, member)| member.id.clone()).collect()
}

/// What becomes of `+` and `-`, where all of these hosts are healthy, and whether some wait.
fn settled(hosts: &str, enabled: &str, healthy: &[usize]) -> (String, bool) {
    let (mut desired, observed) = (before(hosts.len()), there(enabled));
    let serving = serving(&observed, healthy);
    let is_held = endpoint_states(hosts).settle(desired.pools(), &observed, &serving);
    let members = desired.pools[0].members.iter();
    (shown(members.map(|member| member.enabled)), is_held)
}

#[test]
fn disables_node_with_terminating_endpoint_if_another_serves() {
    let table = [
        // Ready, Leaving or neither; enabled before; healthy; enabled after; whether one waits.
        ("LR", "++", &[1, 2][..], "-+", false),
        // Its health monitor does not say yet that the other one serves.
        ("LR", "++", &[1], "++", true),
        // The other one has to be enabled first.
        ("LR", "+-", &[1, 2], "++", true),
        // What was disabled stays so.
        ("LR", "-+", &[], "-+", false),
        ("LRL", "+++", &[2], "-+-", false),
    ];
    for (hosts, enabled, healthy, after, is_held) in table {
        let expected = (after.to_owned(), is_held);
        assert_eq!(
            settled(hosts, enabled, healthy),
            expected,
            "{hosts} {enabled}"
        );
    }
}

#[test]
fn enables_node_with_ready_endpoint_at_once() {
    let table = [
        ("RR", "-+", "++"),
        // Whoever has disabled it.
        ("R", "-", "+"),
        ("R--", "++-", "++-"),
        ("---", "+--", "+--"),
    ];
    for (hosts, enabled, after) in table {
        let expected = (after.to_owned(), false);
        assert_eq!(settled(hosts, enabled, &[]), expected, "{hosts} {enabled}");
    }
}

#[test]
fn never_disables_last_member() {
    let all = [1, 2, 3];
    for (hosts, enabled, after) in [
        ("L", "+", "+"),
        ("LL", "++", "++"),
        ("L-", "++", "++"),
        ("L-", "+-", "+-"),
        // There was one, which is no member any more.
        ("--", "--", "++"),
        ("LL", "--", "++"),
    ] {
        let expected = (after.to_owned(), false);
        assert_eq!(settled(hosts, enabled, &all), expected, "{hosts} {enabled}");
    }
}

#[test]
fn reads_member_health_only_where_needed() {
    let to_ask = |hosts: &str, enabled: &str| {
        endpoint_states(hosts).to_ask(before(hosts.len()).pools(), &there(enabled))
    };
    assert_eq!(to_ask("LR", "++"), ["p-0"]);
    for (hosts, enabled) in [
        ("RR", "++"),
        ("LR", "-+"),
        ("LR", "+-"),
        ("L-", "++"),
        ("-R", "++"),
    ] {
        assert!(to_ask(hosts, enabled).is_empty(), "{hosts} {enabled}");
    }
}

fn any_hosts(of: &'static [char]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(of), 4).prop_map(String::from_iter)
}

proptest! {
    /// Whatever happens in whatever order, members are switched in place, nobody is disabled before
    /// all are enabled that are to be, and somebody who serves, if anybody does, goes on to.
    #[test]
    fn plan_always_keeps_a_serving_member(
        hosts in any_hosts(&['R', 'L', '-']),
        enabled in any_hosts(&['+', '-']),
        healthy in prop::collection::btree_set(1..=4_usize, 0..4),
    ) {
        let healthy: Vec<usize> = healthy.into_iter().collect();
        let (mut desired, observed) = (before(4), there(&enabled));
        let serving = serving(&observed, &healthy);
        let is_held = endpoint_states(&hosts).settle(desired.pools(), &observed, &serving);
        let plan = plan(&desired, Some(&observed)).unwrap();
        let mut simulation = Simulation::of(observed.clone());
        let with_endpoints = |now: &Observed| -> BTreeSet<String> {
            let members = now.pools[0].members.iter().zip(hosts.chars());
            let serve = members.filter(|(member, host)| {
                *host != '-' && member.spec.enabled && serving.contains(&member.id)
            });
            serve.map(|(member, _)| member.id.clone()).collect()
        };
        let served = !with_endpoints(&observed).is_empty();
        for step in plan.steps() {
            let is_switch = matches!(step, Step::Member(step) if matches!(step.action, Action::Change(..)));
            prop_assert!(is_switch || matches!(step, Step::TagBalancer { .. }), "{}", step);
            simulation.take(step);
            let now = &simulation.observed;
            prop_assert!(!served || !with_endpoints(now).is_empty(), "{}", plan);
        }
        let now = &simulation.observed;
        let members = &now.pools[0].members;
        prop_assert!(members.iter().any(|member| member.spec.enabled));
        for (member, host) in members.iter().zip(hosts.chars()) {
            prop_assert!(host != 'R' || member.spec.enabled, "{}", plan);
        }
        // Once all are healthy, nobody waits for anybody.
        if is_held {
            let all = members.iter().map(|member| member.id.clone()).collect();
            let mut desired = before(4);
            prop_assert!(!endpoint_states(&hosts).settle(desired.pools(), now, &all));
        }
    }
}
