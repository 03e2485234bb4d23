//! Whatever there is and whatever is wanted: what holds for every plan.

use std::collections::BTreeSet;

use mooring_common::engine::Plan;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::simulation::{BALANCER, firewall, own};
use super::*;
use crate::clouds::linode::api::node_balancers::MARKS;
use crate::clouds::linode::load_balancers::model::NodeSpec;
use crate::clouds::linode::load_balancers::observed::Config;
use crate::engine::pool::Member as _;

const ACLS: [&str; 3] = [
    r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#,
    r#"{"allowList": {"ipv4": ["192.0.2.0/24"], "ipv6": ["2001:db8::/32"]}}"#,
    r#"{"denyList": {"ipv4": ["192.0.2.0/24"]}}"#,
];
/// What holds for all ports.
const OF_ALL: [&[(&str, &str)]; 8] = [
    &[],
    &[("throttle", "3")],
    &[("tags", "a,b")],
    &[("default-algorithm", "leastconn")],
    &[("check-type", "http")],
    &[("check-type", "none"), ("check-interval", "9")],
    &[("port-80", r#"{"protocol": "http"}"#)],
    &[
        ("port-80", r#"{"proxy-protocol": "v2"}"#),
        ("throttle", "4"),
    ],
];

/// NodeBalancers that have much in common.
fn any_wanted(least: usize) -> impl Strategy<Value = Desired> {
    let ports = subsequence(vec!["tcp/80", "tcp/443", "tcp/53", "udp/53"], 1..=4);
    let hosts = subsequence(vec![1_u8, 2, 3, 4], least..=4);
    let firewall = prop_oneof![
        Just(None),
        select(&["7", "8", "50"][..]).prop_map(|id| Some(("firewall-id", id))),
        select(&ACLS[..]).prop_map(|acl| Some(("firewall-acl", acl))),
    ];
    (ports, hosts, select(&OF_ALL[..]), firewall).prop_map(|(ports, hosts, of_all, firewall)| {
        let annotations: Vec<_> = of_all.iter().copied().chain(firewall).collect();
        wanted(&ports.join(" "), &annotations, &hosts)
    })
}

/// What the Go controller, an interrupted attempt or a person have left, and which firewalls are ours.
fn any_observed() -> impl Strategy<Value = (Observed, BTreeSet<u64>)> {
    (any_wanted(0), prop::array::uniform8(any::<bool>())).prop_map(|(desired, damages)| {
        let mut observed = built(&desired);
        let [go, strange, loose, empty, drains, rejects, tagged, moved] = damages;
        let own_spec = match &desired.firewall {
            FirewallWish::Own(spec) => Some(spec.clone()),
            _ => None,
        };
        let ids = observed.attached.iter().map(|firewall| firewall.id);
        let mut ours: BTreeSet<u64> = ids.filter(|_| own_spec.is_some()).collect();
        if go {
            observed.balancer.tags.clear();
            for firewall in observed
                .attached
                .iter_mut()
                .filter(|one| ours.contains(&one.id))
            {
                firewall.tags.clear();
                "my-cluster-00ff00ff00ff".clone_into(&mut firewall.label);
            }
        }
        if let Some(spec) = own_spec.filter(|_| loose && !go) {
            observed.loose.push(own(51, &spec, false));
            "ccm-again".clone_into(&mut observed.loose[0].label);
            ours.insert(51);
        }
        if strange {
            let rules = json!({"inbound": [], "inbound_policy": "DROP"});
            observed.attached = vec![firewall(9, "office", &rules, true)];
            ours.retain(|id| *id != OWN);
        }
        if tagged {
            observed.balancer.tags.push("somebody".to_owned());
        }
        if let Some(config) = observed.configs.first_mut() {
            if empty {
                config.nodes.clear();
            }
            let mut first = config.nodes.first_mut().filter(|_| drains);
            if let Some(node) = first.as_mut().filter(|node| node.spec.mode.is_some()) {
                node.spec.enable(false);
            }
        }
        if let Some(config) = observed.configs.last_mut() {
            for node in config.nodes.iter_mut().filter(|_| rejects) {
                node.spec.mode = node.spec.mode.as_ref().map(|_| "reject".to_owned());
            }
            for node in config.nodes.iter_mut().filter(|_| moved) {
                node.spec.address = node.spec.address.replace(":30", ":31");
            }
        }
        (observed, ours)
    })
}

/// Those that are given traffic at a place. `None`: nobody listens there.
fn accepting(observed: &Observed, place: (u16, bool)) -> Option<usize> {
    let is_there = |config: &&Config| config.part.spec.place() == place;
    let config = observed.configs.iter().find(is_there)?;
    let nodes = config.nodes.iter().filter(|node| node.spec.is_enabled());
    Some(nodes.count())
}

/// Carries a plan out, and holds every moment of it against what users may notice. Gives what there is after
/// each step.
fn carried_out(
    desired: &Desired,
    before: &Observed,
    simulation: &mut Simulation,
    plan: &Plan<Step>,
) -> Vec<Observed> {
    simulation.begins();
    let mut states = vec![before.clone()];
    for step in plan.steps() {
        simulation.take(step);
        for wanted in &desired.configs {
            let place = wanted.spec.place();
            if accepting(before, place).is_some_and(|count| count > 0) && !wanted.nodes.is_empty() {
                let now = accepting(&simulation.observed, place);
                assert!(
                    now.is_some_and(|count| count > 0),
                    "{place:?} at some moment of\n{plan}"
                );
            }
        }
        if let FirewallWish::Id(id) = desired.firewall {
            let has_it = |observed: &Observed| observed.attached.iter().any(|one| one.id == id);
            let now = &simulation.observed;
            let is_known = now.balancer.tags.contains(&format!("k8s-firewall-{id}"));
            assert!(
                has_it(before) || !has_it(now) || is_known,
                "attached without a mark:\n{plan}"
            );
        }
        states.push(simulation.observed.clone());
    }
    states
}

/// Whether all is as wanted, told by other means than the plan's.
fn is_as_wanted(desired: &Desired, observed: &Observed, ours: &BTreeSet<u64>) -> bool {
    let balancer = &observed.balancer;
    let are_configs_right = desired.configs.iter().all(|wanted| {
        let place = wanted.spec.place();
        let mut configs = observed.configs.iter();
        let Some(actual) = configs.find(|config| config.part.spec.place() == place) else {
            return false;
        };
        let sorted = |nodes: Vec<String>| nodes.into_iter().collect::<BTreeSet<_>>();
        let shown = |spec: &NodeSpec| format!("{} {:?}", spec.address, spec.mode);
        let nodes = sorted(actual.nodes.iter().map(|node| shown(&node.spec)).collect());
        let said = |spec| json!(spec).as_object().cloned().unwrap();
        let (mut is, mut wants) = (said(&actual.part.spec), said(&wanted.spec));
        wants.retain(|_, value| !value.is_null());
        is.retain(|field, _| wants.contains_key(field));
        for field in ["check_interval", "check_timeout", "check_attempts"] {
            if wanted.spec.checks("none") {
                is.insert(field.to_owned(), wants[field].clone());
            }
        }
        let wanted = sorted(wanted.nodes.iter().map(shown).collect());
        is == wants && nodes.len() == actual.nodes.len() && nodes == wanted
    });
    let attached: Vec<u64> = observed
        .attached
        .iter()
        .map(|firewall| firewall.id)
        .collect();
    let is_firewall_right = match &desired.firewall {
        FirewallWish::None => attached.iter().all(|id| !ours.contains(id)),
        FirewallWish::Id(id) => attached == [*id],
        FirewallWish::Own(spec) => {
            observed
                .attached
                .iter()
                .all(|firewall| firewall.is_as(spec))
                && attached.len() == 1
        }
    };
    let is_marked = desired
        .marks
        .iter()
        .all(|mark| balancer.tags.contains(mark));
    let unmarked: BTreeSet<_> = MARKS.unmarked(&balancer.tags).into_iter().collect();
    are_configs_right
        && is_firewall_right
        && observed.loose.is_empty()
        && (is_marked || balancer.tags.is_empty())
        && observed.configs.len() == desired.configs.len()
        && balancer.throttle == Some(desired.balancer.throttle)
        && unmarked == desired.balancer.tags.iter().cloned().collect()
}

/// Whether somebody else's firewall, which does something else, is where one of the Service's own is to be.
fn is_in_the_way(desired: &Desired, observed: &Observed, ours: &BTreeSet<u64>) -> bool {
    let FirewallWish::Own(spec) = &desired.firewall else {
        return false;
    };
    let mut attached = observed.attached.iter();
    attached.any(|one| !ours.contains(&one.id) && !one.is_as(spec))
}

/// Whether a person names a firewall of ours, or one that is not there.
fn names_ours(desired: &Desired, ours: &BTreeSet<u64>) -> bool {
    matches!(&desired.firewall, FirewallWish::Id(id) if ours.contains(id) || *id == OWN)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn plan_reaches_what_is_wanted_and_serves_all_the_time(
        desired in any_wanted(1), (before, ours) in any_observed()
    ) {
        prop_assume!(!names_ours(&desired, &ours));
        let Ok(steps) = plan(&desired, Some(&before)) else {
            prop_assert!(is_in_the_way(&desired, &before, &ours));
            return Ok(());
        };
        if is_in_the_way(&desired, &before, &ours) {
            let are_nodes = steps.steps().iter().all(|step| matches!(step, Step::Node(_)));
            prop_assert!(are_nodes, "{steps}");
            return Ok(());
        }
        let mut simulation = Simulation::of(before.clone(), ours.clone());
        let states = carried_out(&desired, &before, &mut simulation, &steps);
        let after = states.last().unwrap();
        prop_assert!(is_as_wanted(&desired, after, &ours), "{steps}\n{after:#?}");
        prop_assert!(plan(&desired, Some(after)).unwrap().is_empty(), "{steps}");
    }

    #[test]
    fn plan_resumes_after_any_interruption(
        desired in any_wanted(1), (before, ours) in any_observed(), at in any::<prop::sample::Index>()
    ) {
        prop_assume!(!names_ours(&desired, &ours) && !is_in_the_way(&desired, &before, &ours));
        let steps = plan(&desired, Some(&before)).unwrap();
        let done = at.index(steps.steps().len() + 1);
        let mut simulation = Simulation::of(before.clone(), ours.clone());
        steps.steps()[..done].iter().for_each(|step| simulation.take(step));
        let stopped = simulation.observed.clone();
        let rest = plan(&desired, Some(&stopped)).unwrap();
        let states = carried_out(&desired, &stopped, &mut simulation, &rest);
        let after = states.last().unwrap();
        prop_assert!(is_as_wanted(&desired, after, &ours), "{steps}\n{rest}\n{after:#?}");
        prop_assert_eq!(simulation.left_over(BALANCER), 0, "{}\n{}", steps, rest);
    }

    #[test]
    fn nodes_stay_while_some_are_unknown(desired in any_wanted(0), (before, ours) in any_observed()) {
        prop_assume!(!is_in_the_way(&desired, &before, &ours));
        let mut desired = desired;
        desired.members_are_complete = false;
        let steps = plan(&desired, Some(&before)).unwrap();
        for step in steps.steps() {
            let goes = matches!(step, Step::Node(step) if matches!(step.action, crate::engine::step::Action::Delete(..)));
            prop_assert!(!goes, "{}", steps);
        }
    }
}
