//! Everything there is, as JSON: what a state file fills in, and what the simulation shows of
//! itself.

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

use super::instance::merge;
use super::kind::Kind;
use super::state::State;
use super::{configs, firewall_devices, firewalls, node_balancers, reserved_ips};

const KEYS: [&str; 5] = [
    "instances",
    "vpcs",
    "node_balancers",
    "firewalls",
    "reserved_ips",
];

/// Fills it from the content of a state file.
pub(super) fn load(state: &mut State, content: &Value) -> Result<()> {
    for key in content.as_object().into_iter().flat_map(Map::keys) {
        if !KEYS.contains(&key.as_str()) {
            bail!("{key}: only these can be given: {}", KEYS.join(", "));
        }
    }
    for instance in list(content, "instances")? {
        state.add_instance(instance.clone());
    }
    for vpc in list(content, "vpcs")? {
        let mut bare = vpc.clone();
        for part in ["subnets", "ips", "ipv6s"] {
            bare.as_object_mut().map(|vpc| vpc.remove(part));
        }
        let id = state.add_vpc(bare);
        for subnet in list(vpc, "subnets")? {
            state.add_subnet(id, subnet.clone());
        }
        for row in list(vpc, "ips")? {
            state.add_vpc_ip(id, row.clone());
        }
        for row in list(vpc, "ipv6s")? {
            state.add_vpc_ipv6(id, row.clone());
        }
    }
    for reserved in list(content, "reserved_ips")? {
        let region = reserved["region"].as_str().unwrap_or("eu-central");
        reserved_ips::reserve(state, region, reserved["address"].as_str());
    }
    for balancer in list(content, "node_balancers")? {
        put_node_balancer(state, balancer);
    }
    for firewall in list(content, "firewalls")? {
        put_firewall(state, firewall);
    }
    Ok(())
}

/// Everything, in the form of a state file.
pub(super) fn shown(state: &State) -> Value {
    let all = |kind: Kind| state.rows(kind).iter().map(|row| row.value());
    let balancers = all(Kind::NodeBalancer).map(|balancer| {
        let id = balancer["id"].as_u64().unwrap_or_default();
        let configs = state.referring(Kind::Config, "nodebalancer_id", id);
        let configs = configs.map(|config| {
            let id = config["id"].as_u64().unwrap_or_default();
            let nodes = state.referring(Kind::Node, "config_id", id).cloned();
            with(config, "nodes", nodes.collect())
        });
        with(balancer, "configs", configs.collect())
    });
    let balancers: Value = balancers.collect();
    let vpcs = state.vpcs.iter().map(|vpc| {
        let of_vpc = vpc.key().parse().ok();
        let of_vpc = of_vpc.and_then(|id: u64| state.of_vpc.get(&id));
        let ips = of_vpc.into_iter().flat_map(|of_vpc| of_vpc.ips.iter());
        with(
            vpc.value(),
            "ips",
            ips.map(|row| row.value().clone()).collect(),
        )
    });
    let vpcs: Value = vpcs.collect();
    let instances = state.instances.iter().map(|row| row.value().clone());
    json!({
        "instances": instances.collect::<Value>(),
        "vpcs": vpcs,
        "node_balancers": balancers,
        "firewalls": all(Kind::Firewall).cloned().collect::<Value>(),
        "reserved_ips": all(Kind::ReservedIp).cloned().collect::<Value>(),
    })
}

fn with(object: &Value, field: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[field] = value;
    object
}

/// A NodeBalancer as the API shows it, with `configs` that have `nodes`; gives its id.
pub(super) fn put_node_balancer(state: &mut State, given: &Value) -> u64 {
    let mut fields = given.as_object().cloned().unwrap_or_default();
    let configs = fields.remove("configs").unwrap_or_default();
    let region = fields.entry("region").or_insert(json!("eu-central"));
    let region = region.clone();
    let id = node_balancers::add(state, &fields, None);
    let balancers = state.rows_mut(Kind::NodeBalancer);
    balancers.change(&id.to_string(), |balancer| {
        merge(balancer, &Value::Object(fields));
        balancer["region"] = region;
    });
    for config in configs.as_array().into_iter().flatten() {
        if let Some(config) = config.as_object() {
            configs::add_as_shown(state, id, config);
        }
    }
    state.record(id);
    id
}

/// A firewall as the API shows it, attached to its `entities`; gives its id.
pub(super) fn put_firewall(state: &mut State, given: &Value) -> u64 {
    let mut fields = given.as_object().cloned().unwrap_or_default();
    let rules = json!({ "inbound_policy": "ACCEPT", "outbound_policy": "ACCEPT" });
    fields.entry("rules").or_insert(rules);
    let id = firewalls::add(state, &fields);
    let firewalls = state.rows_mut(Kind::Firewall);
    firewalls.change(&id.to_string(), |firewall| {
        if let Some(status) = fields.remove("status") {
            firewall["status"] = status;
        }
    });
    for entity in given["entities"].as_array().into_iter().flatten() {
        if let (Some(kind), Some(entity)) = (entity["type"].as_str(), entity["id"].as_u64()) {
            firewall_devices::attach(state, id, kind, entity);
        }
    }
    id
}

fn list<'a>(object: &'a Value, name: &str) -> Result<&'a [Value]> {
    match &object[name] {
        Value::Null => Ok(&[]),
        Value::Array(values) => Ok(values),
        _ => bail!("{name}: write a list"),
    }
}
