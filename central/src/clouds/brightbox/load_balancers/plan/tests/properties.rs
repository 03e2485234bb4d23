//! Whatever there is and whatever is wanted: what holds for every plan.

use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

use super::simulation::{Simulation, cloud_ip, ports};
use super::*;
use crate::clouds::brightbox::api::{BalancerSpec, Group, Listener, Policy, Rule, RuleSpec};

const NAMED: &str = "cip-named";
const ADDRESS: &str = "192.0.2.9";
const SERVERS: [&str; 4] = ["srv-aaaaa", "srv-bbbbb", "srv-ccccc", "srv-ddddd"];
/// Nothing comes to rest later than this.
const ROUNDS: usize = 10;
/// More than one rule holds them.
const MANY: &str = "80 81 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115";
const OPTIONS: [&[(&str, &str)]; 8] = [
    &[],
    &[("listener-protocol", "tcp")],
    &[
        ("listener-protocol", "tcp"),
        ("listener-proxy-protocol", "v1"),
    ],
    &[
        ("listener-protocol", "https"),
        ("ssl-domains", "shop.example.com"),
    ],
    &[("policy", "round-robin")],
    &[
        ("healthcheck-timeout", "900"),
        ("healthcheck-request", "/live"),
    ],
    &[("listener-idle-timeout", "9000")],
    &[("healthcheck-protocol", "tcp")],
];

/// What Services ask for, with much in common.
fn any_wanted(least: usize) -> impl Strategy<Value = Desired> {
    let few = subsequence(vec!["80", "81", "443"], 1..=3).prop_map(|few| few.join(" "));
    let ports = prop_oneof![4 => few, 1 => Just(MANY.to_owned())];
    let servers = subsequence(SERVERS.to_vec(), least..=4);
    let wishes = [
        CloudIpWish::Own,
        CloudIpWish::Own,
        CloudIpWish::Id(NAMED.to_owned()),
        CloudIpWish::Address(ADDRESS.parse().unwrap()),
    ];
    (
        ports,
        select(&OPTIONS[..]),
        servers,
        select(wishes.to_vec()),
        any::<bool>(),
    )
        .prop_map(|(ports, options, servers, wish, is_local)| {
            let spec = match is_local {
                true => json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_080}),
                false => json!({}),
            };
            let mut desired = wanted(&ports, options, &spec, &servers);
            desired.wish = wish;
            desired
        })
}

/// What is of others: another cluster, another Service, and whoever uses the account besides.
fn of_others() -> Account {
    let (other, server) = ("web.default.other", Reference::default());
    let mut used = cloud_ip("cip-used", "web2.default.kubernetes");
    used.load_balancer = Some(Reference {
        id: "lba-other".to_owned(),
        name: other.to_owned(),
    });
    let mut on_a_server = cloud_ip("cip-server", "");
    on_a_server.server = Some(Reference {
        id: SERVERS[0].to_owned(),
        ..server
    });
    Account {
        balancers: vec![Balancer {
            id: "lba-other".to_owned(),
            name: other.to_owned(),
            status: Some("active".to_owned()),
            spec: BalancerSpec {
                nodes: SERVERS.map(ToOwned::to_owned).into(),
                ..BalancerSpec::default()
            },
            cloud_ips: vec![used.clone()],
            ..Balancer::default()
        }],
        groups: vec![Group {
            id: "grp-other".to_owned(),
            name: "web2.default.kubernetes".to_owned(),
            description: "mooring.dev cluster=prod service=another".to_owned(),
            servers: SERVERS.map(ToOwned::to_owned).into(),
            ..Group::default()
        }],
        policies: vec![Policy {
            id: "fwp-other".to_owned(),
            name: other.to_owned(),
            ..Policy::default()
        }],
        cloud_ips: vec![used, on_a_server, cloud_ip("cip-free", "spare")],
    }
}

/// What of an account is not the Service's.
fn others(account: &Account) -> String {
    let mut account = account.clone();
    account
        .balancers
        .retain(|one| plain_name(&one.name) != NAME);
    account.groups.retain(|one| one.name != NAME);
    account.policies.retain(|one| one.name != NAME);
    // The one that Services may name may lead anywhere.
    account
        .cloud_ips
        .retain(|ip| ip.name != NAME && ip.id != NAMED);
    format!("{account:?}")
}

/// The rules that somebody else has added to the Service's policy.
fn strange_rules(account: &Account) -> Vec<Rule> {
    let rules = account.policies.iter().flat_map(|one| &one.rules);
    let strange = rules.filter(|rule| rule.spec.description != NAME);
    strange.cloned().collect()
}

/// An account without anything of the Service.
fn without() -> Simulation {
    let mut account = of_others();
    let mut named = cloud_ip(NAMED, "reserved");
    named.public_ip = ADDRESS.parse().ok();
    account.cloud_ips.push(named);
    Simulation::of(account, NAME)
}

/// The one in which everything of the Service is as wanted.
fn settled(desired: &Desired) -> Simulation {
    let mut simulation = without();
    comes_to_rest(&mut simulation, desired);
    simulation
}

/// Carries out plans until one is empty and the cloud is done. Gives the steps of all.
fn comes_to_rest(simulation: &mut Simulation, desired: &Desired) -> Vec<ResourceStep> {
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        let plan = plan(&simulation.looked_up(desired), simulation.bundle().as_ref());
        let steps = plan.unwrap().steps().to_vec();
        simulation.begins();
        for step in &steps {
            simulation.take(step);
        }
        let before = format!("{:?}", simulation.account);
        simulation.passes();
        if steps.is_empty() && before == format!("{:?}", simulation.account) {
            return all;
        }
        all.extend(steps);
    }
    panic!("it does not come to rest: {:?}", shown(&all));
}

/// What Go, an interrupted attempt, or a person may have left.
const DAMAGES: [fn(&mut Own<'_>); 20] = [
    |own| own.groups().for_each(|group| group.description.clear()),
    |own| {
        own.0.account.groups.retain(|group| group.name != NAME);
        own.policies().for_each(|policy| policy.server_group = None);
    },
    |own| own.0.account.policies.retain(|policy| policy.name != NAME),
    |own| own.policies().for_each(|policy| policy.server_group = None),
    |own| own.policies().for_each(|policy| policy.rules.clear()),
    |own| own.policies().for_each(|policy| policy.rules.truncate(1)),
    |own| own.groups().for_each(|group| group.servers.clear()),
    |own| {
        own.groups()
            .for_each(|group| group.servers.extend(SERVERS.map(ToOwned::to_owned)));
    },
    |own| {
        own.balancers()
            .for_each(|balancer| balancer.spec.nodes.clear());
    },
    |own| {
        own.balancers()
            .for_each(|balancer| balancer.spec.nodes.extend(SERVERS.map(ToOwned::to_owned)));
    },
    |own| {
        own.0
            .account
            .balancers
            .retain(|balancer| balancer.name != NAME);
    },
    |own| own.become_("failed"),
    |own| own.become_("failing"),
    |own| own.become_("deleting"),
    |own| own.ips(|ip| ip.load_balancer = None),
    |own| own.0.account.cloud_ips.push(cloud_ip("cip-again", NAME)),
    |own| {
        // By hand.
        let id = own.0.alive().map(|balancer| balancer.id.clone());
        let mut all = own.0.account.cloud_ips.iter_mut();
        let named = all.find(|ip| ip.id == NAMED).expect("it is there");
        named.load_balancer = id.map(|id| Reference {
            id,
            name: NAME.to_owned(),
        });
    },
    |own| {
        let strange = RuleSpec {
            protocol: "tcp".to_owned(),
            source: "192.0.2.0/24".to_owned(),
            destination_port: "22".to_owned(),
            description: "by hand".to_owned(),
        };
        own.policies().for_each(|policy| {
            policy.rules.push(Rule {
                id: "fwr-strange".to_owned(),
                spec: strange.clone(),
            });
        });
    },
    |own| {
        // Node ports that the Service had before.
        own.balancers().for_each(|balancer| {
            for listener in &mut balancer.spec.listeners {
                listener.target += 1000;
            }
        });
        own.policies()
            .flat_map(|policy| &mut policy.rules)
            .for_each(|rule| {
                rule.spec.destination_port = rule.spec.destination_port.replace("30", "31");
            });
    },
    |own| {
        own.balancers().for_each(|balancer| {
            balancer.name = format!("{NAME} #type:container");
            balancer.spec.listeners.reverse();
            balancer.acme = None;
        });
    },
];

/// What is the Service's in an account.
struct Own<'a>(&'a mut Simulation);

impl Own<'_> {
    fn groups(&mut self) -> impl Iterator<Item = &mut Group> {
        let all = self.0.account.groups.iter_mut();
        all.filter(|one| one.name == NAME)
    }

    fn policies(&mut self) -> impl Iterator<Item = &mut Policy> {
        let all = self.0.account.policies.iter_mut();
        all.filter(|one| one.name == NAME)
    }

    fn balancers(&mut self) -> impl Iterator<Item = &mut Balancer> {
        let all = self.0.account.balancers.iter_mut();
        all.filter(|one| one.name == NAME)
    }

    fn become_(&mut self, status: &str) {
        self.balancers()
            .for_each(|balancer| balancer.status = Some(status.to_owned()));
    }

    fn ips(&mut self, change: impl Fn(&mut CloudIp)) {
        let all = self.0.account.cloud_ips.iter_mut();
        all.filter(|ip| ip.name == NAME).for_each(|ip| {
            change(ip);
            ip.status = ip.load_balancer.as_ref().map(|_| "mapped".to_owned());
        });
    }
}

/// What is there, once another wish was carried out and up to three things have happened to it.
fn any_account() -> impl Strategy<Value = Simulation> {
    let damages = subsequence(DAMAGES.to_vec(), 0..=3);
    let damaged = (any_wanted(0), damages).prop_map(|(desired, damages)| {
        let mut simulation = settled(&desired);
        for damage in damages {
            damage(&mut Own(&mut simulation));
        }
        simulation.shows();
        simulation
    });
    prop_oneof![1 => Just(without()), 9 => damaged]
}

/// Whether all is as wanted, told by other means than the plan's. `desired`: as it is looked up.
fn is_as_wanted(desired: &Desired, simulation: &Simulation) -> Result<(), String> {
    let bundle = simulation.bundle().ok_or("there is nothing")?;
    let ([balancer], [group], [policy]) = (
        bundle.balancers.as_slice(),
        bundle.groups.as_slice(),
        bundle.policies.as_slice(),
    ) else {
        return Err(format!("not one of each: {bundle:?}"));
    };
    let chosen = desired.chosen.as_ref().ok_or("no Cloud IP")?;
    let listeners = |all: &[Listener]| {
        let listener = |one: &Listener| {
            let proxy = one.proxy_protocol.clone();
            (one.port, one.target, one.protocol.clone(), proxy)
        };
        all.iter().map(listener).collect::<BTreeSet<_>>()
    };
    let idle = desired.listeners[0].timeout;
    let wanted = &desired.check;
    let check = &balancer.spec.healthcheck;
    let domains: BTreeSet<String> = balancer
        .domains()
        .map(|one| one.identifier.clone())
        .collect();
    let own = policy
        .rules
        .iter()
        .filter(|rule| rule.spec.description == NAME);
    let opened: Vec<String> = own.flat_map(|rule| ports(&rule.spec)).collect();
    let to_open: BTreeSet<String> = desired.rules.iter().flat_map(ports).collect();
    let at = |id: &str| balancer.cloud_ips.iter().any(|ip| ip.id == id);
    let facts = [
        ("servers of the group", group.servers == desired.servers),
        ("nodes", balancer.spec.nodes == desired.servers),
        (
            "listeners",
            listeners(&balancer.spec.listeners) == listeners(&desired.listeners),
        ),
        (
            "idle timeout",
            idle.is_none()
                || balancer
                    .spec
                    .listeners
                    .iter()
                    .all(|one| one.timeout == idle),
        ),
        (
            "check",
            (&check.kind, check.port, &check.request)
                == (&wanted.kind, wanted.port, &wanted.request),
        ),
        (
            "timeout of the check",
            wanted.timeout.is_none() || check.timeout == wanted.timeout,
        ),
        (
            "policy",
            desired.policy.is_none() || balancer.spec.policy.as_deref() == desired.policy,
        ),
        (
            "domains",
            domains
                == if desired.is_https() {
                    desired.domains.clone()
                } else {
                    BTreeSet::new()
                },
        ),
        (
            "group of the policy",
            policy
                .server_group
                .as_ref()
                .is_some_and(|one| one.id == group.id),
        ),
        ("ports once each", opened.len() == to_open.len()),
        (
            "ports",
            opened.into_iter().collect::<BTreeSet<_>>() == to_open,
        ),
        ("Cloud IP", at(&chosen.id) && balancer.cloud_ips.len() == 1),
        ("Cloud IPs", bundle.cloud_ips.len() == 1),
    ];
    match facts.iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(format!("{what}: {bundle:#?}")),
        None => Ok(()),
    }
}

/// Carries one plan out, and holds every moment of it against what users may notice.
fn carried_out_in_view(desired: &Desired, simulation: &mut Simulation) -> Plan<ResourceStep> {
    let desired = simulation.looked_up(desired);
    let plan = plan(&desired, simulation.bundle().as_ref()).unwrap();
    let strangers = others(&simulation.account);
    let rules = strange_rules(&simulation.account);
    let was_reachable = simulation.is_reachable();
    let ports: BTreeSet<u16> = desired.listeners.iter().map(|one| one.port).collect();
    let wanted = |served: &BTreeSet<(u16, u16, String)>| -> BTreeSet<(u16, String)> {
        let places = served
            .iter()
            .map(|(port, _, server)| (*port, server.clone()));
        let wanted = places
            .filter(|(port, server)| ports.contains(port) && desired.servers.contains(server));
        wanted.collect()
    };
    let mut last = simulation.served();
    let before = wanted(&last);
    // What cannot be done otherwise is told of.
    let is_told = plan
        .steps()
        .iter()
        .any(|step| step.impact() == Impact::Brief);
    simulation.begins();
    for step in plan.steps() {
        simulation.take(step);
        let now = simulation.served();
        let lost: Vec<_> = before.difference(&wanted(&now)).cloned().collect();
        assert!(
            is_told || lost.is_empty(),
            "{lost:?} is lost after {step} of\n{plan}"
        );
        // Nor is anybody sent where the firewall lets nobody in any more.
        let sent = simulation.sent();
        let shut: Vec<_> = last
            .intersection(&sent)
            .filter(|one| !now.contains(*one))
            .collect();
        assert!(
            is_told || shut.is_empty(),
            "{shut:?} is shut out after {step} of\n{plan}"
        );
        last = now;
        assert!(
            !was_reachable || simulation.is_reachable(),
            "nothing leads there after {step} of\n{plan}"
        );
        assert_eq!(others(&simulation.account), strangers, "{step}");
        assert_eq!(strange_rules(&simulation.account), rules, "{step}");
    }
    simulation.passes();
    plan
}

/// The same, until the plan is empty.
fn comes_to_rest_in_view(desired: &Desired, simulation: &mut Simulation) -> Result<(), String> {
    for _ in 0..ROUNDS {
        let before = format!("{:?}", simulation.account);
        let plan = carried_out_in_view(desired, simulation);
        if plan.is_empty() && before == format!("{:?}", simulation.account) {
            return is_as_wanted(&simulation.looked_up(desired), simulation);
        }
    }
    Err("it does not come to rest".to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    /// And nothing of others is touched.
    #[test]
    fn plan_reaches_what_is_wanted_and_serves_all_the_time(
        desired in any_wanted(0), before in any_account()
    ) {
        let mut simulation = before;
        prop_assert_eq!(comes_to_rest_in_view(&desired, &mut simulation), Ok(()));
        let marks: Vec<&str> = simulation.account.groups.iter().map(|one| &*one.description).collect();
        prop_assert!(marks.contains(&"mooring.dev cluster=prod service=another"));
    }

    #[test]
    fn plan_resumes_after_any_interruption(
        desired in any_wanted(0), before in any_account(), at in any::<Index>(), does in any::<bool>()
    ) {
        let mut simulation = before;
        let plan = plan(&simulation.looked_up(&desired), simulation.bundle().as_ref()).unwrap();
        simulation.begins();
        for step in &plan.steps()[..at.index(plan.steps().len() + 1)] {
            simulation.take(step);
        }
        if does {
            simulation.passes();
        }
        prop_assert_eq!(comes_to_rest_in_view(&desired, &mut simulation), Ok(()), "{}", plan);
    }

    #[test]
    fn servers_stay_while_some_are_unknown(desired in any_wanted(0), before in any_account()) {
        let mut desired = desired;
        desired.kept.are_complete = false;
        let plan = plan(&before.looked_up(&desired), before.bundle().as_ref()).unwrap();
        let mut simulation = before.clone();
        for step in plan.steps() {
            simulation.take(step);
        }
        if let (Some(there), Some(now)) = (before.alive(), simulation.alive()) {
            prop_assert!(there.spec.nodes.is_subset(&now.spec.nodes), "{}", plan);
        }
        for group in &before.account.groups {
            let now = simulation.account.groups.iter().find(|one| one.id == group.id);
            prop_assert!(now.is_some_and(|now| group.servers.is_subset(&now.servers)), "{}", plan);
        }
    }

    /// What says whose it is goes last, so that a removal that was interrupted goes on.
    #[test]
    fn removal_takes_all_and_nothing_of_others(before in any_account()) {
        let mut simulation = before;
        let strangers = others(&simulation.account);
        let owner = simulation.bundle().and_then(|bundle| bundle.owner().map(ToOwned::to_owned));
        for _ in 0..ROUNDS {
            let Some(bundle) = simulation.bundle() else { break };
            simulation.begins();
            let mut steps = removal(&bundle);
            steps.retain(|step| !is_leaving(&simulation, step));
            for step in steps {
                simulation.take(&step);
                let now = simulation.bundle();
                let now = now.as_ref().map(|bundle| bundle.owner());
                prop_assert!(now.is_none_or(|now| now == owner.as_deref()), "after {}", step);
                prop_assert_eq!(&others(&simulation.account), &strangers, "{}", step);
            }
            simulation.passes();
        }
        prop_assert_eq!(simulation.bundle(), None);
        let ips = simulation.account.cloud_ips.iter();
        prop_assert_eq!(ips.filter(|ip| ip.name == NAME || ip.id == NAMED).count(), 1, "the named one stays");
    }
}

fn is_leaving(simulation: &Simulation, step: &ResourceStep) -> bool {
    let Operation::Delete(PoolRef::Known(id)) = &step.operation else {
        return false;
    };
    let mut all = simulation.account.balancers.iter();
    all.any(|one| one.id == *id && one.is("deleting"))
}
