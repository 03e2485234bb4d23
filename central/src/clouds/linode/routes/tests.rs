use reqwest::Url;
use serde_json::{Value, json};

use super::*;
use crate::cloud_api::testing::{Cloud, Reply};
use crate::cloud_provider::pod_network::{RouteError, Routes as _};
use crate::clouds::linode::tests::linode;
use crate::clouds::linode::{Flags, VpcChoice};
use crate::engine::interface_routes::InterfaceRoutes;

/// A Linode with two interfaces of its own, in two VPCs, and one of a profile that it does not run with.
fn rows(vpc: u64) -> Vec<Value> {
    let row = |interface: u64, active: bool, config: Option<u64>, address: Value, range: Value| {
        json!({
            "linode_id": 7, "subnet_id": vpc, "vpc_id": vpc, "interface_id": interface, "config_id": config,
            "active": active, "address": address, "address_range": range, "prefix": 16,
        })
    };
    let net = if vpc == 1 { "10.1" } else { "10.2" };
    vec![
        row(
            vpc * 10,
            true,
            None,
            json!(format!("{net}.0.2")),
            Value::Null,
        ),
        row(
            vpc * 10,
            true,
            None,
            Value::Null,
            json!(format!("{net}.7.0/24")),
        ),
        row(
            vpc * 10 + 1,
            false,
            Some(5),
            json!(format!("{net}.0.3")),
            Value::Null,
        ),
        row(
            vpc * 10 + 1,
            false,
            Some(5),
            Value::Null,
            json!(format!("{net}.8.0/24")),
        ),
        // As a row of IPv6 has it.
        row(vpc * 10, true, None, Value::Null, Value::Null),
    ]
}

/// It says of each interface that it has one range, or what it was told.
async fn cloud() -> Cloud {
    Cloud::start(|seen, _| {
        let page = |data: Vec<Value>| {
            let results = data.len();
            Reply::json(json!({ "data": data, "page": 1, "pages": 1, "results": results }))
        };
        let line = &seen.line;
        match [1, 2]
            .into_iter()
            .find(|vpc| line.contains(&format!("/vpcs/{vpc}/ips")))
        {
            Some(vpc) => page(rows(vpc)),
            None if line.contains("/ipv6s") => page(Vec::new()),
            None if line.starts_with("PUT") => Reply::json(&seen.body),
            None => {
                let net = if line.contains("/interfaces/1") {
                    "10.1"
                } else {
                    "10.2"
                };
                let ranges = json!([{ "range": format!("{net}.7.0/24") }]);
                Reply::json(json!({ "vpc": { "ipv4": { "ranges": ranges } } }))
            }
        }
    })
    .await
}

fn routes(base: &Url) -> InterfaceRoutes<LinodeInterfaces> {
    let (vpcs, subnets) = (vec![1, 2], vec![1, 2]);
    let flags = Flags {
        vpcs: VpcChoice::Numbers { vpcs, subnets },
        ..Flags::default()
    };
    InterfaceRoutes(LinodeInterfaces(linode(base, flags)))
}

fn route(range: &str) -> Route {
    Route {
        machine: "linode://7".parse().unwrap(),
        destination: range.parse().unwrap(),
    }
}

fn writes(cloud: &Cloud) -> Vec<String> {
    let seen = cloud.seen();
    let writes = seen.iter().filter(|one| one.line.starts_with("PUT"));
    writes
        .map(|one| format!("{} {}", one.line, one.body))
        .collect()
}

#[tokio::test]
async fn each_range_is_on_the_interface_of_its_subnet() {
    let cloud = cloud().await;
    let routes = routes(&cloud.base);
    let table = routes.list(None).await.unwrap().table;
    let listed: Vec<String> = table.values().flatten().map(ToString::to_string).collect();
    assert_eq!(
        listed,
        ["10.1.7.0/24", "10.2.7.0/24"],
        "a profile that is not active routes nothing"
    );
    let may_write = || Ok(());
    routes
        .create(&route("10.2.9.0/24"), &may_write)
        .await
        .unwrap();
    routes
        .create(&route("10.1.7.0/24"), &may_write)
        .await
        .unwrap();
    routes
        .delete(&route("10.1.7.0/24"), &may_write)
        .await
        .unwrap();
    let ranges = |ranges: &[&str]| {
        let ranges: Vec<Value> = ranges
            .iter()
            .map(|range| json!({ "range": range }))
            .collect();
        json!({ "vpc": { "ipv4": { "ranges": ranges } } })
    };
    let path = "PUT /v4/linode/instances/7/interfaces";
    let expected = [
        format!("{path}/20 {}", ranges(&["10.2.7.0/24", "10.2.9.0/24"])),
        format!("{path}/10 {}", ranges(&[])),
    ];
    assert_eq!(writes(&cloud), expected);
    // One listing is enough to find the interfaces.
    assert_eq!(
        cloud
            .lines()
            .iter()
            .filter(|line| line.contains("/ips?"))
            .count(),
        2
    );
}

#[tokio::test]
async fn whoever_must_not_write_does_not() {
    let cloud = cloud().await;
    let routes = routes(&cloud.base);
    let refused = || Err(crate::election::NotLeading::Lease);
    let error = routes
        .create(&route("10.1.9.0/24"), &refused)
        .await
        .unwrap_err();
    assert!(matches!(error, RouteError::NotLeading(_)), "{error}");
    assert!(writes(&cloud).is_empty());
}

/// A Linode with one interface in VPC 1, whose row says this of its profile, and which is shown so.
async fn one_interface(config: Value, shown: Value) -> Cloud {
    Cloud::start(move |seen, _| {
        let row = json!({
            "linode_id": 7, "subnet_id": 1, "interface_id": 10, "config_id": config, "active": true,
            "address": "10.1.0.2", "prefix": 16,
        });
        let page = |data: Vec<&Value>| {
            let results = data.len();
            Reply::json(json!({ "data": data, "page": 1, "pages": 1, "results": results }))
        };
        match &seen.line {
            line if line.contains("/vpcs/1/ips") => page(vec![&row]),
            line if line.contains("/vpcs/") => page(Vec::new()),
            line if line.starts_with("PUT") => Reply::json(&seen.body),
            _ => Reply::json(&shown),
        }
    })
    .await
}

async fn create(cloud: &Cloud) -> Result<(), RouteError> {
    let routes = routes(&cloud.base);
    routes.create(&route("10.1.9.0/24"), &|| Ok(())).await
}

/// 0 and null both say that there is none, and so does null of a list.
#[tokio::test]
async fn an_interface_of_no_profile_and_one_without_ranges_get_routes() {
    let own = json!({ "vpc": { "ipv4": { "ranges": [{ "range": "10.1.9.0/24" }] } } });
    let added = |body: &Value, path: &str| format!("PUT /v4/linode/instances/7/{path}/10 {body}");
    let of_profile = json!({ "ip_ranges": ["10.1.9.0/24"] });
    let none = json!({ "vpc": { "ipv4": { "ranges": null } } });
    for (config, shown, write) in [
        (json!(null), none.clone(), added(&own, "interfaces")),
        (json!(0), none, added(&own, "interfaces")),
        (
            json!(5),
            json!({ "ip_ranges": null }),
            added(&of_profile, "configs/5/interfaces"),
        ),
    ] {
        let cloud = one_interface(config, shown).await;
        create(&cloud).await.unwrap();
        assert_eq!(writes(&cloud), [write]);
    }
    // An answer that says nothing of ranges may have lost them.
    for (config, shown) in [
        (json!(0), json!({ "vpc": { "ipv4": {} } })),
        (json!(5), json!({ "purpose": "vpc" })),
    ] {
        let cloud = one_interface(config, shown).await;
        assert!(create(&cloud).await.is_err());
        assert!(writes(&cloud).is_empty());
    }
}
