//! Whatever there is and whatever is wanted: what holds for every plan.

use std::collections::BTreeSet;

use mooring_common::engine::{Impact, Plan, Step as _};
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::simulation::{Simulation, built, is_as_wanted, targets};
use super::{SUBNET, listener, member, monitor, plan, wanted, with};
use crate::clouds::cloudscale::load_balancers::desired::{Desired, DesiredPool};
use crate::clouds::cloudscale::load_balancers::model::PoolSpec;
use crate::clouds::cloudscale::load_balancers::observed::{Listener, Observed};
use crate::clouds::cloudscale::load_balancers::step::Step;
use crate::engine::pool::Member as _;
use crate::engine::step::{Action, PartStep};

const OTHER_SUBNET: &str = "22222222-1864-4608-853a-0771b6885a3a";

/// Load balancers that have much in common.
fn any_wanted() -> impl Strategy<Value = Desired> {
    let ports = subsequence(vec!["tcp/a", "tcp/b", "udp/c"], 0..=3);
    let numbers = subsequence(vec![53_u16, 80, 443, 8080], 3).prop_shuffle();
    let hosts = subsequence(vec![1_u8, 2, 3, 4], 0..=4);
    let node_ports = prop::array::uniform3(1_u16..3);
    let choices = prop::array::uniform7(any::<bool>());
    (ports, numbers, node_ports, hosts, choices, 0..3_usize).prop_map(
        |(ports, numbers, node_ports, hosts, choices, kind)| {
            let [
                is_local,
                is_proxied,
                by_source,
                subnet,
                cidrs,
                floats,
                rests,
            ] = choices;
            let of_port = |((name, port), node_port): ((&str, u16), u16)| {
                let protocol = name.split('/').next().unwrap();
                let spoken = if is_proxied && protocol == "tcp" {
                    "proxy"
                } else {
                    protocol
                };
                let algorithm = if by_source {
                    "source_ip"
                } else {
                    "round_robin"
                };
                let mut members: Vec<_> =
                    hosts.iter().map(|host| member(*host, node_port)).collect();
                for member in &mut members {
                    member.monitor_port = Some(if is_local { 9000 } else { node_port });
                    let chosen = if subnet { SUBNET } else { OTHER_SUBNET };
                    chosen.clone_into(&mut member.subnet);
                }
                // One at least is given traffic.
                if let [first, _, ..] = members.as_mut_slice() {
                    first.enabled = !rests;
                }
                let mut monitor = monitor(["tcp", "http", "udp-connect"][kind]);
                if let Some(http) = monitor.http.as_mut().filter(|_| is_local) {
                    "1.0".clone_into(&mut http.version);
                }
                let mut listener = listener(protocol, port);
                listener.allowed_cidrs =
                    cidrs.then(|| "10.0.0.0/8".to_owned()).into_iter().collect();
                DesiredPool {
                    spec: PoolSpec {
                        name: name.to_owned(),
                        algorithm: algorithm.to_owned(),
                        protocol: spoken.to_owned(),
                    },
                    members,
                    monitor,
                    listener,
                }
            };
            let mut desired = wanted(ports.into_iter().zip(numbers).zip(node_ports).map(of_port));
            desired.floating_ips = floats
                .then(|| "203.0.113.9".to_owned())
                .into_iter()
                .collect();
            desired
        },
    )
}

/// What somebody may have done to it, or an attempt left behind.
fn any_observed() -> impl Strategy<Value = Observed> {
    (any_wanted(), prop::array::uniform8(any::<bool>())).prop_map(|(desired, damages)| {
        let mut observed = built(&desired);
        let [
            disabled,
            twice,
            unasked,
            bare,
            loose,
            unheard,
            untagged,
            named,
        ] = damages;
        if let Some(pool) = observed.pools.first_mut() {
            if let Some(member) = pool.members.first_mut().filter(|_| disabled) {
                member.spec.enabled = false;
            }
            if let Some(member) = pool.members.last_mut().filter(|_| named) {
                member.spec.monitor_port = None;
            }
            let mut again = pool.clone();
            again.part.id = "p-again".to_owned();
            again.listeners.clear();
            again.members.clear();
            again.monitors.clear();
            if let Some(second) = pool.monitors.first().cloned().filter(|_| unasked) {
                pool.monitors.push(second);
                "h-again".clone_into(&mut pool.monitors[1].id);
            }
            if unheard {
                pool.listeners.clear();
            }
            if twice {
                observed.pools.insert(0, again);
            }
        }
        if let Some(pool) = observed.pools.last_mut().filter(|_| bare) {
            pool.monitors.clear();
        }
        if loose
            && !observed
                .pools
                .iter()
                .flat_map(|p| &p.listeners)
                .any(|l| l.spec.port == 8080)
        {
            observed.loose_listeners.push(Listener {
                id: "l-loose".to_owned(),
                spec: listener("tcp", 8080),
            });
        }
        if untagged {
            observed.balancer.tags.clear();
        }
        observed
    })
}

fn is_cut(step: &Step) -> bool {
    step.impact() > Impact::None && (is_deletion_of_listener(step) || is_deletion_of_member(step))
}

fn is_deletion_of_listener(step: &Step) -> bool {
    matches!(step, Step::Listener(step) if matches!(step.action, Action::Delete(..)))
}

fn is_deletion_of_member(step: &Step) -> bool {
    matches!(step, Step::Member(step) if matches!(step.action, Action::Delete(..)))
}

/// Carries a plan out, and holds every moment of it against what users may notice. Gives what there
/// is after each step.
fn carried_out(desired: &Desired, before: &Observed, plan: &Plan<Step>) -> Vec<Observed> {
    let mut simulation = Simulation::of(before.clone());
    let mut states = vec![before.clone()];
    for step in plan.steps() {
        simulation.take(step);
        if !is_cut(step) {
            for pool in &desired.pools {
                check_served(pool, before, &simulation.observed, plan);
            }
        }
        states.push(simulation.observed.clone());
    }
    states
}

fn check_served(wanted: &DesiredPool, before: &Observed, now: &Observed, plan: &Plan<Step>) {
    let place = wanted.listener.place();
    let Some(old) = targets(before, place) else {
        return;
    };
    let Some(served) = targets(now, place) else {
        panic!("nobody listens on {place:?} at some moment of\n{plan}");
    };
    let new: BTreeSet<_> = wanted
        .members
        .iter()
        .filter(|m| m.enabled)
        .map(|m| format!("{:?}", m.target()))
        .collect();
    let both: BTreeSet<_> = old.intersection(&new).cloned().collect();
    if !old.is_empty() && !new.is_empty() {
        assert!(
            !served.is_empty(),
            "{place:?} has no member at some moment of\n{plan}"
        );
    }
    // A single one that must be replaced is not there for a moment, and others are.
    if both.len() > 1 {
        assert!(
            !served.is_disjoint(&both),
            "{place:?} loses its members in\n{plan}"
        );
    }
}

/// Whether a port has to be cut off: its listener is in a pool that can neither stay nor be renamed.
fn must_move(wanted: &DesiredPool, desired: &Desired, before: &Observed) -> bool {
    let serves = |listener: &Listener| listener.spec.place() == wanted.listener.place();
    let mut pools = before.pools.iter();
    let Some(pool) = pools.find(|pool| pool.listeners.iter().any(serves)) else {
        return false;
    };
    let (old, new) = (&pool.part.spec, &wanted.spec);
    let is_free = !desired.pools.iter().any(|other| other.spec == *old)
        && !before.pools.iter().any(|other| other.part.spec == *new);
    let is_alike = (&old.algorithm, &old.protocol) == (&new.algorithm, &new.protocol);
    old != new && !(is_alike && is_free)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn plan_reaches_desired_state_without_needless_cuts(
        desired in any_wanted(), before in any_observed()
    ) {
        let steps = plan(&desired, Some(&before)).unwrap();
        let states = carried_out(&desired, &before, &steps);
        let after = states.last().unwrap();
        prop_assert!(is_as_wanted(&desired, after), "{steps}\n{after:#?}");
        prop_assert!(plan(&desired, Some(after)).unwrap().is_empty());
        let cuts = steps.steps().iter().filter(
            |step| is_cut(step) && is_deletion_of_listener(step)
        );
        let moved = desired.pools.iter().filter(|pool| must_move(pool, &desired, &before));
        // Of two pools that are the same, one may be renamed where this does not see it.
        prop_assert!(cuts.count() <= moved.count(), "{steps}");
    }

    #[test]
    fn next_step_repairs_interruption(desired in any_wanted(), before in any_observed()) {
        let steps = plan(&desired, Some(&before)).unwrap();
        for pair in steps.steps().windows(2).filter(|pair| is_cut(&pair[0])) {
            let is_mended = match (&pair[0], &pair[1]) {
                (Step::Listener(before), Step::Listener(step)) => match (&before.action, &step.action) {
                    (Action::Delete(old, _), Action::Create(new)) => old.spec.place() == new.place(),
                    _ => false,
                },
                (Step::Member(before), next) => match (&before.action, next) {
                    (
                        Action::Delete(old, _),
                        Step::Member(PartStep { action: Action::Create(new), .. }),
                    ) => old.spec.target() == new.target(),
                    (Action::Delete(_, impact), _) => *impact == Impact::Major,
                    _ => false,
                },
                _ => false,
            };
            prop_assert!(is_mended, "{steps}");
        }
    }

    #[test]
    fn resumes_after_any_interruption(
        desired in any_wanted(), before in any_observed(), at in any::<prop::sample::Index>()
    ) {
        let steps = plan(&desired, Some(&before)).unwrap();
        let states = carried_out(&desired, &before, &steps);
        let stopped = &states[at.index(states.len())];
        let rest = plan(&desired, Some(stopped)).unwrap();
        let states = carried_out(&desired, stopped, &rest);
        let after = states.last().unwrap();
        prop_assert!(is_as_wanted(&desired, after), "{steps}\n{rest}\n{after:#?}");
    }

    #[test]
    fn removes_no_members_while_some_are_unknown(
        desired in any_wanted(), before in any_observed()
    ) {
        let mut desired = Desired { members_are_complete: false, ..desired };
        for member in desired.pools.iter_mut().flat_map(|pool| &mut pool.members) {
            member.enabled = true;
        }
        let steps = plan(&desired, Some(&before)).unwrap();
        let mut simulation = Simulation::of(before.clone());
        steps.steps().iter().for_each(|step| simulation.take(step));
        let after = &simulation.observed;
        prop_assert!(plan(&desired, Some(after)).unwrap().is_empty(), "{steps}\n{after:#?}");
        for pool in &desired.pools {
            let place = pool.listener.place();
            let is_in_place = |l: &Listener| l.spec.place() == place;
            let mut pools = before.pools.iter();
            let old = pools.find(|pool| pool.listeners.iter().any(is_in_place));
            let stays = old.is_some_and(|old| old.part.spec == pool.spec);
            let (old, new) = (targets(&before, place), targets(after, place));
            if stays {
                prop_assert!(new.unwrap().is_superset(&old.unwrap()), "{steps}");
            } else if old.is_some_and(|old| !old.is_empty()) {
                prop_assert!(!new.unwrap().is_empty(), "{steps}");
            }
        }
    }
}

#[test]
fn keeps_serving_one_of_two_equal_pools() {
    let desired = wanted([super::pool("tcp", 80, 1)]);
    let mut observed = built(&desired);
    let mut empty = built(&wanted([with(super::pool("tcp", 80, 1), |p| {
        p.members.clear();
    })]));
    let mut empty = empty.pools.remove(0);
    empty.part.id = "p-again".to_owned();
    empty.listeners.clear();
    observed.pools.insert(0, empty);
    assert_eq!(
        super::steps(&desired, &observed),
        ["delete pool tcp (p-again)"]
    );
}
