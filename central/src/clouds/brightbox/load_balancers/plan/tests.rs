//! What is planned, in tables; what there is after all steps is compared each time.

mod properties;
mod simulation;

use std::collections::BTreeSet;

use mooring_common::engine::{Impact, Step as _};
use serde_json::json;

use crate::cloud_api::Reference;
use crate::clouds::brightbox::api::balancers::{Acme, Domain};
use crate::clouds::brightbox::api::{BALANCERS, CLOUD_IPS, CloudIp};

use super::super::bundle::{Account, Bundle};
use super::super::desired::tests::wanted;
use super::super::options::CloudIpWish;
use super::super::options::tests::NAME;
use super::*;
use crate::engine::provider::Observed;
use crate::engine::resource_step::Operation;

const AB: &[&str] = &["srv-aaaaa", "srv-bbbbb"];

fn desired(ports: &str, annotations: &[(&str, &str)], servers: &[&str]) -> Desired {
    wanted(ports, annotations, &json!({}), servers)
}

/// What the cloud makes of the steps of all plans, until nothing is left to do. Gives each step, and what
/// there is in the end. `known`: Cloud IPs that are elsewhere.
fn carried_out(
    desired: &Desired,
    observed: Option<Bundle>,
    known: &[CloudIp],
) -> (Vec<ResourceStep>, Bundle) {
    let (mut bundle, mut all) = (observed, Vec::new());
    for number in 0..8 {
        let mut desired = desired.clone();
        desired.chosen = desired.own_choice(bundle.as_ref());
        if desired.chosen.is_none() {
            let mut known = known.iter();
            desired.chosen = known.find(|ip| desired.wish.is_met_by(ip)).cloned();
        }
        if let Some(ip) = desired.chosen.as_ref().filter(|_| desired.is_https()) {
            desired.domains.extend(ip.names().cloned());
        }
        let plan = plan(&desired, bundle.as_ref()).unwrap();
        let steps = plan.steps().to_vec();
        if steps.is_empty() {
            let bundle = bundle.unwrap();
            assert_eq!(unready(&desired, &bundle), None, "{bundle:?}");
            return (all, bundle);
        }
        let mut planned = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let made = format!("new-{number}-{place}");
            assert!(step.request(&planned).is_some(), "{step}");
            let mut there = bundle
                .or_else(|| <Bundle as Observed>::created(step, &made))
                .unwrap();
            let target = match step.kind.path == CLOUD_IPS.path {
                true => step.awaited(&planned),
                false => None,
            };
            there.take(step, &made, &mut planned);
            let is_deletion = matches!(step.operation, Operation::Delete(_));
            if is_deletion && step.kind.path == BALANCERS.path {
                for ip in &mut there.cloud_ips {
                    (ip.load_balancer, ip.status) = (None, None);
                }
            }
            bundle = Some(match target {
                Some((ip, balancer)) => moved(there, &ip, balancer.as_deref(), known),
                None => there,
            });
        }
        all.extend(steps);
    }
    panic!("it does not come to rest: {all:?}");
}

/// The account lists what there is once a Cloud IP leads elsewhere, and its domains are valid.
fn moved(mut bundle: Bundle, id: &str, to: Option<&str>, known: &[CloudIp]) -> Bundle {
    let mut ips = bundle.cloud_ips.clone();
    let strange = known.iter().filter(|ip| ip.id == id);
    let strange: Vec<CloudIp> = strange.cloned().collect();
    if !ips.iter().any(|ip| ip.id == id) {
        ips.extend(strange);
    }
    for ip in &mut ips {
        ip.is_moving = false;
        if ip.id == id {
            ip.load_balancer = to.map(|id| Reference {
                id: id.to_owned(),
                name: NAME.to_owned(),
            });
        }
    }
    for balancer in &mut bundle.balancers {
        let leads_here = |ip: &&CloudIp| ip.target() == Some(&balancer.id);
        balancer.cloud_ips = ips.iter().filter(leads_here).cloned().collect();
        for domain in balancer.acme.iter_mut().flat_map(|acme| &mut acme.domains) {
            "valid".clone_into(&mut domain.status);
        }
    }
    listed(bundle, ips).expect("something is left")
}

fn listed(bundle: Bundle, cloud_ips: Vec<CloudIp>) -> Option<Bundle> {
    let account = Account {
        balancers: bundle.balancers,
        groups: bundle.groups,
        policies: bundle.policies,
        cloud_ips,
    };
    let mut all = Bundle::all(&account).into_iter();
    all.find(|bundle| bundle.name == NAME)
}

fn built(desired: &Desired) -> Bundle {
    carried_out(desired, None, &[]).1
}

/// As the Go controller leaves it.
fn by_go(mut bundle: Bundle) -> Bundle {
    bundle.groups[0].description.clear();
    bundle
}

fn shown(steps: &[ResourceStep]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn firewall_comes_before_the_load_balancer_and_the_cloud_ip_after_it() {
    let desired = desired("80", &[("listener-protocol", "tcp")], AB);
    let (steps, bundle) = carried_out(&desired, None, &[]);
    assert_eq!(
        shown(&steps),
        [
            "create server group web.default.kubernetes",
            "put srv-aaaaa, srv-bbbbb into the server group",
            "create firewall policy web.default.kubernetes",
            "permit 10.0.0.0/8 to ports 30080",
            "create Cloud IP web.default.kubernetes",
            "create load balancer web.default.kubernetes",
            "map the new Cloud IP to the load balancer",
        ]
    );
    assert_eq!(bundle.owner(), Some("deadbeef"));
    assert_eq!(bundle.cluster(), Some("prod"));
}

#[test]
fn certificate_waits_for_the_names_of_the_cloud_ip() {
    let annotations = [("ssl-domains", "shop.example.com")];
    let (steps, bundle) = carried_out(&desired("443", &annotations, AB), None, &[]);
    let place = |what: &str| {
        steps
            .iter()
            .position(|step| step.to_string().starts_with(what))
    };
    assert!(place("create Cloud IP") < place("create load balancer"));
    let domains: Vec<&str> = bundle.balancers[0]
        .domains()
        .map(|one| &*one.identifier)
        .collect();
    assert_eq!(domains, ["shop.example.com"]);
    // Leaving HTTPS takes the domains away.
    let (steps, _) = carried_out(&desired("80", &[], AB), Some(bundle), &[]);
    assert!(
        shown(&steps)
            .iter()
            .any(|step| step.contains("domains to none"))
    );
}

/// One that the token may not see stays, and another goes.
#[test]
fn only_servers_that_cannot_be_seen_stay() {
    let before = built(&desired(
        "80",
        &[],
        &["srv-aaaaa", "srv-bbbbb", "srv-ccccc"],
    ));
    let mut desired = desired("80", &[], &["srv-aaaaa"]);
    desired.kept.unread = ["srv-bbbbb".to_owned(), "srv-ddddd".to_owned()].into();
    let (_, bundle) = carried_out(&desired, Some(before), &[]);
    let left: BTreeSet<String> = AB.iter().map(ToString::to_string).collect();
    assert_eq!(bundle.balancers[0].spec.nodes, left);
    assert_eq!(bundle.groups[0].servers, left);
}

#[test]
fn each_change_is_as_small_as_it_can_be() {
    let before = &[("listener-protocol", "tcp")][..];
    let (nodes, group) = ("set servers to", "the server group");
    for (ports, annotations, servers, expected) in [
        ("80", before, AB, &[][..]),
        (
            "80",
            before,
            &["srv-aaaaa", "srv-bbbbb", "srv-ccccc"],
            &["put srv-ccccc into", nodes],
        ),
        (
            "80",
            before,
            &["srv-aaaaa"],
            &[nodes, "take srv-bbbbb out of"],
        ),
        ("80", before, &[], &["take all servers from", group]),
        (
            "80 81",
            before,
            AB,
            &["let firewall rule", "set listeners to"],
        ),
        (
            "81",
            before,
            AB,
            &["let firewall rule", "set listeners to", "let firewall rule"],
        ),
        (
            "80",
            &[("listener-protocol", "tcp"), ("policy", "round-robin")],
            AB,
            &["set policy to round-robin"],
        ),
        (
            "80",
            &[("listener-protocol", "tcp"), ("healthcheck-timeout", "900")],
            AB,
            &["set health check to"],
        ),
        (
            "80",
            &[
                ("listener-protocol", "tcp"),
                ("listener-idle-timeout", "9000"),
            ],
            AB,
            &["set listeners to"],
        ),
    ] {
        let there = built(&desired("80", before, AB));
        let (steps, _) = carried_out(&desired(ports, annotations, servers), Some(there), &[]);
        let steps = shown(&steps);
        let is_as_expected = steps.len() == expected.len()
            && steps
                .iter()
                .zip(expected)
                .all(|(step, part)| step.contains(part));
        assert!(
            is_as_expected,
            "{ports} {annotations:?} {servers:?}: {steps:?}"
        );
    }
}

#[test]
fn what_nobody_asks_for_any_more_is_as_the_cloud_makes_it() {
    let annotations = [
        ("listener-protocol", "tcp"),
        ("policy", "round-robin"),
        ("healthcheck-interval", "900"),
        ("listener-idle-timeout", "9000"),
    ];
    let plain = desired("80", &annotations[..1], AB);
    let there = built(&desired("80", &annotations, AB));
    let (steps, bundle) = carried_out(&plain, Some(there.clone()), &[]);
    assert_eq!(steps.len(), 1);
    let balancer = &bundle.balancers[0];
    assert_eq!(balancer.spec.policy.as_deref(), Some("least-connections"));
    assert_eq!(balancer.spec.healthcheck.interval, Some(5000));
    assert_eq!(balancer.spec.listeners[0].timeout, Some(50_000));
    // Of what the Go controller has made, a person may have set it.
    let (steps, _) = carried_out(&plain, Some(by_go(there)), &[]);
    assert_eq!(shown(&steps), [""; 0]);
}

#[test]
fn neither_order_nor_marker_of_the_vendor_makes_a_difference() {
    let desired = desired("80 443", &[], AB);
    let mut there = by_go(built(&desired));
    there.balancers[0].spec.listeners.reverse();
    there.balancers[0].name = format!(" {NAME} #type:container");
    let ips = there.cloud_ips.clone();
    let there = listed(there, ips).unwrap();
    let (steps, _) = carried_out(&desired, Some(there), &[]);
    assert_eq!(shown(&steps), [""; 0]);
}

fn ip(id: &str, address: &str) -> CloudIp {
    CloudIp {
        id: id.to_owned(),
        public_ip: address.parse().ok(),
        ..CloudIp::default()
    }
}

#[test]
fn cloud_ip_is_given_up_once_another_one_leads_here() {
    let plain = desired("80", &[], AB);
    let there = built(&plain);
    let own = there.cloud_ips[0].id.clone();
    let other = ip("cip-other", "192.0.2.7");
    let mut named = plain.clone();
    named.wish = CloudIpWish::Id("cip-other".to_owned());
    let (steps, there) = carried_out(&named, Some(there), std::slice::from_ref(&other));
    assert_eq!(
        shown(&steps),
        [
            "map Cloud IP cip-other to the load balancer".to_owned(),
            format!("unmap Cloud IP {own}"),
            format!("delete Cloud IP {own}"),
        ]
    );
    assert_eq!(steps[1].impact(), Impact::Considerable);
    // Whoever asks for none any more keeps it.
    let (steps, there) = carried_out(&plain, Some(there), std::slice::from_ref(&other));
    assert_eq!(shown(&steps), [""; 0]);
    let mut by_address = plain;
    by_address.wish = CloudIpWish::Address("192.0.2.7".parse().unwrap());
    let (steps, _) = carried_out(&by_address, Some(there), &[other]);
    assert_eq!(shown(&steps), [""; 0]);
}

#[test]
fn own_cloud_ip_that_leads_elsewhere_stops_everything() {
    let desired = desired("80", &[], AB);
    let mut there = built(&desired);
    let mut taken = there.cloud_ips.remove(0);
    taken.load_balancer = None;
    taken.server = Some(Reference {
        id: "srv-zzzzz".to_owned(),
        name: String::new(),
    });
    there.balancers[0].cloud_ips.clear();
    let there = listed(there, vec![taken]).unwrap();
    let error = plan(&desired, Some(&there)).unwrap_err().to_string();
    assert!(
        error.contains("srv-zzzzz") && error.contains("unmap it there"),
        "{error}"
    );
}

#[test]
fn failed_load_balancer_is_replaced() {
    let desired = desired("80", &[], AB);
    let mut there = built(&desired);
    let failed = there.balancers[0].id.clone();
    there.balancers[0].status = Some("failed".to_owned());
    let (steps, there) = carried_out(&desired, Some(there), &[]);
    let steps = shown(&steps);
    assert_eq!(steps[0], format!("delete load balancer {NAME} ({failed})"));
    assert!(
        steps[1].starts_with("create load balancer") && steps[2].starts_with("map"),
        "{steps:?}"
    );
    assert_eq!((there.balancers.len(), there.cloud_ips.len()), (1, 1));
}

#[test]
fn what_is_lost_is_made_again() {
    let desired = desired("80", &[], AB);
    for lose in [
        |bundle: &mut Bundle| bundle.groups.clear(),
        |bundle: &mut Bundle| bundle.policies.clear(),
        |bundle: &mut Bundle| bundle.policies[0].rules.clear(),
        |bundle: &mut Bundle| bundle.policies[0].server_group = None,
        |bundle: &mut Bundle| bundle.balancers[0].spec.nodes.clear(),
        |bundle: &mut Bundle| bundle.groups[0].servers.clear(),
    ] {
        let mut there = built(&desired);
        lose(&mut there);
        if there.groups.is_empty() {
            there.policies[0].server_group = None;
        }
        let (steps, after) = carried_out(&desired, Some(there), &[]);
        assert!(!steps.is_empty());
        let (again, _) = carried_out(&desired, Some(after), &[]);
        assert_eq!(shown(&again), [""; 0]);
    }
}

#[test]
fn rule_of_another_description_is_somebody_elses() {
    let desired = desired("80", &[], AB);
    let mut there = built(&desired);
    let mut strange = there.policies[0].rules[0].clone();
    "fwr-strange".clone_into(&mut strange.id);
    "by hand".clone_into(&mut strange.spec.description);
    there.policies[0].rules.push(strange);
    let (steps, _) = carried_out(&desired, Some(there), &[]);
    assert_eq!(shown(&steps), [""; 0]);
}

#[test]
fn status_waits_for_mapping_and_for_every_domain() {
    let mut wanted = desired("443", &[("ssl-domains", "a.example.com")], AB);
    let there = built(&wanted);
    wanted.chosen = there.cloud_ips.first().cloned();
    let with = |status: &str| {
        let mut there = there.clone();
        there.balancers[0].acme = Some(Acme {
            domains: vec![Domain {
                identifier: "a.example.com".to_owned(),
                status: status.to_owned(),
                last_message: Some("no answer".to_owned()),
            }],
        });
        unready(&wanted, &there)
    };
    assert_eq!(with("valid"), None);
    assert!(matches!(with("validating"), Some(Unready::Wait(_))));
    let Some(Unready::Failed(why)) = with("invalid") else {
        panic!("it is told");
    };
    assert!(
        why.contains("a.example.com") && why.contains("no answer"),
        "{why}"
    );
    let mut unmapped = there.clone();
    unmapped.balancers[0].cloud_ips.clear();
    assert!(matches!(
        unready(&wanted, &unmapped),
        Some(Unready::Wait(_))
    ));
    // Without HTTPS nobody asks for the domains.
    let mut plain = desired("80", &[], AB);
    plain.chosen.clone_from(&wanted.chosen);
    assert_eq!(unready(&plain, &there), None);
}

#[test]
fn removal_goes_on_from_wherever_it_was_interrupted() {
    let made = built(&desired("80", &[], AB));
    for (is_marked, last) in [(true, "delete server group"), (false, "delete Cloud IP")] {
        let mut left = if is_marked {
            made.clone()
        } else {
            by_go(made.clone())
        };
        let steps = shown(&removal(&left));
        assert!(
            steps.len() == 1 && steps[0].starts_with("delete load balancer"),
            "{steps:?}"
        );
        left.balancers.clear();
        left.cloud_ips[0].load_balancer = None;
        let steps = removal(&left);
        assert!(
            steps.last().unwrap().to_string().starts_with(last),
            "{steps:?}"
        );
        let parts: BTreeSet<String> = shown(&steps)
            .iter()
            .map(|step| {
                step.split_whitespace()
                    .take(3)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        let all = [
            "delete Cloud IP",
            "delete firewall policy",
            "delete server group",
        ];
        assert!(all.iter().all(|part| parts.contains(*part)), "{parts:?}");
    }
}
