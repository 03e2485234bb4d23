use super::*;
use crate::cloud_api::testing::{Cloud, Reply};
use crate::clouds::linode::Flags;
use crate::clouds::linode::tests::linode;
use serde_json::json;

/// Linode's own client and the documentation name the list otherwise.
#[tokio::test]
async fn reads_interfaces_under_either_name() {
    for name in ["data", "interfaces"] {
        let cloud = Cloud::start(move |seen, _| {
            if seen.line.contains("/interfaces") {
                let vpc =
                    json!({ "ipv6": { "slaac": [], "ranges": [{ "range": "2600:3c00:1::/64" }] } });
                let all = [json!({ "vpc": null }), json!({ "vpc": vpc })];
                Reply::json(json!({ name: all, "page": 1, "pages": 1, "results": 2 }))
            } else {
                Reply::json(json!({ "id": 7, "interface_generation": "linode" }))
            }
        })
        .await;
        let ipam = ipam(linode(&cloud.base, Flags::default()));
        let cidr = ipam
            .ipv6_pod_cidr(&"linode://7".parse().unwrap())
            .await
            .unwrap();
        assert_eq!(
            cidr.unwrap().to_string(),
            "2600:3c00:1::c:0:0/112",
            "{name}"
        );
    }
}

/// That of the profile that the Linode runs with.
#[tokio::test]
async fn reads_the_active_configuration_profile() {
    let interface = |active: bool, range: &str| {
        let ipv6 = json!({ "slaac": [{ "range": range, "address": "2600::1" }], "ranges": null });
        json!({ "purpose": "vpc", "active": active, "ipv6": ipv6 })
    };
    let configs = [
        json!({ "id": 1, "interfaces": [interface(false, "2600:3c00:1::/64")] }),
        json!({ "id": 2, "interfaces": [{ "purpose": "public" }, interface(true, "2600:3c00:2::/64")] }),
        json!({ "id": 3, "interfaces": null }),
    ];
    let cloud = Cloud::start(move |seen, _| {
        if seen.line.contains("/configs") {
            Reply::json(json!({ "data": configs, "page": 1, "pages": 1, "results": 3 }))
        } else {
            Reply::json(json!({ "id": 7, "interface_generation": "legacy_config" }))
        }
    })
    .await;
    let flags = Flags {
        ipv6_mask: Some(64),
        ..Flags::default()
    };
    let ipam = ipam(linode(&cloud.base, flags));
    let cidr = ipam
        .ipv6_pod_cidr(&"linode://7".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(cidr.unwrap().to_string(), "2600:3c00:2::/64");
}
