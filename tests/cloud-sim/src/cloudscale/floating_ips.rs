//! Floating IPs: they move from whatever holds them, and never come or go.

use serde_json::{Map, Value};

use super::answers::Refusal;
use super::kind::Kind;
use super::objects::referred;
use super::state::State;

/// Puts a floating IP onto a load balancer or a server, or changes its tags.
pub(super) fn patch(
    state: &mut State,
    key: &str,
    given: &Map<String, Value>,
) -> Result<(), Refusal> {
    for (field, kind) in [
        ("load_balancer", Kind::LoadBalancer),
        ("server", Kind::Server),
    ] {
        if let Some(uuid) = given.get(field).and_then(referred) {
            return assign(state, key, field, kind, &uuid);
        }
    }
    state.change(Kind::FloatingIp, key, |ip| super::parts::apply(ip, given));
    Ok(())
}

fn assign(
    state: &mut State,
    key: &str,
    field: &str,
    kind: Kind,
    uuid: &str,
) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::field(field, message));
    let Some(stub) = state.stub(kind, uuid) else {
        return refuse("Object does not exist.");
    };
    let holder = state.rows(kind).value(uuid);
    if kind == Kind::LoadBalancer && has_private_vip(holder) {
        return refuse("A load balancer with a private VIP takes no floating IPs.");
    }
    let zone = holder["zone"]["slug"].as_str().unwrap_or_default();
    let region = zone.trim_end_matches(|c: char| c.is_ascii_digit());
    let ip = state.rows(Kind::FloatingIp).value(key);
    if ip["type"] == "regional" && ip["region"]["slug"] != region {
        return refuse("This floating IP belongs to another region.");
    }
    let version = ip["ip_version"].clone();
    let vips = holder["vip_addresses"].as_array().into_iter().flatten();
    let mut hops = vips.filter(|vip| vip["version"] == version);
    let next_hop = hops
        .next()
        .map_or(Value::Null, |vip| vip["address"].clone());
    state.change(Kind::FloatingIp, key, |ip| {
        ip["load_balancer"] = Value::Null;
        ip["server"] = Value::Null;
        ip[field] = stub;
        ip["next_hop"] = next_hop;
    });
    Ok(())
}

fn has_private_vip(balancer: &Value) -> bool {
    let vips = balancer["vip_addresses"].as_array().into_iter().flatten();
    vips.into_iter().any(|vip| !vip["subnet"].is_null())
}
