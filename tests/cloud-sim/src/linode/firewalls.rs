//! `/networking/firewalls`: firewalls and their rules.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::get;
use http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};

use super::access::Entity;
use super::answers::{Answer, Errors, done, ok};
use super::api::{Handle, listing, shown};
use super::kind::Kind;
use super::lock;
use super::state::{CREATED, State};
use super::strict::{self, Field, Is, May, Must};
use super::{firewall_devices, firewall_rules, node_balancers};

const FILTERS: &[&str] = &["id", "label", "status", "tags"];

const LABEL: Is = Is::Label(".");
const NEW: &[Field] = &[
    Field("label", LABEL, Must),
    Field("rules", Is::Object(firewall_rules::FIELDS), Must),
    Field("tags", Is::Tags, May),
    Field("devices", Is::Object(DEVICES), May),
];
const DEVICES: &[Field] = &[
    Field("linodes", Is::Ids, May),
    Field("nodebalancers", Is::Ids, May),
    Field("linode_interfaces", Is::Ids, May),
];
const CHANGED: &[Field] = &[
    Field("label", LABEL, May),
    Field("status", Is::OneOf(&["enabled", "disabled"]), May),
    Field("tags", Is::Tags, May),
];

pub(super) fn routes() -> Router<Handle> {
    Router::new()
        .route("/networking/firewalls", get(list).post(create))
        .route(
            "/networking/firewalls/{id}",
            get(one).put(update).delete(delete),
        )
        .route(
            "/networking/firewalls/{id}/rules",
            get(rules).put(replace_rules),
        )
}

async fn list(Shared(state): Shared<Handle>, headers: HeaderMap, uri: Uri) -> Answer {
    let state = lock(&state);
    let firewalls = state.rows(Kind::Firewall).iter();
    let firewalls = firewalls.filter(|row| state.access.sees(Entity::Firewall, row.key()));
    Ok(listing(firewalls, FILTERS, &headers, &uri))
}

async fn one(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    shown(lock(&state).rows(Kind::Firewall).get(&id))
}

async fn create(Shared(state): Shared<Handle>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let sent = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &sent, NEW, &mut errors);
    let given = strict::given(&sent, NEW);
    check_label(&state, given.get("label"), None, &mut errors);
    if let Some(rules) = given.get("rules").and_then(Value::as_object) {
        firewall_rules::check("rules.", rules, &mut errors);
    }
    let devices = wanted_devices(&given);
    for (name, kind, id) in &devices {
        firewall_devices::check(&state, name, None, kind, *id, &mut errors);
    }
    errors.into_result()?;
    let id = add(&mut state, &given);
    state.access.made(Entity::Firewall, id);
    for (_, kind, device) in devices {
        firewall_devices::attach(&mut state, id, kind, device);
    }
    shown(state.rows(Kind::Firewall).get(&id.to_string()))
}

/// Whether there is such a firewall for the user.
pub(super) fn is_there(state: &State, id: &str) -> bool {
    let there = state.rows(Kind::Firewall).get(id).is_some();
    there && state.access.sees(Entity::Firewall, id)
}

/// What a new firewall is to be attached to: the field that says so, type and id.
fn wanted_devices(given: &Map<String, Value>) -> Vec<(String, &'static str, u64)> {
    let devices = given.get("devices").unwrap_or(&Value::Null);
    let kinds = [
        ("linodes", "linode"),
        ("nodebalancers", "nodebalancer"),
        ("linode_interfaces", "linode_interface"),
    ];
    let all = kinds.into_iter().flat_map(|(field, kind)| {
        let ids = devices[field].as_array().into_iter().flatten();
        let ids = ids.filter_map(Value::as_u64).enumerate();
        ids.map(move |(index, id)| (format!("devices.{field}[{index}]"), kind, id))
    });
    all.collect()
}

/// Adds a firewall that is attached to nothing; gives its id.
pub(super) fn add(state: &mut State, given: &Map<String, Value>) -> u64 {
    let id = state.id(&json!({ "id": given.get("id") }));
    let rules = given.get("rules").and_then(Value::as_object);
    let rules = firewall_rules::shown(rules.unwrap_or(&Map::new()), 1);
    let label = given.get("label").cloned();
    let label = label.unwrap_or_else(|| json!(format!("firewall{id}")));
    let tags = given.get("tags").unwrap_or(&Value::Null);
    let value = json!({
        "id": id, "label": label, "status": "enabled", "rules": rules,
        "tags": node_balancers::tags(tags, state.behaviour.sorts_tags), "entities": [],
        "created": CREATED, "updated": CREATED,
    });
    state.rows_mut(Kind::Firewall).add(id.to_string(), value);
    id
}

fn check_label(state: &State, label: Option<&Value>, own: Option<&Value>, errors: &mut Errors) {
    let Some(text) = label.and_then(Value::as_str) else {
        return;
    };
    let is_edge = |letter: Option<char>| letter.is_some_and(|l| l.is_ascii_alphanumeric());
    if !is_edge(text.chars().next()) || !is_edge(text.chars().last()) {
        errors.add("label", "Must begin and end with a letter or number");
    }
    if ["--", "__", ".."].iter().any(|twice| text.contains(twice)) {
        errors.add("label", "May not contain --, __ or ..");
    }
    let mut others = state.rows(Kind::Firewall).iter().map(|row| row.value());
    if others.any(|other| other["label"] == text && Some(&other["id"]) != own) {
        errors.add("label", "Label must be unique");
    }
}

async fn update(Shared(state): Shared<Handle>, Path(id): Path<String>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let own = state.existing(Kind::Firewall, &id)?["id"].clone();
    let sent = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &sent, CHANGED, &mut errors);
    check_label(&state, sent.get("label"), Some(&own), &mut errors);
    errors.into_result()?;
    let sorts = state.behaviour.sorts_tags;
    state.rows_mut(Kind::Firewall).change(&id, |firewall| {
        for (field, value) in strict::given(&sent, CHANGED) {
            firewall[&field] = match field.as_str() {
                "tags" => node_balancers::tags(&value, sorts),
                _ => value,
            };
        }
    });
    shown(state.rows(Kind::Firewall).get(&id))
}

/// A firewall goes, also if it is attached to something.
async fn delete(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    let mut state = lock(&state);
    state.existing(Kind::Firewall, &id)?;
    remove(&mut state, &id);
    Ok(done())
}

/// Takes a firewall away with its devices; whether it was there.
pub(super) fn remove(state: &mut State, id: &str) -> bool {
    firewall_devices::remove_of(state, id);
    state.rows_mut(Kind::Firewall).remove(id)
}

async fn rules(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    let state = lock(&state);
    Ok(ok(state.existing(Kind::Firewall, &id)?["rules"].to_string()))
}

async fn replace_rules(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let version = state.existing(Kind::Firewall, &id)?["rules"]["version"].as_u64();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, firewall_rules::FIELDS, &mut errors);
    firewall_rules::check("", &given, &mut errors);
    errors.into_result()?;
    let rules = firewall_rules::shown(&given, version.unwrap_or_default() + 1);
    let answer = ok(rules.to_string());
    let firewalls = state.rows_mut(Kind::Firewall);
    firewalls.change(&id, |firewall| firewall["rules"] = rules);
    Ok(answer)
}
