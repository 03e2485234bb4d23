//! Objects with all the fields that the API shows.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::kind::Kind;
use super::machine::{DEFAULT_INTERFACE, server_type};

pub(super) const CREATED_AT: &str = "2026-01-02T03:04:05Z";
/// Where the account is.
const REGION: &str = "gb1";

/// An object with what is absent filled in; those fields that are given win.
pub(super) fn complete(kind: Kind, given: &Value, id: &str, serial: u32) -> Result<Value> {
    let mut value = defaults(kind, id, serial);
    for (field, given) in given.as_object().context("write an object")? {
        value[field] = flat(given);
    }
    value["id"] = json!(id);
    let is_open = |field: &str| given.get(field).is_none();
    match kind {
        Kind::Server => {
            if is_open("fqdn") {
                value["fqdn"] = json!(name_in(region(&value["zone"]["handle"]), id));
            }
            number_interfaces(&mut value, id);
        }
        Kind::CloudIp => {
            // Either field has the address.
            for (field, other) in [("public_ipv4", "public_ip"), ("public_ip", "public_ipv4")] {
                if is_open(field) && !is_open(other) {
                    value[field] = value[other].clone();
                }
            }
            if is_open("public_ipv6") {
                value["public_ipv6"] = embedding(&value["public_ipv4"]);
            }
            if is_open("reverse_dns") {
                value["reverse_dns"] = reverse_name(&value["public_ipv4"]);
            }
        }
        _ => {}
    }
    Ok(value)
}

/// References as identifiers: what is shown may be put back. Only objects of other kinds have such a type.
fn flat(given: &Value) -> Value {
    let is_reference = |value: &Value| {
        let kind = value["resource_type"].as_str().unwrap_or_default();
        Kind::ALL.iter().any(|of| of.resource_type() == kind) && value["id"].is_string()
    };
    match given {
        value if is_reference(value) => value["id"].clone(),
        Value::Array(all) => all.iter().map(flat).collect(),
        other => other.clone(),
    }
}

/// `gb1s-a` is in `gb1s`.
fn region(zone: &Value) -> &str {
    let zone = zone.as_str().and_then(|handle| handle.rsplit_once('-'));
    zone.map_or(REGION, |(region, _)| region)
}

/// The name that an object has in the DNS.
fn name_in(region: &str, id: &str) -> String {
    format!("{id}.{region}.brightbox.com")
}

/// The name that an address leads back to, unless its owner chooses another: `cip-109-107-39-92.gb1.brightbox.com`.
fn reverse_name(address: &Value) -> Value {
    let address = address.as_str().and_then(|text| text.parse().ok());
    address.map_or(Value::Null, |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        json!(name_in(REGION, &format!("cip-{a}-{b}-{c}-{d}")))
    })
}

/// The IPv6 address that goes with an IPv4 one, which is the end of it.
fn embedding(address: &Value) -> Value {
    let address = address.as_str().and_then(|text| text.parse().ok());
    address.map_or(Value::Null, |address: Ipv4Addr| {
        let number = u32::from(address);
        let (high, low) = (number >> 16, number & 0xffff);
        json!(format!("2a02:1348:ffff:ffff::{high:x}:{low:x}"))
    })
}

/// Interfaces that nobody has named have identifiers of their own, and the last bytes of their IPv4 addresses as
/// those of their MAC addresses.
fn number_interfaces(server: &mut Value, id: &str) {
    let (_, name) = id.split_once('-').unwrap_or(("srv", id));
    let all = server["interfaces"].as_array_mut().into_iter().flatten();
    for (index, interface) in all.enumerate() {
        if interface["id"] != DEFAULT_INTERFACE {
            continue;
        }
        let number = if index == 0 {
            String::new()
        } else {
            index.to_string()
        };
        interface["id"] = json!(format!("int-{name}{number}"));
        let address = interface["ipv4_address"].as_str();
        if let Some(address) = address.and_then(|text| text.parse::<Ipv4Addr>().ok()) {
            let [_, b, c, d] = address.octets();
            interface["mac_address"] = json!(format!("02:24:19:{b:02x}:{c:02x}:{d:02x}"));
        }
    }
}

fn defaults(kind: Kind, id: &str, serial: u32) -> Value {
    let mut value = match kind {
        Kind::Account => json!({}),
        Kind::Server => json!({
            "name": id, "status": "active", "locked": false, "hostname": id,
            "fqdn": name_in(REGION, id), "started_at": CREATED_AT,
            "deleted_at": null, "user_data": null, "compatibility_mode": false,
            "console_url": null, "console_token": null, "console_token_expires": null,
            "disk_encrypted": false, "server_type": server_type("1gb.ssd"),
            "image": {
                "id": "img-00001", "resource_type": "image", "name": "ubuntu-noble-24.04-amd64-server",
                "status": "available", "username": "ubuntu",
            },
            "zone": { "id": "zon-00001", "resource_type": "zone", "handle": "gb1-a" },
            "snapshots_retention": null, "snapshots_schedule": null,
            "snapshots_schedule_next_at": null,
            "interfaces": [], "snapshots": [], "volumes": [],
        }),
        Kind::ServerGroup => json!({
            "name": null, "description": null, "default": false,
            "fqdn": name_in(REGION, id), "servers": [],
        }),
        Kind::FirewallPolicy => json!({
            "name": null, "description": null, "default": false, "server_group": null,
        }),
        Kind::FirewallRule => json!({
            "firewall_policy": null, "protocol": null, "source": null, "source_port": null,
            "destination": null, "destination_port": null, "icmp_type_name": null,
            "description": null,
        }),
        Kind::LoadBalancer => json!({
            "name": null, "status": "active", "locked": false, "deleted_at": null,
            "policy": "least-connections", "buffer_size": 4096, "https_redirect": false,
            "listeners": [], "acme": null, "ssl_minimum_version": "TLSv1.2", "certificate": null,
            "healthcheck": {
                "type": "http", "port": 80, "request": "/", "interval": 5000, "timeout": 5000,
                "threshold_up": 3, "threshold_down": 3,
            },
            "nodes": [],
        }),
        Kind::CloudIp => {
            let (high, low) = (serial / 250, serial % 250 + 1);
            let address = format!("109.107.{}.{low}", 32 + high);
            json!({
                "name": null, "status": "unmapped", "mode": "nat", "port_translators": [],
                "public_ip": address, "public_ipv4": address,
                "fqdn": name_in(REGION, id),
                "interface": null, "server": null, "load_balancer": null, "server_group": null,
                "database_server": null,
            })
        }
    };
    value["created_at"] = json!(CREATED_AT);
    value
}
