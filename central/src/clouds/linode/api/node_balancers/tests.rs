use mooring_common::k8s::Slim;
use serde_json::{Value, json};

use super::*;

fn balancer(fields: &Value) -> NodeBalancer {
    let mut all = json!({"id": 1, "label": "ccm-1"});
    json_patch::merge(&mut all, fields);
    serde_json::from_value(all).unwrap()
}

fn service(frontend: Option<&str>, ingress: &Value) -> ServiceView {
    let mut service = json!({
        "metadata": {"name": "web", "annotations": {}},
        "status": {"loadBalancer": {"ingress": ingress}},
    });
    if let Some(id) = frontend {
        service["metadata"]["annotations"][keys::FRONTEND_SUBNET_ID.key] = json!(id);
    }
    ServiceView::slim(serde_json::from_value(service).unwrap())
}

/// linode.md 2.2. Each row: the status, and whether it shows this NodeBalancer.
#[test]
fn status_shows_a_nodebalancer_by_address_or_else_by_host_name() {
    let there = balancer(&json!({
        "hostname": "nb.example", "ipv4": "203.0.113.7", "ipv6": "2001:db8::7",
    }));
    let nameless = balancer(&json!({"hostname": "", "ipv4": "203.0.113.7", "ipv6": null}));
    for (ingress, is_shown, is_shown_without_name) in [
        (json!([]), false, false),
        (json!([{"ip": "203.0.113.7"}]), true, true),
        (json!([{"ip": "2001:DB8:0::7"}]), true, false),
        (
            json!([{"ip": "203.0.113.7", "hostname": "nb.example"}]),
            true,
            true,
        ),
        (json!([{"hostname": "nb.example"}]), true, false),
        (json!([{"hostname": ""}]), false, false),
        (json!([{"hostname": "other.example"}]), false, false),
        (json!([{"ip": "203.0.113.8"}]), false, false),
        // The address says more.
        (
            json!([{"ip": "203.0.113.8", "hostname": "nb.example"}]),
            false,
            false,
        ),
        (
            json!([{"ip": "203.0.113.8"}, {"ip": "203.0.113.7"}]),
            true,
            true,
        ),
    ] {
        let service = service(None, &ingress);
        assert_eq!(there.is_shown_by(&service), is_shown, "{ingress}");
        assert_eq!(
            nameless.is_shown_by(&service),
            is_shown_without_name,
            "{ingress}"
        );
    }
}

#[test]
fn same_address_in_another_vpc_is_anothers() {
    let of_subnet =
        |subnet| balancer(&json!({"ipv4": "10.0.0.5", "frontend_vpc_subnet_id": subnet}));
    for (asked, of_seven, of_eight, public) in [
        (None, true, true, true),
        (Some("7"), true, false, false),
        (Some("8"), false, true, false),
        (Some("9"), false, false, false),
        // It cannot be read, and is told elsewhere.
        (Some("x"), true, true, true),
    ] {
        let service = service(asked, &json!([{"ip": "10.0.0.5"}]));
        let shown = [json!(7), json!(8), json!(null)].map(|id| of_subnet(id).is_shown_by(&service));
        assert_eq!(shown, [of_seven, of_eight, public], "{asked:?}");
    }
}

/// One that asks by names: what it has is noted on it. Public addresses are one NodeBalancer's alone.
#[test]
fn same_address_in_a_vpc_is_that_of_the_noted_one() {
    let there = |subnet| balancer(&json!({"ipv4": "10.0.0.5", "frontend_vpc_subnet_id": subnet}));
    for (noted, in_vpc, public) in [
        (None, true, true),
        (Some("1/abc"), true, true),
        (Some("1/abc/changing"), true, true),
        (Some("2/abc"), false, true),
        (Some("x"), true, true),
    ] {
        let mut service = service(None, &json!([{"ip": "10.0.0.5"}]));
        let noted = noted.map(|text| (APPLIED.to_owned(), text.to_owned()));
        service.annotations.extend(noted.clone());
        let shown = [json!(7), json!(null)].map(|id| there(id).is_shown_by(&service));
        assert_eq!(shown, [in_vpc, public], "{noted:?}");
    }
}

#[test]
fn what_has_neither_address_nor_name_is_being_made() {
    for (fields, expected) in [
        (json!({}), true),
        (json!({"ipv4": null, "ipv6": "", "hostname": ""}), true),
        (json!({"ipv4": "203.0.113.7"}), false),
        (json!({"ipv6": "2001:db8::7"}), false),
        (json!({"hostname": "nb.example"}), false),
    ] {
        assert_eq!(balancer(&fields).is_changing(), expected, "{fields}");
    }
}

#[test]
fn strange_fields_hide_no_nodebalancer() {
    let strange = balancer(&json!({
        "label": null, "hostname": 7, "ipv4": [], "client_conn_throttle": "x", "tags": null,
    }));
    assert_eq!((strange.id(), strange.name()), ("1", ""));
    assert!(strange.addresses().is_empty() && strange.owner().is_none());
    assert!(serde_json::from_value::<NodeBalancer>(json!({"id": null})).is_err());
}

#[test]
fn marks_are_no_tags_of_a_person() {
    let there = balancer(&json!({"tags": ["b", "k8s-service-u", "a", "k8s-cluster-c"]}));
    assert_eq!((there.owner(), there.cluster()), (Some("u"), Some("c")));
    assert_eq!(MARKS.unmarked(&there.tags), ["b", "a"]);
    let tags = |tags: &[&str]| tags.iter().map(ToString::to_string).collect::<Vec<_>>();
    let has_tags = |wanted: &[&str]| MARKS.are_unmarked(&there.tags, &tags(wanted));
    assert!(has_tags(&["a", "b"]));
    assert!(!has_tags(&["a"]) && !has_tags(&["a", "b", "c"]));
}
