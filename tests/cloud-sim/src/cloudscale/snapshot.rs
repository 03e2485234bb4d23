//! What there is, to be compared with another end.

use serde_json::{Value, json};

use super::kind::Kind;
use super::state::State;
use crate::snapshot::{CloudState, fields, sorted};

/// All load balancers with their parts, and the floating IPs that no load balancer has.
pub(super) fn of(state: &State) -> CloudState {
    let balancers = state.rows(Kind::LoadBalancer).iter();
    let balancers = sorted(balancers.map(|row| balancer(state, row.key(), row.value())));
    let ips = state.rows(Kind::FloatingIp).iter().map(|row| row.value());
    let idle = ips.filter(|ip| ip["load_balancer"].is_null());
    let idle = sorted(idle.map(|ip| ip["network"].clone()));
    CloudState::of(json!({ "load_balancers": balancers, "idle_floating_ips": idle }))
}

fn balancer(state: &State, uuid: &str, value: &Value) -> Value {
    let mut shown = fields(value, &["name", "tags"]);
    shown["zone"] = value["zone"]["slug"].clone();
    shown["flavor"] = value["flavor"]["slug"].clone();
    let vips = value["vip_addresses"].as_array().into_iter().flatten();
    shown["vip_addresses"] = vips.map(vip).collect();
    let ips = state.referring(Kind::FloatingIp, "load_balancer", uuid);
    shown["floating_ips"] = sorted(ips.map(|ip| ip["network"].clone()));
    let pools = state.referring(Kind::Pool, "load_balancer", uuid);
    shown["pools"] = sorted(pools.map(|value| pool(state, value)));
    let listeners = state.referring(Kind::Listener, "load_balancer", uuid);
    let loose = listeners.filter(|listener| listener["pool"].is_null());
    shown["loose_listeners"] = sorted(loose.map(listener));
    shown
}

/// A private address is chosen by whoever asks for it, a public one is not.
fn vip(vip: &Value) -> Value {
    match vip["subnet"]["uuid"].as_str() {
        Some(subnet) => json!({ "subnet": subnet, "address": vip["address"] }),
        None => json!({ "public": vip["version"] }),
    }
}

fn pool(state: &State, value: &Value) -> Value {
    let uuid = value["uuid"].as_str().unwrap_or_default();
    let mut shown = fields(value, &["name", "algorithm", "protocol", "tags"]);
    let members = state.referring(Kind::Member, "pool", uuid);
    shown["members"] = sorted(members.map(member));
    let listeners = state.referring(Kind::Listener, "pool", uuid);
    shown["listeners"] = sorted(listeners.map(listener));
    let mut monitors = state.referring(Kind::HealthMonitor, "pool", uuid);
    shown["health_monitor"] = monitors.next().map_or(Value::Null, monitor);
    shown
}

fn member(value: &Value) -> Value {
    let mut shown = fields(
        value,
        &[
            "name",
            "enabled",
            "address",
            "protocol_port",
            "monitor_port",
            "tags",
        ],
    );
    shown["subnet"] = value["subnet"]["uuid"].clone();
    shown
}

fn listener(value: &Value) -> Value {
    fields(
        value,
        &[
            "name",
            "protocol",
            "protocol_port",
            "allowed_cidrs",
            "timeout_client_data_ms",
            "timeout_member_connect_ms",
            "timeout_member_data_ms",
            "tags",
        ],
    )
}

fn monitor(value: &Value) -> Value {
    fields(
        value,
        &[
            "type",
            "delay_s",
            "timeout_s",
            "up_threshold",
            "down_threshold",
            "http",
            "tags",
        ],
    )
}
