//! What must be true of the load balancer around an object that is made or changed.

use serde_json::{Map, Value};

use super::answers::Refusal;
use super::behaviour::port;
use super::kind::Kind;
use super::objects::referred;
use super::state::State;

/// The load balancer that something new becomes a part of.
pub(super) fn parent(
    state: &State,
    kind: Kind,
    given: &Map<String, Value>,
) -> Result<String, Refusal> {
    let (field, of) = match kind {
        Kind::Pool => ("load_balancer", Kind::LoadBalancer),
        _ => ("pool", Kind::Pool),
    };
    let uuid = given.get(field).and_then(referred).unwrap_or_default();
    let parent = state.load_balancer_of(of, &uuid);
    parent.ok_or_else(|| Refusal::field(field, "Object does not exist."))
}

/// Whether there is room for something new.
pub(super) fn admit(state: &State, kind: Kind, given: &Map<String, Value>) -> Result<(), Refusal> {
    let balancer = parent(state, kind, given)?;
    let pool = given.get("pool").and_then(referred).unwrap_or_default();
    let of = |field: &str| given.get(field).unwrap_or(&Value::Null);
    match kind {
        Kind::Listener => {
            let wanted = (
                balancer.clone(),
                of("protocol").as_str().unwrap_or_default().to_owned(),
                of("protocol_port").as_u64().unwrap_or_default(),
            );
            let mut listeners = state.referring(Kind::Listener, "load_balancer", &balancer);
            let taken = listeners.any(|listener| port(listener).as_ref() == Some(&wanted));
            if taken || state.lingering.iter().any(|(port, _)| *port == wanted) {
                let detail = "Another listener of this load balancer uses this protocol and port.";
                return Err(Refusal::detail(detail));
            }
        }
        Kind::Member => {
            let mut members = state.referring(Kind::Member, "pool", &pool);
            let is_same = |member: &Value| {
                member["address"] == *of("address")
                    && member["protocol_port"] == *of("protocol_port")
            };
            if members.any(is_same) {
                let detail = "Another member of this pool has this address and port.";
                return Err(Refusal::detail(detail));
            }
        }
        Kind::HealthMonitor => {
            if state
                .referring(Kind::HealthMonitor, "pool", &pool)
                .next()
                .is_some()
            {
                let detail = "This pool has a health monitor already.";
                return Err(Refusal::field("pool", detail));
            }
            agrees(of("http"))?;
        }
        _ => {}
    }
    Ok(())
}

/// Whether an object can be changed by this.
pub(super) fn admit_change(
    state: &State,
    kind: Kind,
    key: &str,
    given: &Map<String, Value>,
) -> Result<(), Refusal> {
    let Some(changed) = given.get("http").filter(|_| kind == Kind::HealthMonitor) else {
        return Ok(());
    };
    let mut options = state.rows(kind).value(key)["http"].clone();
    if options.is_null() {
        let detail = "Only monitors of type http and https have these options.";
        return Err(Refusal::field("http", detail));
    }
    overlay(&mut options, changed);
    agrees(&options)
}

/// Puts what has changed into an object; HTTP options one by one.
pub(super) fn apply(object: &mut Value, given: &Map<String, Value>) {
    for (field, value) in given {
        if field == "http" {
            overlay(&mut object[field], value);
        } else {
            object[field] = value.clone();
        }
    }
}

fn overlay(options: &mut Value, changed: &Value) {
    for (name, value) in changed.as_object().into_iter().flatten() {
        options[name] = value.clone();
    }
}

/// HTTP 1.0 knows no host.
fn agrees(options: &Value) -> Result<(), Refusal> {
    let has_host = options.get("host").is_some_and(|host| !host.is_null());
    if has_host && options["version"] == "1.0" {
        return Err(Refusal::field("host", "HTTP 1.0 knows no host."));
    }
    Ok(())
}
