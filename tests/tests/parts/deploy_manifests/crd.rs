//! The CRD of L2Network: what it takes, and what it refuses with which words.

use std::process::Command;

use kube::api::{Api, DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use mooring_test_cluster::objects::unique;
use serde_json::{Value, json};

use super::deployed::{deploy, deployed, refusal};

/// Tries to make an L2Network as a user would write it, without Mooring's own types in between.
async fn create(spec: &Value) -> Result<DynamicObject, String> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "mooring.dev",
        "v1alpha1",
        "L2Network",
    ));
    let network = serde_json::from_value(json!({
        "apiVersion": "mooring.dev/v1alpha1",
        "kind": "L2Network",
        "metadata": { "name": unique("lan") },
        "spec": spec,
    }))
    .unwrap();
    Api::<DynamicObject>::all_with(deployed().await.admin(), &resource)
        .create(&PostParams::default(), &network)
        .await
        .map_err(refusal)
}

/// A dual-stack segment with these ranges.
fn with_ranges(ranges: &[&str]) -> Value {
    json!({
        "subnets": [
            { "cidr": "192.0.2.0/24", "gateway": "192.0.2.1" },
            { "cidr": "2001:db8::/64", "gateway": "2001:db8::1" },
        ],
        "ranges": ranges,
    })
}

async fn assert_refused(spec: &Value, words: &[&str]) {
    let message = match create(spec).await {
        Err(message) => message,
        Ok(_) => panic!("taken: {spec}"),
    };
    for word in words {
        assert!(
            message.contains(word),
            "{word:?} is missing for {spec} in:\n{message}"
        );
    }
    for noise in ["no such", "no matching overload", "evaluation", "cost"] {
        assert!(
            !message.contains(noise),
            "a rule failed to run on {spec}:\n{message}"
        );
    }
}

#[test]
fn the_shipped_crd_is_what_the_types_say() {
    let generated = Command::new(env!("CARGO_BIN_EXE_crd-gen"))
        .output()
        .unwrap();
    let shipped = std::fs::read_to_string(deploy("chart/mooring/crds/l2networks.yaml")).unwrap();
    assert!(
        String::from_utf8_lossy(&generated.stdout) == shipped,
        "deploy/chart/mooring/crds/l2networks.yaml is out of date; its first lines say how to \
         generate it"
    );
}

/// Of others, `kubectl apply` warns each time.
#[test]
fn the_shipped_crd_has_the_formats_that_kubernetes_knows() {
    let shipped = std::fs::read_to_string(deploy("chart/mooring/crds/l2networks.yaml")).unwrap();
    let formats = shipped
        .lines()
        .filter_map(|line| line.trim().strip_prefix("format: "));
    let formats: Vec<&str> = formats.collect();
    assert!(formats.len() > 5, "{formats:?}");
    let known = ["int32", "int64", "date-time"];
    let others = formats.iter().filter(|format| !known.contains(format));
    assert_eq!(others.count(), 0, "{formats:?}");
}

#[tokio::test]
async fn good_segments_are_taken() {
    for ranges in [
        &["192.0.2.16/28"][..],
        &["192.0.2.9-192.0.2.10", "192.0.2.100-192.0.2.100"],
        &[
            "192.0.2.10-192.0.2.15",
            "192.0.2.16/28",
            "192.0.2.32-192.0.2.40",
        ],
        &["2001:db8::100/120", "2001:DB8::200/120", "192.0.2.255/32"],
    ] {
        create(&with_ranges(ranges)).await.unwrap();
    }
    create(&json!({
        "vlan": 4094,
        "parent": "eth1",
        "mtu": 9000,
        "subnets": [{ "cidr": "10.0.0.0/8" }],
        "ranges": ["10.1.0.0/16"],
        "nodeSelector": { "matchLabels": { "rack": "a" } },
        "allowedNamespaces": { "matchLabels": { "team": "red" } },
        "maxAddressesPerNamespace": 1,
    }))
    .await
    .unwrap();
}

#[tokio::test]
async fn a_namespace_may_have_one_address_at_least() {
    let spec = json!({
        "subnets": [{ "cidr": "192.0.2.0/24" }],
        "ranges": ["192.0.2.16/28"],
        "maxAddressesPerNamespace": 0,
    });
    let words = &[
        "spec.maxAddressesPerNamespace",
        "greater than or equal to 1",
    ];
    assert_refused(&spec, words).await;
}

#[tokio::test]
async fn absent_may_be_written_as_null() {
    create(&json!({
        "vlan": null,
        "parent": null,
        "mtu": null,
        "subnets": [{ "cidr": "192.0.2.0/24", "gateway": null }],
        "ranges": ["192.0.2.16/28"],
        "nodeSelector": null,
    }))
    .await
    .unwrap();
}

#[tokio::test]
async fn a_gateway_outside_its_subnet_is_refused() {
    for gateway in ["198.51.100.1", "2001:db8::1", "router"] {
        let spec = json!({
            "subnets": [{ "cidr": "192.0.2.0/24", "gateway": gateway }],
            "ranges": ["192.0.2.16/28"],
        });
        let words = format!("{gateway}: no address within 192.0.2.0/24; name the router's");
        assert_refused(&spec, &["spec.subnets[0].gateway", &words]).await;
    }
}

#[tokio::test]
async fn what_is_no_subnet_is_refused() {
    for cidr in ["192.0.2.0", "192.0.2.0/33", "fe80::/64%eth0", "lan"] {
        let spec = json!({ "subnets": [{ "cidr": cidr }], "ranges": ["192.0.2.16/28"] });
        let words = format!("{cidr}: no subnet; write it like 192.0.2.0/24");
        assert_refused(&spec, &["spec.subnets[0].cidr", &words]).await;
    }
}

#[tokio::test]
async fn what_is_no_range_is_refused() {
    for range in [
        "192.0.2.1",
        "192.0.2.0/33",
        "192.0.2.10 - 192.0.2.20",
        "192.0.2.10-192.0.2.20-192.0.2.30",
        "192.0.2.10-192.0.2.256",
        "2001:db8::1-2001:db8::9",
        "a-b",
        "---",
    ] {
        let words = format!("{range}: no range; write a CIDR block");
        assert_refused(&with_ranges(&[range]), &["spec.ranges", &words]).await;
    }
}

#[tokio::test]
async fn a_pair_the_wrong_way_round_is_refused() {
    // As texts these would be in order.
    for pair in [
        "192.0.2.9-192.0.2.8",
        "192.0.2.10-192.0.2.9",
        "192.0.2.200-192.0.2.99",
    ] {
        let words = format!("{pair}: the wrong way round; write the lower address first");
        assert_refused(&with_ranges(&[pair]), &["spec.ranges", &words]).await;
    }
}

#[tokio::test]
async fn a_block_must_begin_with_its_first_address() {
    for block in ["192.0.2.17/28", "2001:db8::101/120"] {
        let words = format!("{block}: not the first address of the block; write that one");
        assert_refused(&with_ranges(&[block]), &["spec.ranges", &words]).await;
    }
}

#[tokio::test]
async fn a_range_outside_the_subnets_is_refused() {
    for range in [
        "198.51.100.0/28",
        "192.0.2.0/23",
        "192.0.2.250-192.0.3.1",
        "2001:db8:1::/120",
        "192.0.1.250-192.0.2.4",
    ] {
        let words = format!("{range}: in none of the subnets; add its subnet");
        assert_refused(&with_ranges(&[range]), &["spec.ranges", &words]).await;
    }
}

#[tokio::test]
async fn ranges_that_overlap_are_refused() {
    for ranges in [
        ["192.0.2.16/28", "192.0.2.16/28"],
        ["192.0.2.16/28", "192.0.2.24/29"],
        ["192.0.2.24/29", "192.0.2.16/28"],
        ["192.0.2.16/28", "192.0.2.31-192.0.2.40"],
        ["192.0.2.9-192.0.2.40", "192.0.2.16/28"],
        ["192.0.2.9-192.0.2.20", "192.0.2.20-192.0.2.30"],
        ["192.0.2.9-192.0.2.99", "192.0.2.10-192.0.2.11"],
        ["2001:db8::100/120", "2001:db8::180/121"],
        ["2001:db8::100/120", "2001:DB8::100/120"],
    ] {
        let words = "overlapping another range of this L2Network; let each address be in one";
        assert_refused(&with_ranges(&ranges), &["spec.ranges", words]).await;
    }
}

#[tokio::test]
async fn numbers_out_of_bounds_are_refused() {
    for (field, value) in [("vlan", 0), ("vlan", 4095), ("mtu", 1279), ("mtu", 65536)] {
        let mut spec = with_ranges(&["192.0.2.16/28"]);
        spec[field] = json!(value);
        let path = format!("spec.{field}");
        assert_refused(&spec, &[&path]).await;
    }
    assert_refused(&with_ranges(&[]), &["spec.ranges"]).await;
    let no_subnet = json!({ "subnets": [], "ranges": ["192.0.2.16/28"] });
    assert_refused(&no_subnet, &["spec.subnets"]).await;
}

#[tokio::test]
async fn every_fault_is_told_at_once() {
    let spec = json!({
        "subnets": [
            { "cidr": "192.0.2.0/24", "gateway": "198.51.100.1" },
            { "cidr": "nonsense" },
        ],
        "ranges": ["192.0.2.16/28", "192.0.2.20-192.0.2.10", "203.0.113.0/30", "x/y"],
    });
    assert_refused(
        &spec,
        &[
            "198.51.100.1: no address within",
            "nonsense: no subnet",
            "192.0.2.20-192.0.2.10: the wrong way round",
            "203.0.113.0/30: in none of the subnets",
            "x/y: no range",
        ],
    )
    .await;
}

#[tokio::test]
async fn the_largest_segment_permitted_is_not_too_costly() {
    let ranges: Vec<String> = (100..132)
        .map(|n| format!("100.100.{n}.100-100.100.{n}.199"))
        .collect();
    let subnets: Vec<Value> = (0..8)
        .map(|n| json!({ "cidr": format!("100.{}.0.0/16", 100 + n), "gateway": format!("100.{}.1.1", 100 + n) }))
        .collect();
    create(&json!({ "subnets": subnets, "ranges": ranges }))
        .await
        .unwrap();
}

#[tokio::test]
async fn address_of_the_control_plane_is_one_of_each_family() {
    let with = |entry: Value| {
        let mut spec = with_ranges(&["192.0.2.16/28"]);
        spec["controlPlane"] = entry;
        spec
    };
    for addresses in [
        json!(["192.0.2.100"]),
        json!(["2001:db8::100", "192.0.2.100"]),
    ] {
        create(&with(json!({"addresses": addresses, "port": 8443})))
            .await
            .unwrap();
    }
    for address in [
        "here",
        "192.0.2.100/32",
        "127.0.0.1",
        "224.0.0.1",
        "fe80::1",
    ] {
        let words = format!("{address}: no address of one host; write one such as 192.0.2.100");
        let entry = json!({"addresses": [address]});
        assert_refused(&with(entry), &["spec.controlPlane.addresses[0]", &words]).await;
    }
    for second in ["192.0.2.100", "192.0.2.101"] {
        let words = format!("{second}: a second address of its family; list at most one of each");
        let entry = json!({"addresses": ["192.0.2.100", second]});
        assert_refused(&with(entry), &["spec.controlPlane.addresses", &words]).await;
    }
    for entry in [
        json!({}),
        json!({"addresses": []}),
        json!({"addresses": ["192.0.2.100"], "port": 0}),
        json!({"addresses": ["192.0.2.100"], "port": 65536}),
    ] {
        assert_refused(&with(entry), &["spec.controlPlane."]).await;
    }
}
