//! What there is, to be compared with another end.

use serde_json::{Value, json};

use super::kind::Kind;
use super::state::State;
use crate::snapshot::{CloudState, fields, sorted};

/// What differs from run to run although nobody has changed it.
const OF_CONFIG: [&str; 3] = ["id", "nodebalancer_id", "nodes_status"];

/// All NodeBalancers with their configs, nodes and firewalls, and the firewalls and reserved addresses that
/// nothing has.
pub(super) fn of(state: &State) -> CloudState {
    let values = |kind: Kind| state.rows(kind).iter().map(|row| row.value());
    let idle = values(Kind::Firewall).filter(|firewall| firewall["entities"] == json!([]));
    let addresses = values(Kind::ReservedIp).filter(|ip| ip["assigned_entity"].is_null());
    CloudState::of(json!({
        "load_balancers": sorted(values(Kind::NodeBalancer).map(|value| balancer(state, value))),
        "idle_firewalls": sorted(idle.map(firewall)),
        "idle_addresses": sorted(addresses.map(|ip| ip["address"].clone())),
    }))
}

fn balancer(state: &State, value: &Value) -> Value {
    let id = value["id"].as_u64().unwrap_or_default();
    let names = [
        "region",
        "type",
        "tags",
        "client_conn_throttle",
        "client_udp_sess_throttle",
        "frontend_address_type",
    ];
    let mut shown = fields(value, &names);
    shown["name"] = value["label"].clone();
    let configs = state.referring(Kind::Config, "nodebalancer_id", id);
    shown["configs"] = sorted(configs.map(|value| config(state, value)));
    let firewalls = state.rows(Kind::Firewall).iter().map(|row| row.value());
    let protects = |firewall: &&Value| {
        let entities = firewall["entities"].as_array();
        let mut entities = entities.into_iter().flatten();
        entities.any(|entity| entity["type"] == "nodebalancer" && entity["id"] == id)
    };
    shown["firewalls"] = sorted(firewalls.filter(protects).map(firewall));
    shown
}

fn config(state: &State, value: &Value) -> Value {
    let id = value["id"].as_u64().unwrap_or_default();
    let mut shown = value.clone();
    if let Some(shown) = shown.as_object_mut() {
        shown.retain(|field, _| !OF_CONFIG.contains(&field.as_str()));
    }
    let family = if value["protocol"] == "udp" {
        "udp"
    } else {
        "tcp"
    };
    shown["name"] = json!(format!("{family}/{}", value["port"]));
    let nodes = state.referring(Kind::Node, "config_id", id);
    let nodes = nodes.map(|node| fields(node, &["label", "address", "weight", "mode"]));
    shown["nodes"] = sorted(nodes);
    shown
}

fn firewall(value: &Value) -> Value {
    let mut shown = fields(value, &["status", "tags"]);
    shown["name"] = value["label"].clone();
    let rules = ["inbound", "inbound_policy", "outbound", "outbound_policy"];
    shown["rules"] = fields(&value["rules"], &rules);
    shown
}
