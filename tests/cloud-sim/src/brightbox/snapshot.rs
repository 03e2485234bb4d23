//! What there is, to be compared with another end.

use serde_json::{Value, json};

use super::kind::Kind;
use super::state::State;
use crate::snapshot::{CloudState, fields, sorted};

/// All load balancers with their Cloud IPs, all server groups and firewall policies, and the Cloud IPs that
/// lead to no load balancer.
pub(super) fn of(state: &State) -> CloudState {
    let shown = |kind: Kind| {
        let all = state.rows(kind).iter();
        all.map(move |row| state.shown(kind, row.key()))
    };
    let living = shown(Kind::LoadBalancer).filter(|one| one["status"] != "deleted");
    let idle = shown(Kind::CloudIp).filter(|ip| ip["load_balancer"].is_null());
    CloudState::of(json!({
        "load_balancers": sorted(living.map(|one| balancer(&one))),
        "server_groups": sorted(shown(Kind::ServerGroup).map(|one| group(&one))),
        "firewall_policies": sorted(shown(Kind::FirewallPolicy).map(|one| policy(&one))),
        "idle_cloud_ips": sorted(idle.map(|ip| fields(&ip, &["name"]))),
    }))
}

fn balancer(value: &Value) -> Value {
    let mut shown = fields(value, &["name", "policy", "https_redirect", "healthcheck"]);
    shown["listeners"] = by_text(&value["listeners"], |one| one.clone());
    shown["nodes"] = by_text(&value["nodes"], |node| node["id"].clone());
    shown["domains"] = by_text(&value["acme"]["domains"], |one| one["identifier"].clone());
    shown["cloud_ips"] = by_text(&value["cloud_ips"], |ip| fields(ip, &["name"]));
    shown
}

fn group(value: &Value) -> Value {
    let mut shown = fields(value, &["name"]);
    shown["servers"] = by_text(&value["servers"], |server| server["id"].clone());
    shown
}

fn policy(value: &Value) -> Value {
    let mut shown = fields(value, &["name"]);
    shown["server_group"] = value["server_group"]["name"].clone();
    let names = ["protocol", "source", "destination_port", "description"];
    shown["rules"] = by_text(&value["rules"], |rule| fields(rule, &names));
    shown
}

/// A list in an order that says nothing.
fn by_text(list: &Value, of: impl Fn(&Value) -> Value) -> Value {
    let mut all: Vec<Value> = list.as_array().into_iter().flatten().map(of).collect();
    all.sort_by_cached_key(ToString::to_string);
    Value::Array(all)
}
