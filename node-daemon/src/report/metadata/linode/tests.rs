use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::NodeFacts;
use proptest::prelude::{any, prop, prop_assert, proptest};
use serde_json::{Value, json};

use super::*;
use crate::report::metadata::scripted::{Scripted, ok, status};
use crate::report::metadata::{Completeness, missing};

const NAME_OF_NODE: &str = "worker-1";

fn instance() -> Value {
    json!({
        "id": 12345, "label": "worker-1", "region": "us-east", "type": "g6-standard-2",
        "host_uuid": "a631b16d14534d84e2830da16d1b28e1d08d24df",
        "tags": ["k8s"], "specs": {"vcpus": 2}, "unheard_of": [1, {"x": null}],
    })
}

fn network() -> Value {
    json!({
        "interfaces": [],
        "ipv4": {
            "public": ["192.0.2.1/32", "192.0.2.2/32"],
            "private": ["192.168.130.7/17"],
            "shared": ["198.51.100.9/32"],
        },
        "ipv6": {
            "slaac": "2001:db8::f03c:91ff:fe24:3a2f/128", "link_local": "fe80::1/128",
            "ranges": ["2001:db8:1::/64"], "shared_ranges": [],
        },
    })
}

fn document(value: &Value) -> Document {
    Document::read("http://m", value.to_string().as_bytes()).unwrap()
}

fn answer(instance: &Value, network: &Value) -> Result<SourceAnswer, MetadataError> {
    facts::describe(&document(instance), &document(network), None, NAME_OF_NODE)
}

/// A document with something else at this JSON pointer; null takes it away.
fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = document
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap();
    if value.is_null() {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value);
    }
    document
}

fn lacks(answer: &SourceAnswer) -> Vec<&'static str> {
    match &answer.completeness {
        Completeness::Whole => Vec::new(),
        Completeness::Partial { missing } => missing.clone(),
    }
}

#[test]
fn facts_match_go_controller() {
    let answer = answer(&instance(), &network()).unwrap();
    let of = |kind, address: &str| NodeAddress::new(kind, address);
    let one = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let expected = NodeFacts {
        provider_id: Some("linode://12345".parse().unwrap()),
        instance_type: Some("g6-standard-2".to_owned()),
        region: Some("us-east".to_owned()),
        zone: None,
        addresses: vec![
            of(AddressType::Hostname, "worker-1"),
            of(AddressType::ExternalIP, "192.0.2.1"),
            of(AddressType::ExternalIP, "192.0.2.2"),
            of(AddressType::InternalIP, "192.168.130.7"),
            of(AddressType::ExternalIP, "2001:db8::f03c:91ff:fe24:3a2f"),
        ],
        keeps_reported_internal_ips: true,
        provider_labels: [one(
            "node.k8s.linode.com/host-uuid",
            "a631b16d14534d84e2830da16d1b28e1d08d24df",
        )]
        .into(),
        provider_annotations: [
            one("node.k8s.linode.com/private-ip", "192.168.130.7"),
            one(
                "node.k8s.linode.com/public-ipv6",
                "2001:db8::f03c:91ff:fe24:3a2f/128",
            ),
        ]
        .into(),
        ..NodeFacts::default()
    };
    assert_eq!(answer.facts, expected);
    assert_eq!(answer.completeness, Completeness::Whole);
}

#[test]
fn user_decides_external_networks() {
    let external = Some("192.168.128.0/17".parse().unwrap());
    let answer = facts::describe(
        &document(&instance()),
        &document(&network()),
        external,
        NAME_OF_NODE,
    )
    .unwrap();
    let private = NodeAddress::new(AddressType::ExternalIP, "192.168.130.7");
    assert!(answer.facts.addresses.contains(&private));
    let annotations = &answer.facts.provider_annotations;
    assert!(!annotations.contains_key("node.k8s.linode.com/private-ip"));
}

#[test]
fn requires_what_go_controller_reports() {
    for (pointer, what) in [
        ("/id", missing::PROVIDER_ID),
        ("/type", missing::INSTANCE_TYPE),
        ("/region", missing::REGION),
        ("/label", missing::HOST_NAME),
    ] {
        let answer = answer(&with(instance(), pointer, Value::Null), &network()).unwrap();
        assert_eq!(lacks(&answer), [what]);
    }
    for (pointer, what) in [
        ("/interfaces", missing::VPC),
        ("/ipv4", missing::IPV4),
        ("/ipv4/public", missing::IPV4),
        ("/ipv4/private", missing::IPV4),
        ("/ipv6", missing::IPV6),
        ("/ipv6/slaac", missing::IPV6),
    ] {
        let answer = answer(&instance(), &with(network(), pointer, Value::Null)).unwrap();
        assert_eq!(lacks(&answer), [what]);
        assert_eq!(
            answer.facts.addresses,
            [],
            "a list that is not whole: {pointer}"
        );
    }
    let bare =
        json!({"interfaces": [], "ipv4": {"public": [], "private": []}, "ipv6": {"slaac": ""}});
    assert_eq!(
        lacks(&answer(&instance(), &bare).unwrap()),
        [missing::ADDRESSES]
    );
}

#[test]
fn tolerates_what_go_controller_tolerates() {
    for pointer in [
        "/ipv4/shared",
        "/ipv6/link_local",
        "/ipv6/ranges",
        "/ipv6/shared_ranges",
    ] {
        let answer = answer(&instance(), &with(network(), pointer, Value::Null)).unwrap();
        assert_eq!(lacks(&answer), [""; 0], "{pointer}");
    }
    let without_uuid = answer(&with(instance(), "/host_uuid", Value::Null), &network()).unwrap();
    assert_eq!(without_uuid.completeness, Completeness::Whole);
    assert!(without_uuid.facts.provider_labels.is_empty());
    // A machine that has none says so.
    let no_v6 = with(network(), "/ipv6", json!({"slaac": null}));
    let no_private = with(no_v6, "/ipv4/private", json!([]));
    let answer = answer(&instance(), &no_private).unwrap();
    assert_eq!(answer.completeness, Completeness::Whole);
    assert!(answer.facts.provider_annotations.is_empty());
}

#[test]
fn leaves_forbidden_name_to_central() {
    let answer = answer(&with(instance(), "/label", json!("web")), &network()).unwrap();
    assert_eq!(lacks(&answer), [missing::OTHER_NAME]);
    assert_eq!(answer.facts.addresses, []);
}

#[test]
fn leaves_vpc_addresses_to_central() {
    for (purpose, whole) in [
        ("public", true),
        ("vlan", true),
        ("vpc", false),
        ("moon", false),
    ] {
        let interfaces = json!([
            {"purpose": "public", "label": "", "ipam_address": ""},
            {"purpose": purpose, "label": "net"},
        ]);
        let answer = answer(&instance(), &with(network(), "/interfaces", interfaces)).unwrap();
        assert_eq!(
            answer.completeness == Completeness::Whole,
            whole,
            "{purpose}"
        );
        assert_eq!(answer.facts.addresses.is_empty(), !whole, "{purpose}");
        assert!(answer.facts.provider_id.is_some());
    }
}

#[test]
fn converts_type_to_label_value() {
    let odd = with(instance(), "/type", json!("g6 standard/2 (new)"));
    let answer = answer(&odd, &network()).unwrap();
    assert_eq!(
        answer.facts.instance_type.as_deref(),
        Some("g6-standard-2-new")
    );
}

#[test]
fn names_invalid_value() {
    let instances = [
        ("/id", json!(0), "id"),
        ("/id", json!(-5), "id"),
        ("/id", json!("12345"), "id"),
        ("/id", json!(1.5), "id"),
        ("/label", json!("two words"), "label"),
        ("/region", json!(["us-east"]), "region"),
    ];
    let instances =
        instances.map(|(pointer, value, key)| (with(instance(), pointer, value), network(), key));
    let networks = [
        ("/ipv4/public", json!(["192.0.2.1/33"]), "ipv4.public"),
        ("/ipv4/public", json!(["none"]), "ipv4.public"),
        ("/ipv4/public", json!([7]), "ipv4.public"),
        ("/ipv4/public", json!("192.0.2.1/32"), "ipv4.public"),
        ("/ipv4/public", json!(["2001:db8::1/128"]), "ipv4"),
        ("/ipv4/private", json!(["127.0.0.1/32"]), "ipv4.private"),
        ("/ipv4/private", json!(["0.0.0.0/32"]), "ipv4.private"),
        ("/ipv4/private", json!(["169.254.1.1/32"]), "ipv4.private"),
        ("/ipv4/private", json!(["192.0.2.2/32"]), "ipv4.private"),
        ("/ipv6/slaac", json!("fe80::1/128"), "ipv6.slaac"),
        ("/ipv6/slaac", json!("192.0.2.3"), "ipv6.slaac"),
        ("/interfaces", json!({"purpose": "vpc"}), "interfaces"),
    ];
    let networks =
        networks.map(|(pointer, value, key)| (instance(), with(network(), pointer, value), key));
    for (instance, network, key) in instances.into_iter().chain(networks) {
        let error = answer(&instance, &network).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("{key} of http://m is ")),
            "{text}"
        );
        assert!(text.contains("--metadata-source"), "no remedy: {text}");
        assert!(!error.is_retryable(), "{text}");
    }
}

/// The service with these documents; `n`th tokens are called `token-n`.
async fn service(authorized: impl Fn(&str) -> bool + Send + 'static) -> Scripted {
    let tokens = AtomicU32::new(0);
    Scripted::start(move |head, _| {
        let head = head.to_lowercase();
        if head.starts_with("put /m1/v1/token ") {
            assert!(
                head.contains("\r\nmetadata-token-expiry-seconds: 3600\r\n"),
                "{head}"
            );
            let number = tokens.fetch_add(1, Ordering::Relaxed);
            return ok(&format!("[\"token-{number}\"]"));
        }
        assert!(head.contains("\r\naccept: application/json\r\n"), "{head}");
        if !authorized(&head) {
            return status("401 Unauthorized");
        }
        if head.starts_with("get /m1/v1/instance ") {
            ok(&instance().to_string())
        } else if head.starts_with("get /m1/v1/network ") {
            ok(&network().to_string())
        } else {
            status("404 Not Found")
        }
    })
    .await
}

const PASS: [&str; 3] = [
    "GET /m1/v1/instance HTTP/1.1",
    "GET /m1/v1/network HTTP/1.1",
    "GET /m1/v1/instance HTTP/1.1",
];
const PUT: &str = "PUT /m1/v1/token HTTP/1.1";

#[tokio::test]
async fn reuses_token_until_refused() {
    let refused = Arc::new(AtomicU32::new(0));
    let so_far = refused.clone();
    let service = service(move |head| {
        let last_refused = so_far.load(Ordering::Relaxed);
        let number = head.split("metadata-token: token-").nth(1);
        let number = number.and_then(|rest| rest.lines().next()).unwrap();
        number.parse::<u32>().unwrap() >= last_refused
    })
    .await;
    let source = LinodeSource::new(service.endpoint.clone(), None);
    assert!(source.recognises().await.unwrap());
    for _ in 0..2 {
        source.facts(&Identity::default()).await.unwrap();
    }
    let first = [&[PUT][..], &PASS, &PASS].concat();
    assert_eq!(service.asked(), first);
    refused.store(1, Ordering::Relaxed);
    source.facts(&Identity::default()).await.unwrap();
    let again = [PASS[0], PUT, PASS[0], PASS[1], PASS[2]];
    assert_eq!(service.asked(), [&first[..], &again].concat());
}

#[tokio::test]
async fn replaces_refused_token_once() {
    let service = service(|_| false).await;
    let source = LinodeSource::new(service.endpoint.clone(), None);
    let error = source.facts(&Identity::default()).await.unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().contains("401"),
        "{error}"
    );
    assert_eq!(service.asked(), [PUT, PASS[0], PUT, PASS[0]]);
}

#[tokio::test]
async fn only_token_proves_linode() {
    for (reply, expected) in [
        (ok(r#"["abc"]"#), Some(true)),
        (status("404 Not Found"), Some(false)),
        (status("405 Method Not Allowed"), Some(false)),
        (ok("<html>s3cr3t</html>"), None),
        (ok("s3cr3t"), None),
        (status("500 Oh"), None),
    ] {
        let scripted = reply.clone();
        let service = Scripted::start(move |_, _| scripted.clone()).await;
        let source = LinodeSource::new(service.endpoint.clone(), None);
        let answer = source.recognises().await;
        if let Err(error) = &answer {
            assert!(!error.to_string().contains("s3cr3t"), "{error}");
        }
        assert_eq!(answer.ok(), expected, "{reply}");
    }
}

#[tokio::test]
async fn detects_other_machine_midway() {
    let service = Scripted::start(|head, before| match head.split(' ').nth(1).unwrap() {
        "/m1/v1/token" => ok(r#"["abc"]"#),
        "/m1/v1/network" => ok(&network().to_string()),
        _ => ok(&with(instance(), "/id", json!(1 + before)).to_string()),
    })
    .await;
    let source = LinodeSource::new(service.endpoint.clone(), None);
    let error = source.facts(&Identity::default()).await.unwrap_err();
    assert!(
        matches!(&error, MetadataError::Contradictory { key, .. } if key == "id"),
        "{error}"
    );
    assert!(
        error.to_string().contains("was 2 a moment before"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_error(bytes: Vec<u8>) {
        if let Ok(document) = Document::read("x", &bytes) {
            let described = facts::describe(&document, &document, None, NAME_OF_NODE);
            prop_assert!(!matches!(described, Ok(answer) if answer.completeness == Completeness::Whole));
        }
    }

    #[test]
    fn truncated_document_is_never_whole(cut in any::<prop::sample::Index>(), which: bool) {
        let texts = [instance().to_string(), network().to_string()];
        let mut halves = texts.clone();
        let half = &mut halves[usize::from(which)];
        half.truncate(cut.index(half.len()));
        let read = |text: &String| Document::read("x", text.as_bytes());
        let described = read(&halves[0])
            .and_then(|i| facts::describe(&i, &read(&halves[1])?, None, NAME_OF_NODE));
        prop_assert!(!matches!(described, Ok(answer) if answer.completeness == Completeness::Whole));
    }
}
