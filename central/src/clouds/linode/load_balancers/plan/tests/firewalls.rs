//! From each firewall to each other, and whose they are.

use serde_json::json;

use super::simulation::{firewall, own};
use super::*;
use crate::clouds::linode::load_balancers::firewalls::{Firewall, FirewallSpec};
use crate::clouds::linode::load_balancers::plan::unready;
use crate::engine::provider::{Observed as _, Unready};
use crate::engine::step::{Effect, Step as _};

const ACL: &str = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;
const OTHER_ACL: &str = r#"{"allowList": {"ipv4": ["198.51.100.0/24"]}}"#;

fn none() -> Desired {
    wanted("tcp/80", &[], &[1])
}

fn id(id: &str) -> Desired {
    wanted("tcp/80", &[("firewall-id", id)], &[1])
}

fn acl(acl: &str) -> Desired {
    wanted("tcp/80", &[("firewall-acl", acl)], &[1])
}

fn spec(desired: &Desired) -> &FirewallSpec {
    match &desired.firewall {
        FirewallWish::Own(spec) => spec,
        other => panic!("{other:?}"),
    }
}

/// What the Go controller has made for [`ACL`].
fn made_by_go() -> Firewall {
    let rules = json!({
        "inbound": [{
            "action": "ACCEPT", "label": "ACCEPT-web", "ports": "80", "protocol": "TCP",
            "description": "Created by linode-ccm: ACCEPT-web, for web",
            "addresses": {"ipv4": ["192.0.2.0/24"]},
        }],
        "inbound_policy": "DROP",
    });
    firewall(OWN, "ccm-aaaaaaaaaaaa", &rules, true)
}

fn with(attached: impl IntoIterator<Item = Firewall>, loose: Vec<Firewall>) -> Observed {
    Observed {
        attached: attached.into_iter().collect(),
        loose,
        ..built(&none())
    }
}

/// The step after which a NodeBalancer says of these firewalls that they are attached because its Service names
/// them.
fn tags(ids: &[u64]) -> String {
    let marks: String = ids
        .iter()
        .map(|id| format!(", k8s-firewall-{id}"))
        .collect();
    format!("set tags to k8s-service-deadbeef, k8s-cluster-prod{marks} of the NodeBalancer")
}

#[test]
fn each_leads_to_each_other() {
    let own_is = "ccm-0123456789ab (50)";
    let delete = format!("delete firewall {own_is}");
    let away = format!("have no firewall instead of firewall {own_is}");
    let instead = format!("attach firewall 7 instead of firewall {own_is}");
    let [mark_7, mark_8] = [&[7], &[8]].map(|ids| tags(ids));
    let table: [(Desired, Desired, &[&str]); 9] = [
        (none(), none(), &[]),
        (none(), id("7"), &[&mark_7, "attach firewall 7"]),
        (
            none(),
            acl(ACL),
            &[
                "create firewall ccm-0123456789ab",
                "attach the new firewall",
            ],
        ),
        // Somebody has made it, and may have attached it for another reason.
        (id("7"), none(), &[]),
        (id("7"), id("7"), &[]),
        (
            id("7"),
            id("8"),
            &[
                &mark_8,
                "attach firewall 8 instead of firewall office-7 (7)",
            ],
        ),
        (acl(ACL), none(), &[&away, &delete]),
        (acl(ACL), id("7"), &[&mark_7, &instead, &delete]),
        (
            acl(OTHER_ACL),
            acl(ACL),
            &["change the rules of firewall ccm-0123456789ab (50)"],
        ),
    ];
    for (before, now, expected) in table {
        assert_eq!(steps(&now, &built(&before)), expected, "{:?}", now.firewall);
    }
}

#[test]
fn ports_of_the_firewall_follow() {
    let of = |ports| wanted(ports, &[("firewall-acl", ACL)], &[1]);
    assert_eq!(
        steps(&of("tcp/80 udp/53"), &built(&of("tcp/80"))),
        [
            "change the rules of firewall ccm-0123456789ab (50)",
            "create config udp/53",
            "give config udp/53 1 nodes",
        ]
    );
}

/// It is neither changed nor put aside: somebody wanted what it does.
#[test]
fn somebody_elses_firewall_stands_in_the_way_of_an_own_one() {
    let desired = acl(ACL);
    let rules = spec(&desired).told_rules();
    let other_rules = spec(&acl(OTHER_ACL)).told_rules();
    let marked = Firewall {
        tags: vec![
            "k8s-service-other".to_owned(),
            "k8s-cluster-prod".to_owned(),
        ],
        ..firewall(9, "ccm-bbbbbbbbbbbb", &rules, true)
    };
    let disabled = Firewall {
        is_disabled: true,
        ..firewall(9, "office", &rules, true)
    };
    let other = firewall(9, "office", &other_rules, true);
    for attached in [other, disabled, marked] {
        let shown = format!("{} (9)", attached.label);
        let observed = with([attached], Vec::new());
        let why = refusal(&desired, Some(&observed));
        for part in [&*shown, "detach it", "linode-loadbalancer-firewall-id"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(unready(&desired, &observed), Some(Unready::Failed(why)));
        assert!(steps(&none(), &observed).is_empty());
        assert!(steps(&id("9"), &observed).is_empty());
        let instead = format!("attach firewall 7 instead of firewall {shown}");
        assert_eq!(steps(&id("7"), &observed), [tags(&[7]), instead]);
    }
}

/// Of a Service that named a firewall and has an ACL now, the Go controller rewrites the firewall that it named.
#[test]
fn somebody_elses_firewall_that_does_as_wanted_is_left() {
    let desired = acl(ACL);
    let rules = spec(&desired).told_rules();
    let office = || firewall(9, "office", &rules, true);
    let observed = with([office()], Vec::new());
    assert!(steps(&desired, &observed).is_empty());
    assert_eq!(unready(&desired, &observed), None);
    // All the rest follows, and one of the Service's own is not needed.
    let throttled = wanted(
        "tcp/80",
        &[("firewall-acl", ACL), ("throttle", "3")],
        &[1, 2],
    );
    assert_eq!(
        steps(&throttled, &observed),
        [
            "set the connection throttle to 3 of the NodeBalancer",
            "add node node-2 (192.168.128.2:30080) to config c0",
        ]
    );
    let loose = vec![own(OWN, spec(&desired), false)];
    assert_eq!(
        steps(&desired, &with([office()], loose)),
        ["delete firewall ccm-0123456789ab (50)"]
    );
}

/// A port that nobody serves yet would be open to more clients than the Service asks for.
#[test]
fn nodes_are_followed_while_a_firewall_stands_in_the_way() {
    let open = json!({"inbound": [], "inbound_policy": "ACCEPT"});
    let observed = with([firewall(9, "office", &open, true)], Vec::new());
    let desired = wanted(
        "tcp/80 tcp/443",
        &[("firewall-acl", ACL), ("throttle", "3")],
        &[2],
    );
    let steps = plan(&desired, Some(&observed)).unwrap();
    let are_nodes = steps
        .steps()
        .iter()
        .all(|step| matches!(step, Step::Node(_)));
    assert!(are_nodes && !steps.is_empty(), "{steps}");
    assert!(matches!(
        unready(&desired, &observed),
        Some(Unready::Failed(_))
    ));
    let nothing_else = wanted("tcp/80 tcp/443", &[("firewall-acl", ACL)], &[1]);
    assert!(refusal(&nothing_else, Some(&observed)).contains("office (9)"));
}

/// What the Service named and names no more is detached; it stays what it is.
#[test]
fn firewall_that_was_named_before_gives_way() {
    let before = |mut desired: Desired| {
        desired.former_firewall = Some(7);
        desired
    };
    let office = "office-7 (7)";
    let observed = built(&id("7"));
    let away = format!("have no firewall instead of firewall {office}");
    assert_eq!(steps(&before(none()), &observed), [away]);
    let instead = format!("attach the new firewall instead of firewall {office}");
    let create = "create firewall ccm-0123456789ab";
    assert_eq!(steps(&before(acl(ACL)), &observed), [create, &instead]);
    assert!(steps(&before(id("7")), &observed).is_empty());
    assert!(steps(&before(none()), &built(&id("8"))).is_empty());
}

/// It is known from before it is attached until it is detached, whatever else is not as wanted meanwhile.
#[test]
fn what_was_attached_because_it_was_named_bears_a_mark_until_it_is_detached() {
    let marked = |attached: &Desired, ids: &[u64]| {
        let mut observed = built(attached);
        let marks = ids.iter().map(|id| format!("k8s-firewall-{id}"));
        observed.balancer.tags.extend(marks);
        observed
    };
    let away = "have no firewall instead of firewall office-7 (7)";
    let create = "create firewall ccm-0123456789ab";
    let by_own = "attach the new firewall instead of firewall office-7 (7)";
    let by_8 = "attach firewall 8 instead of firewall office-7 (7)";
    let seven = || marked(&id("7"), &[7]);
    assert!(steps(&id("7"), &seven()).is_empty());
    assert_eq!(steps(&none(), &seven()), [away, &tags(&[])]);
    assert_eq!(steps(&acl(ACL), &seven()), [create, by_own, &tags(&[])]);
    assert_eq!(
        steps(&id("8"), &seven()),
        [&tags(&[7, 8]), by_8, &tags(&[8])]
    );
    // Interrupted before the other one was attached, and after.
    let both = |is: &str| marked(&id(is), &[7, 8]);
    assert_eq!(steps(&id("8"), &both("7")), [by_8, &tags(&[8])]);
    assert_eq!(steps(&none(), &both("7")), [away, &tags(&[])]);
    assert_eq!(steps(&id("8"), &both("8")), [tags(&[8])]);
    // Somebody has attached another one since, which stays, or has detached it.
    assert_eq!(steps(&none(), &marked(&id("9"), &[7])), [tags(&[])]);
    assert_eq!(steps(&none(), &marked(&none(), &[7])), [tags(&[])]);
    // It bears none that was attached already.
    assert!(steps(&id("7"), &built(&id("7"))).is_empty());
    let new = plan(&id("7"), None).unwrap();
    let [Step::CreateBalancer(new)] = new.steps() else {
        panic!("{new}");
    };
    assert!(new.spec.tags.contains(&"k8s-firewall-7".to_owned()));
}

/// One that somebody has switched off protects nothing.
#[test]
fn own_firewall_that_is_disabled_is_enabled() {
    let desired = acl(ACL);
    let disabled = |is_attached| Firewall {
        is_disabled: true,
        ..own(OWN, spec(&desired), is_attached)
    };
    let enable = "enable, and change the rules of firewall ccm-0123456789ab (50)";
    assert_eq!(
        steps(&desired, &with([disabled(true)], Vec::new())),
        [enable]
    );
    assert_eq!(
        steps(&desired, &with([], vec![disabled(false)])),
        [enable, "attach firewall 50"]
    );
    // Whether another's is, is another's affair.
    let theirs = Firewall {
        is_disabled: true,
        ..firewall(7, "office-7", &json!(null), true)
    };
    assert!(steps(&id("7"), &with([theirs], Vec::new())).is_empty());
}

#[test]
fn several_firewalls_are_for_a_person_to_sort_out() {
    let strange = |id| firewall(id, "office", &json!(null), true);
    let observed = with([strange(7), strange(8)], Vec::new());
    for desired in [none(), id("7"), acl(ACL)] {
        let why = refusal(&desired, Some(&observed));
        let words = "too many firewalls attached to a nodebalancer: office (7), office (8); detach all but one";
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn what_the_go_controller_made_is_taken_over() {
    let go = "ccm-aaaaaaaaaaaa (50)";
    let observed = || with([made_by_go()], Vec::new());
    assert!(steps(&acl(ACL), &observed()).is_empty());
    assert_eq!(
        steps(&acl(OTHER_ACL), &observed()),
        ["change the rules of firewall ccm-0123456789ab (50)"]
    );
    let delete = format!("delete firewall {go}");
    let away = format!("have no firewall instead of firewall {go}");
    // Without a mark nothing would lead to it once it is detached.
    let mark = format!("mark firewall {go} as the Service's");
    assert_eq!(steps(&none(), &observed()), [&*mark, &away, &delete]);
    let instead = format!("attach firewall 7 instead of firewall {go}");
    assert_eq!(
        steps(&id("7"), &observed()),
        [&*tags(&[7]), &*mark, &instead, &delete]
    );
    assert!(steps(&id("50"), &observed()).is_empty());
}

/// A person has named it, and may go on using it.
#[test]
fn firewall_of_the_go_controller_that_was_named_is_not_deleted() {
    let go = "ccm-aaaaaaaaaaaa (50)";
    let observed = || with([made_by_go()], Vec::new());
    let marked = || {
        let mut observed = observed();
        observed.balancer.tags.push("k8s-firewall-50".to_owned());
        observed
    };
    let before = |mut desired: Desired| {
        desired.former_firewall = Some(OWN);
        desired
    };
    let away = format!("have no firewall instead of firewall {go}");
    let instead = format!("attach firewall 7 instead of firewall {go}");
    assert_eq!(steps(&before(none()), &observed()), [&*away]);
    assert_eq!(steps(&none(), &marked()), [&*away, &tags(&[])]);
    assert_eq!(
        steps(&before(id("7")), &observed()),
        [&*tags(&[7]), &instead]
    );
    assert_eq!(
        steps(&id("7"), &marked()),
        [&*tags(&[50, 7]), &instead, &tags(&[7])]
    );
}

/// An attempt was interrupted, or somebody has detached it.
#[test]
fn own_one_that_is_loose_is_used_again_or_deleted() {
    let desired = acl(ACL);
    let loose = || vec![own(OWN, spec(&desired), false)];
    let delete = "delete firewall ccm-0123456789ab (50)";
    assert_eq!(steps(&desired, &with([], loose())), ["attach firewall 50"]);
    assert_eq!(
        steps(&acl(OTHER_ACL), &with([], loose())),
        [
            "change the rules of firewall ccm-0123456789ab (50)",
            "attach firewall 50",
        ]
    );
    assert_eq!(steps(&none(), &with([], loose())), [delete]);
    assert_eq!(
        steps(&id("7"), &with([], loose())),
        [&*tags(&[7]), "attach firewall 7", delete]
    );
    // A person wants just this one.
    assert_eq!(
        steps(&id("50"), &with([], loose())),
        [&*tags(&[50]), "attach firewall 50"]
    );
    let two = [own(51, spec(&desired), true)];
    assert_eq!(
        steps_with(&desired, &with(two, loose()), [50, 51]),
        [delete]
    );
}

/// Another firewall of its name could not be made, and only its mark leads to the first.
#[test]
fn adopted_nodebalancer_is_marked_before_a_firewall_is_made() {
    let mut observed = built(&none());
    observed.balancer.tags.clear();
    assert_eq!(
        steps(&acl(ACL), &observed),
        [
            "set tags to k8s-service-deadbeef, k8s-cluster-prod of the NodeBalancer",
            "create firewall ccm-0123456789ab",
            "attach the new firewall",
        ]
    );
}

/// Its label is taken, so that there cannot be a second one.
#[test]
fn firewall_of_the_former_nodebalancer_is_taken_over() {
    let desired = acl(ACL);
    let of_former = || Firewall {
        entities: serde_json::from_value(json!([{"id": 77, "type": "nodebalancer"}])).unwrap(),
        ..own(50, spec(&desired), false)
    };
    let observed = with([], vec![of_former()]);
    assert_eq!(steps(&desired, &observed), ["attach firewall 50"]);
    let other = acl(OTHER_ACL);
    assert_eq!(
        steps(&other, &observed),
        [
            "change the rules of firewall ccm-0123456789ab (50)",
            "attach firewall 50"
        ]
    );
    // It is in use until its NodeBalancer has gone.
    assert!(steps(&none(), &observed).is_empty());
}

/// To attach and to detach needs the right to NodeBalancers alone.
#[test]
fn without_the_right_to_firewalls_what_protects_a_nodebalancer_stays() {
    let rules = json!({"inbound": [], "inbound_policy": "DROP"});
    let office = || Some(firewall(7, "office-7", &rules, true));
    let own = || Some(own(OWN, spec(&acl(ACL)), true));
    let seen = |attached: Option<Firewall>| Observed {
        may_list: false,
        ..with(attached, Vec::new())
    };
    for (desired, observed) in [
        (none(), seen(None)),
        (none(), seen(office())),
        (id("7"), seen(office())),
        (acl(ACL), seen(own())),
    ] {
        assert!(steps(&desired, &observed).is_empty(), "{observed:#?}");
        assert_eq!(unready(&desired, &observed), None);
    }
    let attach = [&*tags(&[7]), "attach firewall 7"];
    assert_eq!(steps(&id("7"), &seen(None)), attach);
    for (desired, observed) in [
        (none(), seen(own())),
        (acl(ACL), seen(None)),
        (acl(OTHER_ACL), seen(own())),
    ] {
        let why = refusal(&desired, Some(&observed));
        assert!(why.contains("the token may not list firewalls"), "{why}");
        assert_eq!(unready(&desired, &observed), Some(Unready::Failed(why)));
    }
}

/// A newer wish may end a plan between any two of its steps, and the next one begins with what is remembered.
#[test]
fn what_a_plan_has_made_is_remembered_or_observed_anew() {
    let observed = built(&wanted("tcp/80", &[], &[1]));
    let desired = wanted("tcp/80 tcp/443", &[("firewall-acl", ACL)], &[1]);
    let first = plan(&desired, Some(&observed)).unwrap();
    let (mut known, mut planned, mut is_unseen) = (observed, Vec::new(), false);
    let mut made = 0;
    for step in first.steps() {
        let effect = step.effect(&planned);
        made += usize::from(matches!(effect, Effect::Create | Effect::CreateUnseen));
        is_unseen |= matches!(effect, Effect::ChangeUnseen | Effect::CreateUnseen);
        known.take(step, "77", &mut planned);
        let next = plan(&desired, Some(&known)).unwrap();
        let again = next
            .steps()
            .iter()
            .any(|one| one.to_string() == step.to_string());
        assert!(is_unseen || !again, "{step} is taken twice");
    }
    assert_eq!(made, 2, "a config and a firewall: {first}");
}
