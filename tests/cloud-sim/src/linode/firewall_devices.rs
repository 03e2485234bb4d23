//! `/networking/firewalls/{id}/devices` and `/nodebalancers/{id}/firewalls`: what firewalls are
//! attached to.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::access::Entity;
use super::answers::{Answer, Errors, Refusal, done};
use super::api::{Handle, listing, shown};
use super::firewalls;
use super::kind::Kind;
use super::lock;
use super::state::{CREATED, State};
use super::strict::{self, Field, Is, Must};

const FILTERS: &[&str] = &["id"];
const NEW: &[Field] = &[
    Field("id", Is::Id, Must),
    Field(
        "type",
        Is::OneOf(&["linode", "nodebalancer", "linode_interface"]),
        Must,
    ),
];
const REPLACED: &[Field] = &[Field("firewall_ids", Is::Ids, Must)];

pub(super) fn routes() -> Router<Handle> {
    let devices = "/networking/firewalls/{id}/devices";
    Router::new()
        .route(devices, get(list).post(create))
        .route(&format!("{devices}/{{device}}"), get(one).delete(delete))
        .route(
            "/nodebalancers/{id}/firewalls",
            get(of_node_balancer).put(replace),
        )
}

/// Whether something can be attached to a firewall that there is, or to a new one.
pub(super) fn check(
    state: &State,
    field: &str,
    firewall: Option<&str>,
    kind: &str,
    id: u64,
    errors: &mut Errors,
) {
    let key = id.to_string();
    let there = match kind {
        "nodebalancer" => {
            let there = state.rows(Kind::NodeBalancer).get(&key).is_some();
            there && state.access.sees(Entity::NodeBalancer, &key)
        }
        "linode" => {
            let there = state.instances.get(&key).is_some();
            there && state.access.sees(Entity::Linode, &key)
        }
        // Whose interfaces they are is not simulated.
        _ => true,
    };
    if !there {
        return errors.add(field, format!("There is no such {kind}"));
    }
    let attached: Vec<&str> = firewalls_of(state, kind, id).collect();
    if firewall.is_some_and(|firewall| attached.contains(&firewall)) {
        errors.add(field, format!("The {kind} is attached to this firewall"));
    } else if !attached.is_empty() && !state.behaviour.several_firewalls {
        let reason = format!("The {kind} is attached to another firewall");
        errors.add(field, reason);
    }
}

/// The firewalls that something is attached to.
fn firewalls_of<'a>(state: &'a State, kind: &'a str, id: u64) -> impl Iterator<Item = &'a str> {
    let devices = state.rows(Kind::Device).iter();
    let devices = devices.filter(move |device| is(device.value(), kind, id));
    devices.filter_map(|device| device.key().split('/').next())
}

fn is(device: &Value, kind: &str, id: u64) -> bool {
    device["entity"]["type"] == kind && device["entity"]["id"] == id
}

/// Attaches something to a firewall; gives the key of the device.
pub(super) fn attach(state: &mut State, firewall: u64, kind: &str, id: u64) -> String {
    let device = state.new_id();
    let url = match kind {
        "nodebalancer" => format!("/v4/nodebalancers/{id}"),
        _ => format!("/v4/linode/instances/{id}"),
    };
    let value = json!({
        "id": device, "created": CREATED, "updated": CREATED,
        "entity": { "id": id, "type": kind, "label": null, "url": url, "parent_entity": null },
    });
    let key = format!("{firewall}/{device}");
    state.rows_mut(Kind::Device).add(key.clone(), value);
    show(state);
    key
}

/// Takes something off all firewalls.
pub(super) fn detach_all(state: &mut State, kind: &str, id: u64) {
    let devices = state.rows(Kind::Device).iter();
    let devices = devices.filter(|device| is(device.value(), kind, id));
    let keys: Vec<String> = devices.map(|device| device.key().to_owned()).collect();
    for key in keys {
        state.delete(Kind::Device, &key);
    }
    show(state);
}

/// Takes all devices of a firewall away.
pub(super) fn remove_of(state: &mut State, firewall: &str) {
    for key in keys_of(state, firewall) {
        state.rows_mut(Kind::Device).remove(&key);
    }
    show(state);
}

fn keys_of(state: &State, firewall: &str) -> Vec<String> {
    let devices = state.rows(Kind::Device).iter();
    let keys = devices.map(|device| device.key().to_owned());
    keys.filter(|key| key.split('/').next() == Some(firewall))
        .collect()
}

/// Devices show the labels that things have now, and firewalls show their devices.
pub(super) fn show(state: &mut State) {
    let keys: Vec<String> = state
        .rows(Kind::Device)
        .iter()
        .map(|device| device.key().to_owned())
        .collect();
    for key in &keys {
        let entity = &state.rows(Kind::Device).value(key)["entity"];
        let rows = match entity["type"].as_str() {
            Some("nodebalancer") => state.rows(Kind::NodeBalancer),
            _ => &state.instances,
        };
        let label = rows.value(&entity["id"].to_string())["label"].clone();
        let devices = state.rows_mut(Kind::Device);
        devices.change(key, |device| device["entity"]["label"] = label);
    }
    let firewalls: Vec<String> = state
        .rows(Kind::Firewall)
        .iter()
        .map(|firewall| firewall.key().to_owned())
        .collect();
    for firewall in firewalls {
        let keys = keys_of(state, &firewall);
        let devices = keys.iter().map(|key| state.rows(Kind::Device).value(key));
        let entities: Value = devices.map(|device| device["entity"].clone()).collect();
        let firewalls = state.rows_mut(Kind::Firewall);
        firewalls.change(&firewall, |shown| shown["entities"] = entities);
    }
}

async fn list(
    Shared(state): Shared<Handle>,
    Path(firewall): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let state = lock(&state);
    state.existing(Kind::Firewall, &firewall)?;
    let delisted_after = state.behaviour.detached_after;
    let devices = state.listed(Kind::Device, Duration::ZERO, delisted_after);
    let devices = devices.filter(|device| device.key().split('/').next() == Some(&*firewall));
    Ok(listing(devices, FILTERS, &headers, &uri))
}

async fn create(
    Shared(state): Shared<Handle>,
    Path(firewall): Path<String>,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let id = state.existing(Kind::Firewall, &firewall)?["id"].as_u64();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, NEW, &mut errors);
    let kind = given.get("type").and_then(Value::as_str);
    let entity = given.get("id").and_then(Value::as_u64);
    let (Some(id), Some(kind), Some(entity)) = (id, kind, entity) else {
        errors.into_result()?;
        return Err(Refusal::not_found());
    };
    check(&state, "id", Some(&firewall), kind, entity, &mut errors);
    errors.into_result()?;
    let key = attach(&mut state, id, kind, entity);
    shown(state.rows(Kind::Device).get(&key))
}

type DevicePath = Path<(String, String)>;

async fn one(Shared(state): Shared<Handle>, Path((firewall, device)): DevicePath) -> Answer {
    let state = lock(&state);
    let key = format!("{firewall}/{device}");
    shown(state.rows(Kind::Device).get(&key))
}

async fn delete(Shared(state): Shared<Handle>, Path((firewall, device)): DevicePath) -> Answer {
    let mut state = lock(&state);
    let key = format!("{firewall}/{device}");
    state.existing(Kind::Device, &key)?;
    state.delete(Kind::Device, &key);
    show(&mut state);
    Ok(done())
}

async fn of_node_balancer(
    Shared(state): Shared<Handle>,
    Path(balancer): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let state = lock(&state);
    let id = state.existing(Kind::NodeBalancer, &balancer)?["id"].as_u64();
    Ok(list_of(&state, id.unwrap_or_default(), &headers, &uri))
}

fn list_of(state: &State, balancer: u64, headers: &HeaderMap, uri: &Uri) -> Response {
    let keys: Vec<&str> = firewalls_of(state, "nodebalancer", balancer).collect();
    let firewalls = state.rows(Kind::Firewall).iter();
    let firewalls = firewalls.filter(|firewall| {
        let key = firewall.key();
        keys.contains(&key) && state.access.sees(Entity::Firewall, key)
    });
    listing(firewalls, FILTERS, headers, uri)
}

/// Replaces the firewalls of a NodeBalancer in one request.
async fn replace(
    Shared(state): Shared<Handle>,
    Path(balancer): Path<String>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let id = state.existing(Kind::NodeBalancer, &balancer)?["id"].as_u64();
    let id = id.unwrap_or_default();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, REPLACED, &mut errors);
    let wanted = given.get("firewall_ids").and_then(Value::as_array);
    let wanted: Vec<u64> = wanted
        .into_iter()
        .flatten()
        .filter_map(Value::as_u64)
        .collect();
    for (index, firewall) in wanted.iter().enumerate() {
        if !firewalls::is_there(&state, &firewall.to_string()) {
            let field = format!("firewall_ids[{index}]");
            errors.add(field, "There is no such firewall");
        }
    }
    if wanted.len() > 1 && !state.behaviour.several_firewalls {
        errors.add("firewall_ids", "A NodeBalancer has at most one firewall");
    }
    errors.into_result()?;
    detach_all(&mut state, "nodebalancer", id);
    for firewall in wanted {
        attach(&mut state, firewall, "nodebalancer", id);
    }
    Ok(list_of(&state, id, &headers, &uri))
}
