//! What is planned, in tables; the end state is compared each time.

mod migration;
mod properties;
mod refusals;
pub(in super::super) mod simulation;

use mooring_common::engine::{Impact, Step as _};

use super::plan;
use crate::clouds::cloudscale::load_balancers::desired::{Desired, DesiredPool};
use crate::clouds::cloudscale::load_balancers::model::{
    BalancerSpec, HttpSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec,
};
use crate::clouds::cloudscale::load_balancers::observed::Observed;
use crate::clouds::cloudscale::load_balancers::step::Step;
use crate::engine::provider::{Listed as _, Observed as _};
use crate::engine::step::{Effect, Step as _};
use simulation::{Simulation, built, is_as_wanted};

const SUBNET: &str = "11111111-1864-4608-853a-0771b6885a3a";

pub(in super::super) fn member(host: u8, node_port: u16) -> MemberSpec {
    MemberSpec {
        name: format!("10.0.0.{host}:{node_port}"),
        enabled: true,
        address: format!("10.0.0.{host}"),
        subnet: SUBNET.to_owned(),
        protocol_port: node_port,
        monitor_port: Some(node_port),
    }
}

fn monitor(kind: &str) -> MonitorSpec {
    MonitorSpec {
        kind: kind.to_owned(),
        delay_s: Some(2),
        timeout_s: Some(1),
        up_threshold: Some(2),
        down_threshold: Some(3),
        http: (kind == "http").then(HttpSpec::default),
    }
}

fn listener(protocol: &str, port: u16) -> ListenerSpec {
    ListenerSpec {
        name: format!("{protocol}/{port}"),
        protocol: protocol.to_owned(),
        port,
        allowed_cidrs: Vec::new(),
        timeout_client_data_ms: Some(50_000),
        timeout_member_connect_ms: Some(5_000),
        timeout_member_data_ms: Some(50_000),
    }
}

/// A pool for a port, with two members.
pub(in super::super) fn pool(name: &str, port: u16, node_port: u16) -> DesiredPool {
    let protocol = name.split('/').next().unwrap();
    DesiredPool {
        spec: PoolSpec {
            name: name.to_owned(),
            algorithm: "round_robin".to_owned(),
            protocol: protocol.to_owned(),
        },
        members: vec![member(1, node_port), member(2, node_port)],
        monitor: monitor("tcp"),
        listener: listener(protocol, port),
    }
}

pub(in super::super) fn wanted(pools: impl IntoIterator<Item = DesiredPool>) -> Desired {
    Desired {
        balancer: BalancerSpec {
            name: "lb".to_owned(),
            flavor: "lb-standard".to_owned(),
            zone: Some("rma1".to_owned()),
            vips: Vec::new(),
            tags: [("mooring-service-uid".to_owned(), "u".to_owned())].into(),
        },
        zone_of_nodes: None,
        pools: pools.into_iter().collect(),
        members_are_complete: true,
        floating_ips: std::collections::BTreeSet::new(),
        unmet_address: None,
    }
}

fn with(mut pool: DesiredPool, change: impl FnOnce(&mut DesiredPool)) -> DesiredPool {
    change(&mut pool);
    pool
}

/// The steps as texts, UUIDs left out; the state after them is checked, and that all is done then.
fn steps(desired: &Desired, observed: &Observed) -> Vec<String> {
    let steps = plan(desired, Some(observed)).unwrap();
    let mut simulation = Simulation::of(observed.clone());
    for step in steps.steps() {
        simulation.take(step);
    }
    let after = &simulation.observed;
    assert!(is_as_wanted(desired, after), "{steps}\n{after:#?}");
    assert!(plan(desired, Some(after)).unwrap().is_empty());
    let texts = steps.steps().iter().map(|step| match step.impact() {
        Impact::None => step.to_string(),
        impact => format!("{step}: {impact}"),
    });
    texts.collect()
}

#[test]
fn plan_of_new_load_balancer_shows_all_steps() {
    let mut desired = wanted([pool("tcp/a", 80, 1), pool("udp/b", 53, 2)]);
    desired.floating_ips.insert("203.0.113.9".to_owned());
    let plan = plan(&desired, None).unwrap();
    let texts: Vec<_> = plan.steps().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "create load balancer lb of flavor lb-standard in zone rma1",
            "create pool tcp/a (round_robin, tcp)",
            "add member 10.0.0.1:1 to new pool 1",
            "add member 10.0.0.2:1 to new pool 1",
            "create health monitor tcp for new pool 1",
            "create pool udp/b (round_robin, udp)",
            "add member 10.0.0.1:2 to new pool 2",
            "add member 10.0.0.2:2 to new pool 2",
            "create health monitor tcp for new pool 2",
            "create listener tcp/80 for new pool 1",
            "create listener udp/53 for new pool 2",
            "assign floating IP 203.0.113.9",
        ]
    );
    let made = Observed::created(&plan.steps()[0], "lb").unwrap();
    let mut simulation = Simulation::of(made);
    plan.steps()[1..]
        .iter()
        .for_each(|step| simulation.take(step));
    assert!(is_as_wanted(&desired, &simulation.observed));
}

#[test]
fn plans_for_changing_load_balancer() {
    let desired = wanted([pool("tcp", 80, 1)]);
    let mut observed = built(&desired);
    assert!(steps(&desired, &observed).is_empty());
    observed.balancer.changes();
    assert!(steps(&desired, &observed).is_empty());
}

#[test]
fn creates_pools_before_deleting() {
    let a = || pool("tcp/a", 80, 1);
    let (b, c) = (|| pool("tcp/b", 443, 2), || pool("tcp/c", 4433, 2));
    let table: [(Desired, Desired, &[&str]); 5] = [
        (wanted([a()]), wanted([a()]), &[]),
        (
            wanted([a()]),
            wanted([a(), b()]),
            &["delete listener tcp/443 (l-1)", "delete pool tcp/b (p-1)"],
        ),
        (
            wanted([a()]),
            wanted([]),
            &[
                "create pool tcp/a (round_robin, tcp)",
                "add member 10.0.0.1:1 to new pool 1",
                "add member 10.0.0.2:1 to new pool 1",
                "create health monitor tcp for new pool 1",
                "create listener tcp/80 for new pool 1",
            ],
        ),
        (
            wanted([a(), b()]),
            wanted([a(), c()]),
            &[
                "create pool tcp/b (round_robin, tcp)",
                "add member 10.0.0.1:2 to new pool 1",
                "add member 10.0.0.2:2 to new pool 1",
                "create health monitor tcp for new pool 1",
                "create listener tcp/443 for new pool 1",
                "delete listener tcp/4433 (l-1)",
                "delete pool tcp/c (p-1)",
            ],
        ),
        (
            wanted([with(a(), |a| a.spec.algorithm = "source_ip".to_owned())]),
            wanted([a()]),
            &[
                "create pool tcp/a (source_ip, tcp)",
                "add member 10.0.0.1:1 to new pool 1",
                "add member 10.0.0.2:1 to new pool 1",
                "create health monitor tcp for new pool 1",
                "delete listener tcp/80 (l-0): considerable",
                "create listener tcp/80 for new pool 1",
                "delete pool tcp/a (p-0)",
            ],
        ),
    ];
    for (desired, actual, expected) in table {
        assert_eq!(steps(&desired, &built(&actual)), expected);
    }
}

#[test]
fn replaces_members_without_empty_pool() {
    let of = |members: &[MemberSpec]| {
        wanted([with(pool("tcp", 80, 1), |p| p.members = members.to_vec())])
    };
    let moved = |host| MemberSpec {
        monitor_port: Some(9),
        ..member(host, 1)
    };
    let disabled = |host| MemberSpec {
        enabled: false,
        ..member(host, 1)
    };
    let table: [(Desired, Desired, &[&str]); 8] = [
        (
            of(&[member(1, 1)]),
            of(&[]),
            &["add member 10.0.0.1:1 to pool p-0"],
        ),
        (
            of(&[]),
            of(&[member(1, 1), member(2, 1)]),
            &[
                "take member 10.0.0.1:1 (m-0-0) out of pool p-0",
                "take member 10.0.0.2:1 (m-0-1) out of pool p-0: major",
            ],
        ),
        (
            of(&[member(1, 2)]),
            of(&[member(1, 1)]),
            &[
                "add member 10.0.0.1:2 to pool p-0",
                "take member 10.0.0.1:1 (m-0-0) out of pool p-0",
            ],
        ),
        (
            of(&[moved(1)]),
            of(&[member(1, 1)]),
            &[
                "take member 10.0.0.1:1 (m-0-0) out of pool p-0: considerable",
                "add member 10.0.0.1:1 to pool p-0",
            ],
        ),
        (
            of(&[moved(1), member(2, 1)]),
            of(&[member(1, 1)]),
            &[
                "add member 10.0.0.2:1 to pool p-0",
                "take member 10.0.0.1:1 (m-0-0) out of pool p-0",
                "add member 10.0.0.1:1 to pool p-0",
            ],
        ),
        (
            // The one without traffic first.
            of(&[moved(1), moved(2)]),
            of(&[member(1, 1), disabled(2)]),
            &[
                "take member 10.0.0.2:1 (m-0-1) out of pool p-0",
                "add member 10.0.0.2:1 to pool p-0",
                "take member 10.0.0.1:1 (m-0-0) out of pool p-0",
                "add member 10.0.0.1:1 to pool p-0",
            ],
        ),
        (
            // In place, and nobody is disabled before another one is enabled.
            of(&[disabled(1), member(2, 1), disabled(3)]),
            of(&[member(1, 1), disabled(2)]),
            &[
                "add member 10.0.0.3:1 to pool p-0, disabled",
                "enable member 10.0.0.2:1 (m-0-1) of pool p-0",
                "disable member 10.0.0.1:1 (m-0-0) of pool p-0",
            ],
        ),
        (
            of(&[member(1, 1)]),
            of(&[member(1, 1), member(1, 1)]),
            &["take member 10.0.0.1:1 (m-0-1) out of pool p-0"],
        ),
    ];
    for (desired, actual, expected) in table {
        assert_eq!(steps(&desired, &built(&actual)), expected);
    }
}

#[test]
fn changes_listeners_in_place() {
    let of = |change: &dyn Fn(&mut ListenerSpec)| {
        wanted([with(pool("tcp", 80, 1), |p| change(&mut p.listener))])
    };
    let plain = || of(&|_| {});
    let cidrs = |texts: &'static [&str]| {
        of(&move |l| l.allowed_cidrs = texts.iter().map(ToString::to_string).collect())
    };
    let times = |client, connect, member| {
        of(&move |l| {
            l.timeout_client_data_ms = client;
            l.timeout_member_connect_ms = connect;
            l.timeout_member_data_ms = member;
        })
    };
    let udp = of(&|l| *l = listener("udp", 80));
    let port = of(&|l| *l = listener("tcp", 81));
    let renamed = of(&|l| "old".clone_into(&mut l.name));
    let (one, two, three) = (Some(1), Some(2), Some(3));
    let table: [(Desired, Desired, &[&str]); 9] = [
        (
            plain(),
            udp,
            &[
                "create listener tcp/80 for pool p-0",
                "delete listener udp/80 (l-0)",
            ],
        ),
        (
            plain(),
            port,
            &[
                "create listener tcp/80 for pool p-0",
                "delete listener tcp/81 (l-0)",
            ],
        ),
        (plain(), renamed, &["set name to tcp/80 of listener l-0"]),
        (
            cidrs(&["7.0.0.0/8"]),
            plain(),
            &["set allowed clients to 7.0.0.0/8 of listener l-0"],
        ),
        (
            plain(),
            cidrs(&["7.0.0.0/8"]),
            &["set allowed clients to everybody of listener l-0"],
        ),
        (
            cidrs(&["7.0.0.0/8", "::/0"]),
            cidrs(&["0::/0", "7.0.0.0/8"]),
            &[],
        ),
        (
            times(one, two, three),
            times(three, two, one),
            &[
                "set client data timeout to 1 ms of listener l-0",
                "set member data timeout to 3 ms of listener l-0",
            ],
        ),
        (
            times(one, two, three),
            times(one, three, three),
            &["set member connect timeout to 2 ms of listener l-0"],
        ),
        (times(one, two, three), times(None, None, None), &[]),
    ];
    for (desired, actual, expected) in table {
        assert_eq!(steps(&desired, &built(&actual)), expected);
    }
}

#[test]
fn swaps_ports() {
    let desired = wanted([pool("tcp/a", 80, 1), pool("tcp/b", 443, 2)]);
    let actual = wanted([pool("tcp/a", 443, 1), pool("tcp/b", 80, 2)]);
    assert_eq!(
        steps(&desired, &built(&actual)),
        [
            "delete listener tcp/80 (l-1): considerable",
            "create listener tcp/80 for pool p-0",
            "delete listener tcp/443 (l-0): considerable",
            "create listener tcp/443 for pool p-1",
        ]
    );
}

#[test]
fn renamed_port_keeps_everything() {
    let desired = wanted([pool("tcp/new", 80, 1)]);
    let actual = wanted([pool("tcp/old", 80, 1)]);
    let expected = ["rename pool p-0 from tcp/old to tcp/new"];
    assert_eq!(steps(&desired, &built(&actual)), expected);
}

#[test]
fn changes_monitors_in_place() {
    let of = |monitor: MonitorSpec| wanted([with(pool("tcp", 80, 1), |p| p.monitor = monitor)]);
    let http = |change: &dyn Fn(&mut HttpSpec)| {
        let mut spec = monitor("http");
        change(spec.http.as_mut().unwrap());
        of(spec)
    };
    let numbers = |all: [u32; 4]| {
        of(MonitorSpec {
            delay_s: Some(all[0]),
            timeout_s: Some(all[1]),
            up_threshold: Some(all[2]),
            down_threshold: Some(all[3]),
            ..monitor("tcp")
        })
    };
    let mut left_behind = monitor("tcp");
    left_behind.http = Some(HttpSpec::default());
    let host = |text: &str| Some(text.to_owned());
    let table: [(Desired, Desired, &[&str]); 8] = [
        (
            of(monitor("http")),
            of(monitor("tcp")),
            &[
                "delete health monitor tcp (h-0) of pool p-0",
                "create health monitor http for pool p-0",
            ],
        ),
        (
            http(&|h| "1.0".clone_into(&mut h.version)),
            of(monitor("http")),
            &[
                "delete health monitor http (h-0) of pool p-0",
                "create health monitor http for pool p-0",
            ],
        ),
        (
            http(&|h| "HEAD".clone_into(&mut h.method)),
            http(&|h| "HEAD".clone_into(&mut h.method)),
            &[],
        ),
        (
            http(&|h| "HEAD".clone_into(&mut h.method)),
            of(monitor("http")),
            &["set HTTP method to HEAD of health monitor h-0 of pool p-0"],
        ),
        (
            of(monitor("http")),
            http(&|h| {
                h.host = host("example.com");
                "/x".clone_into(&mut h.url_path);
                h.expected_codes = vec!["204".to_owned()];
            }),
            &[
                "set HTTP host to none of health monitor h-0 of pool p-0",
                "set HTTP path to / of health monitor h-0 of pool p-0",
                "set expected HTTP codes to 200 of health monitor h-0 of pool p-0",
            ],
        ),
        (
            http(&|h| h.host = host("example.com")),
            http(&|h| h.host = host("example.com")),
            &[],
        ),
        (
            numbers([1, 2, 3, 4]),
            numbers([4, 3, 2, 4]),
            &[
                "set delay to 1 s of health monitor h-0 of pool p-0",
                "set timeout to 2 s of health monitor h-0 of pool p-0",
                "set up threshold to 3 of health monitor h-0 of pool p-0",
            ],
        ),
        (of(monitor("tcp")), of(left_behind), &[]),
    ];
    for (desired, actual, expected) in table {
        assert_eq!(steps(&desired, &built(&actual)), expected);
    }
    let mut observed = built(&of(monitor("tcp")));
    observed.pools[0].monitors.clear();
    let expected = ["create health monitor tcp for pool p-0"];
    assert_eq!(steps(&of(monitor("tcp")), &observed), expected);
}

#[test]
fn changes_monitor_port_without_failing_members() {
    let local = wanted([with(pool("tcp", 80, 1), |p| {
        p.monitor = monitor("http");
        p.members.iter_mut().for_each(|m| m.monitor_port = Some(9));
    })]);
    let cluster = wanted([pool("tcp", 80, 1)]);
    assert_eq!(
        steps(&local, &built(&cluster)),
        [
            "delete health monitor tcp (h-0) of pool p-0",
            "take member 10.0.0.1:1 (m-0-0) out of pool p-0",
            "add member 10.0.0.1:1 to pool p-0",
            "take member 10.0.0.2:1 (m-0-1) out of pool p-0",
            "add member 10.0.0.2:1 to pool p-0",
            "create health monitor http for pool p-0",
        ]
    );
}

#[test]
fn renames_and_marks_with_other_changes_only() {
    let desired = wanted([]);
    let mut observed = built(&desired);
    observed.balancer.tags = [("mine".to_owned(), "kept".to_owned())].into();
    assert!(steps(&desired, &observed).is_empty());
    observed.balancer.name = "bar".to_owned();
    let expected = [
        "rename load balancer bar to lb",
        "tag load balancer with mine=kept, mooring-service-uid=u",
    ];
    assert_eq!(steps(&desired, &observed), expected);
}

#[test]
fn keeps_members_while_machines_are_unknown() {
    let mut desired = wanted([with(pool("tcp/a", 80, 1), |p| p.members.clear())]);
    desired.members_are_complete = false;
    let is_kept = |desired: &Desired, actual: Desired| {
        plan(desired, Some(&built(&actual))).unwrap().is_empty()
    };
    assert!(is_kept(&desired, wanted([pool("tcp/a", 80, 1)])));
    // A listener does not move to a pool with fewer members.
    let other = with(pool("tcp/a", 80, 1), |p| {
        "source_ip".clone_into(&mut p.spec.algorithm);
    });
    assert!(is_kept(&desired, wanted([other])));
    // Members that are kept are not asked where nothing answers.
    let mut local = desired.clone();
    local.pools[0].monitor = monitor("http");
    local.pools[0].members = vec![MemberSpec {
        monitor_port: Some(9),
        ..member(1, 1)
    }];
    assert!(is_kept(&local, wanted([pool("tcp/a", 80, 1)])));
    // A port that is gone is gone.
    let two = wanted([pool("tcp/a", 80, 1), pool("tcp/b", 81, 2)]);
    let plan = plan(&desired, Some(&built(&two))).unwrap();
    let is_of_b = |step: &Step| matches!(step.effect(&[]), Effect::Delete | Effect::DeletePool);
    assert!(plan.steps().len() == 2 && plan.steps().iter().all(is_of_b));
}
