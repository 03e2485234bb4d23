mod by_person;

use mooring_common::k8s::Slim;
use serde_json::{Value, json};

use super::*;
use crate::engine::provider::AccountWords;

const WORDS: &Vocabulary = &BY_CENTRAL;
const BY_CENTRAL: Vocabulary = Vocabulary {
    provider: "example",
    component: "example-controller",
    cloud: "example",
    id_key: "example.com/id",
    id_by: IdBy::Central,
    name_key: Some("example.com/name"),
    name_prefix: Some("k8s-service-"),
    selector_key: Some("example.com/nodes"),
    account: AccountWords {
        resource: "a load balancer",
        account: "project",
        credentials: "EXAMPLE_TOKEN",
    },
    exclusive: "floating IP",
    exclusive_key: "example.com/floating-ips",
    subnets_key: "example.com/subnets",
    affinity: ["example.com/algorithm", "source_ip"],
};

const OWN: &str = "00000000-0000-4000-8000-000000000001";
const OTHER: &str = "00000000-0000-4000-8000-000000000002";
const A: &str = "c2e4aaaa-0000-4000-8000-00000000000a";
const B: &str = "096caaaa-0000-4000-8000-00000000000b";
const C: &str = "85dfaaaa-0000-4000-8000-00000000000c";
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

fn claim(uid: &str, age: &str, name: Option<&str>, uuid: Option<&str>, ip: Option<&str>) -> Claim {
    let ingress: Vec<Value> = ip.iter().map(|ip| json!({"ip": ip})).collect();
    claim_in(WORDS, uid, age, [name, uuid], &json!(ingress))
}

/// `wishes`: a name and an ID.
fn claim_in(
    words: &'static Vocabulary,
    uid: &str,
    age: &str,
    [name, uuid]: [Option<&str>; 2],
    ingress: &Value,
) -> Claim {
    let mut annotations = json!({});
    if let Some(name) = name {
        annotations["example.com/name"] = json!(name);
    }
    if let Some(uuid) = uuid {
        annotations[words.id_key] = json!(uuid);
    }
    let service = json!({
        "metadata": {
            "namespace": "ns", "name": format!("of-{uid}"), "uid": uid,
            "creationTimestamp": format!("2026-01-{age}T00:00:00Z"), "annotations": annotations,
        },
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    let service = ServiceView {
        annotations: annotations_of(&service),
        ..ServiceView::slim(serde_json::from_value(service).unwrap())
    };
    let name = words.name_prefix.unwrap_or("made-for-");
    Claim::of(&Arc::new(service), words, format!("{name}{uid}"))
}

/// Those of no cloud are not kept.
fn annotations_of(service: &Value) -> std::collections::BTreeMap<String, String> {
    serde_json::from_value(service["metadata"]["annotations"].clone()).unwrap()
}

/// A load balancer of no cloud, at 203.0.113.7 if not elsewhere.
#[derive(Clone, Debug)]
struct Balancer {
    id: String,
    name: String,
    owner: Option<String>,
    created: Option<String>,
    cluster: Option<String>,
    address: std::net::IpAddr,
}

impl Listed for Balancer {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref()
    }

    fn created(&self) -> Option<&str> {
        self.created.as_deref()
    }

    fn addresses(&self) -> Vec<std::net::IpAddr> {
        vec![self.address]
    }

    fn zone(&self) -> Option<&str> {
        None
    }

    fn changes(&mut self) {}

    fn is_changing(&self) -> bool {
        false
    }
}

fn balancer(id: &str, name: &str, owner: Option<&str>) -> Balancer {
    Balancer {
        id: id.to_owned(),
        name: name.to_owned(),
        owner: owner.map(ToOwned::to_owned),
        created: None,
        cluster: None,
        address: "203.0.113.7".parse().unwrap(),
    }
}

fn shown(selection: &Selection<'_, Balancer>) -> String {
    match selection {
        Selection::Nothing => "nothing".to_owned(),
        Selection::Own { balancer, surplus } => format!("own {} +{}", balancer.id, surplus.len()),
        Selection::Adopted { balancer, .. } => format!("adopted {}", balancer.id),
        Selection::Unproven {
            balancer, rival, ..
        } => match rival {
            None => format!("unproven {}", balancer.id),
            Some(_) => format!("contested {}", balancer.id),
        },
        Selection::Refused(_) => "refused".to_owned(),
    }
}

/// cloudscale.md 7.2, TestFindLoadBalancer.
#[test]
fn finds_what_go_controller_finds() {
    let all = [
        balancer(A, "foo", None),
        balancer(B, "clone", None),
        balancer(C, "clone", None),
    ];
    for (name, uuid, expected) in [
        (None, None, "nothing".to_owned()),
        (Some("foo"), None, format!("unproven {A}")),
        (Some("clone"), None, "refused".to_owned()),
        (Some("foo"), Some(C), "refused".to_owned()),
        (Some("foo"), Some(ZERO), format!("unproven {A}")),
        (Some("foo"), Some(A), format!("unproven {A}")),
        (Some("new"), Some(A), format!("unproven {A}")),
    ] {
        let claim = claim(OWN, "02", name, uuid, None);
        assert_eq!(
            shown(&select(&all, &claim, &[])),
            expected,
            "{name:?} {uuid:?}"
        );
    }
}

#[test]
fn foreign_marks_and_names_are_never_ours() {
    let own = format!("k8s-service-{OWN}");
    let other = format!("k8s-service-{OTHER}");
    let tagged = |name: &str| balancer(A, name, Some(OTHER));
    for (listed, name, uuid, expected) in [
        (
            balancer(A, "foo", Some(OWN)),
            None,
            None,
            format!("own {A} +0"),
        ),
        (balancer(A, &own, None), None, None, format!("own {A} +0")),
        (
            balancer(A, &own, None),
            Some("renamed"),
            Some(A),
            format!("own {A} +0"),
        ),
        (
            balancer(A, &own, None),
            Some("renamed"),
            None,
            format!("own {A} +0"),
        ),
        (tagged("foo"), Some("foo"), None, "refused".to_owned()),
        (tagged("foo"), None, Some(A), "refused".to_owned()),
        (tagged(&own), None, None, "refused".to_owned()),
        (
            balancer(A, &other, None),
            None,
            Some(A),
            "refused".to_owned(),
        ),
        (tagged("foo"), None, None, "nothing".to_owned()),
    ] {
        let claim = claim(OWN, "02", name, uuid, Some("203.0.113.7"));
        let all = [listed];
        assert_eq!(
            shown(&select(&all, &claim, &[])),
            expected,
            "{name:?} {uuid:?} {all:?}"
        );
    }
}

#[test]
fn recorded_one_of_several_marked_stays() {
    let mut all = vec![balancer(A, "foo", Some(OWN)), balancer(B, "foo", Some(OWN))];
    let noted = claim(OWN, "02", None, Some(B), None);
    assert_eq!(shown(&select(&all, &noted, &[])), format!("own {B} +1"));
    all[1].created = Some("2026-01-01T00:00:00Z".to_owned());
    all[0].created = Some("2026-01-02T00:00:00Z".to_owned());
    let bare = claim(OWN, "02", None, None, None);
    assert_eq!(shown(&select(&all, &bare, &[])), format!("own {B} +1"));
}

#[test]
fn user_or_older_claim_wins() {
    let all = [balancer(A, "foo", None)];
    let vip = Some("203.0.113.7");
    for (own_age, own_ip, other_age, other_ip, expected) in [
        ("02", None, "01", None, format!("contested {A}")),
        ("01", None, "02", None, format!("unproven {A}")),
        ("02", vip, "01", vip, format!("contested {A}")),
        ("01", vip, "02", vip, format!("unproven {A}")),
        ("01", None, "02", vip, "refused".to_owned()),
        ("02", vip, "01", None, format!("adopted {A}")),
        ("01", None, "01", None, format!("unproven {A}")),
    ] {
        let own = claim(OWN, own_age, None, Some(A), own_ip);
        let other = claim(OTHER, other_age, Some("foo"), None, other_ip);
        let selected = select(&all, &own, &[other]);
        assert_eq!(
            shown(&selected),
            expected,
            "{own_age} {other_age} {other_ip:?}"
        );
    }
}

/// Another network may have the same address, so that it decides only where nobody else means the same.
#[test]
fn private_address_proves_nothing_against_another_service() {
    for vip in ["10.0.0.9", "fd00::9"] {
        let all = [Balancer {
            address: vip.parse().unwrap(),
            ..balancer(A, "foo", None)
        }];
        let own = |ip| claim(OWN, "02", None, Some(A), ip);
        let selected = select(&all, &own(Some(vip)), &[]);
        assert_eq!(shown(&selected), format!("adopted {A}"));
        for (own_ip, other_age, other_ip, expected) in [
            (Some(vip), "01", None, format!("unproven {A}")),
            (Some(vip), "01", Some(vip), format!("contested {A}")),
            (Some(vip), "03", Some(vip), format!("unproven {A}")),
            (None, "03", Some(vip), format!("contested {A}")),
        ] {
            let other = claim(OTHER, other_age, Some("foo"), None, other_ip);
            let selected = select(&all, &own(own_ip), &[other]);
            assert_eq!(
                shown(&selected),
                expected,
                "{own_ip:?} {other_age} {other_ip:?}"
            );
        }
    }
}

#[test]
fn refusal_names_owner_and_remedy() {
    let all = [balancer(A, "foo", Some(OTHER))];
    let own = claim(OWN, "02", None, Some(A), None);
    let other = claim(OTHER, "01", None, None, None);
    let Selection::Refused(why) = select(&all, &own, &[other]) else {
        panic!()
    };
    assert!(
        why.contains(&format!("ns/of-{OTHER}")) && why.contains(WORDS.id_key),
        "{why}"
    );
}
