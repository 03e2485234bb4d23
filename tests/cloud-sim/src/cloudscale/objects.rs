//! The parts of a load balancer and floating IPs, as the API shows them.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::kind::Kind;
use super::machine::{complete as complete_server, locate, subnet};
use super::state::State;

const CREATED_AT: &str = "2026-01-02T03:04:05.000000Z";

/// An object with all the fields that the API shows; those given win, and what they refer to is
/// shown as the API does, whether it was given as a UUID or as an object.
pub(super) fn complete(state: &State, kind: Kind, given: &Value, key: &str) -> Result<Value> {
    if kind == Kind::Server {
        return Ok(complete_server(given, key, &state.url));
    }
    let mut value = defaults(kind, given);
    for (field, given) in given.as_object().context("write an object")? {
        value[field] = given.clone();
    }
    value["href"] = json!(href(state, kind, key, given));
    for (field, of) in [
        ("pool", Kind::Pool),
        ("load_balancer", Kind::LoadBalancer),
        ("server", Kind::Server),
    ] {
        if let Some(uuid) = referred(&value[field]) {
            let stub = state.stub(of, &uuid);
            value[field] = stub.with_context(|| format!("{field}: there is no {uuid}"))?;
        }
    }
    if let Some(pool) = referred(&value["pool"]) {
        value["load_balancer"] = state.rows(Kind::Pool).value(&pool)["load_balancer"].clone();
    }
    match kind {
        Kind::LoadBalancer | Kind::Pool | Kind::Member | Kind::Listener | Kind::HealthMonitor => {
            value["uuid"] = json!(key);
        }
        Kind::Server | Kind::FloatingIp => {}
    }
    match kind {
        Kind::LoadBalancer => {
            worded(&mut value, "zone");
            worded(&mut value, "flavor");
            value["flavor"]["name"] = json!("LB-Standard");
        }
        Kind::Member => value["subnet"] = shown_subnet(state, &value["subnet"]),
        Kind::HealthMonitor => value["http"] = options(&value["type"], &value["http"]),
        Kind::FloatingIp => worded(&mut value, "region"),
        Kind::Server | Kind::Pool | Kind::Listener => {}
    }
    Ok(value)
}

fn defaults(kind: Kind, given: &Value) -> Value {
    let mut value = match kind {
        Kind::Server => json!({}),
        Kind::LoadBalancer => json!({
            "name": "load-balancer", "status": "running", "zone": "rma1", "flavor": "lb-standard",
            "vip_addresses": [],
        }),
        Kind::Pool => json!({
            "name": "tcp", "algorithm": "round_robin", "protocol": "tcp", "load_balancer": null,
        }),
        Kind::Member => json!({
            "name": "member", "enabled": true, "protocol_port": 80, "monitor_port": null,
            "address": "10.0.0.1", "subnet": null, "pool": null, "load_balancer": null,
            "monitor_status": "no_monitor",
        }),
        Kind::Listener => json!({
            "name": "listener", "protocol": "tcp", "protocol_port": 80, "pool": null,
            "load_balancer": null, "allowed_cidrs": [], "timeout_client_data_ms": 50000,
            "timeout_member_connect_ms": 5000, "timeout_member_data_ms": 50000,
        }),
        Kind::HealthMonitor => json!({
            "pool": null, "load_balancer": null, "type": "tcp", "delay_s": 2, "timeout_s": 1,
            "up_threshold": 2, "down_threshold": 3, "http": null,
        }),
        Kind::FloatingIp => json!({
            "ip_version": if given["network"].as_str().is_some_and(|n| n.contains(':')) { 6 } else { 4 },
            "type": "regional", "region": if given["type"] == "global" { Value::Null } else { json!("rma") },
            "next_hop": null, "reverse_ptr": null, "server": null, "load_balancer": null,
        }),
    };
    value["created_at"] = json!(CREATED_AT);
    value["tags"] = json!({});
    value
}

/// Where an object is to be found.
fn href(state: &State, kind: Kind, key: &str, given: &Value) -> String {
    let path = match kind {
        Kind::Member => {
            let pool = referred(&given["pool"]).unwrap_or_default();
            kind.path().replace('*', &pool)
        }
        _ => kind.path().to_owned(),
    };
    format!("{}{path}/{key}", state.url)
}

/// The UUID of what a field refers to.
pub(super) fn referred(field: &Value) -> Option<String> {
    let uuid = field.as_str().or_else(|| field["uuid"].as_str())?;
    Some(uuid.to_lowercase())
}

/// `"rma1"` as `{"slug": "rma1"}`.
fn worded(value: &mut Value, field: &str) {
    if let Some(slug) = value[field].as_str() {
        value[field] = json!({ "slug": slug });
    }
}

/// A subnet as the servers in it show it.
pub(super) fn shown_subnet(state: &State, field: &Value) -> Value {
    let Some(uuid) = referred(field) else {
        return Value::Null;
    };
    let addresses = state.rows(Kind::Server).iter().flat_map(|server| {
        let interfaces = server.value()["interfaces"].as_array();
        let interfaces = interfaces.into_iter().flatten();
        interfaces.flat_map(|interface| interface["addresses"].as_array().into_iter().flatten())
    });
    let mut subnets = addresses.map(|address| &address["subnet"]);
    let known = subnets.find(|subnet| referred(subnet).as_deref() == Some(&uuid));
    let mut shown = known.cloned().unwrap_or_else(|| subnet(&uuid));
    locate(&mut shown, &state.url, "subnets");
    shown
}

/// The HTTP options of a monitor: none if it does not speak HTTP, else with all of them.
fn options(kind: &Value, given: &Value) -> Value {
    if kind != "http" && kind != "https" {
        return Value::Null;
    }
    let mut options = json!({
        "expected_codes": ["200"], "method": "GET", "url_path": "/", "version": "1.1", "host": null,
    });
    for (name, given) in given.as_object().into_iter().flatten() {
        options[name] = given.clone();
    }
    options
}

/// The addresses of a new load balancer: a public one of each family unless others are asked for.
pub(super) fn vips(state: &State, wanted: &Value, serial: usize) -> Value {
    let (high, low) = (serial / 250, serial % 250 + 1);
    let wanted = wanted.as_array().filter(|wanted| !wanted.is_empty());
    let Some(wanted) = wanted else {
        return json!([
            { "version": 4, "address": format!("5.102.{}.{low}", 144 + high), "subnet": null },
            { "version": 6, "address": format!("2a06:c01:1:{high:x}::{low:x}"), "subnet": null },
        ]);
    };
    let vips = wanted.iter().map(|vip| {
        let address = vip["address"].as_str().map_or_else(
            || format!("10.{}.{high}.{low}", 100 + serial % 100),
            ToOwned::to_owned,
        );
        let version = if address.parse().is_ok_and(|a: IpAddr| a.is_ipv6()) {
            6
        } else {
            4
        };
        let subnet = match referred(&vip["subnet"]) {
            Some(_) => shown_subnet(state, &vip["subnet"]),
            None => shown_subnet(state, &json!(super::machine::SUBNET)),
        };
        json!({ "version": version, "address": address, "subnet": subnet })
    });
    vips.collect()
}
