//! `/linode/instances`: what there is, and new ones.

use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};

use super::access::Entity;
use super::answers::{Answer, Errors, Refusal};
use super::api::{Handle, listing, shown};
use super::node_balancers::tags;
use super::state::State;
use super::strict::{self, Field, Is, May, Must, REGIONS};
use super::{firewall_devices, firewalls, instance_ips, lock};

const FILTERS: &[&str] = &["id", "label", "group", "region", "image", "tags", "ipv4"];
const NEW: &[Field] = &[
    Field("region", Is::OneOf(REGIONS), Must),
    Field("type", Is::Text, Must),
    Field("label", Is::Text, May),
    Field("image", Is::Text, May),
    Field("root_pass", Is::Text, May),
    Field("authorized_keys", Is::Texts, May),
    Field("authorized_users", Is::Texts, May),
    Field("booted", Is::Flag, May),
    Field("private_ip", Is::Flag, May),
    Field("group", Is::Text, May),
    Field("tags", Is::Tags, May),
    Field("firewall_id", Is::Id, May),
    Field(
        "interface_generation",
        Is::OneOf(&["legacy_config", "linode"]),
        May,
    ),
];
const LABEL: std::ops::RangeInclusive<usize> = 3..=64;

pub(super) fn routes() -> Router<Handle> {
    Router::new()
        .route("/linode/instances", get(list).post(create))
        .route("/linode/instances/{id}", get(one))
}

impl State {
    /// New Linodes run, or are off, as soon as they are there.
    pub(super) fn provision(&mut self) {
        let (after, now) = (self.behaviour.provisioned_after, Instant::now());
        let due = self.provisioning.extract_if(.., |(since, ..)| {
            now.saturating_duration_since(*since) >= after
        });
        for (_, id, status) in due.collect::<Vec<_>>() {
            self.instances.change(&id, |instance| {
                if instance["status"] == "provisioning" {
                    instance["status"] = json!(status);
                }
            });
        }
    }
}

async fn list(Shared(state): Shared<Handle>, headers: HeaderMap, uri: Uri) -> Response {
    let mut state = lock(&state);
    state.provision();
    let instances = state.instances.iter();
    let instances = instances.filter(|row| state.access.sees(Entity::Linode, row.key()));
    listing(instances, FILTERS, &headers, &uri)
}

async fn one(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    let mut state = lock(&state);
    state.provision();
    shown(state.instances.get(&id))
}

async fn create(Shared(state): Shared<Handle>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let sent = strict::object(&body)?;
    check(&state, &sent)?;
    let given = strict::given(&sent, NEW);
    let is_booted = given.get("booted").and_then(Value::as_bool);
    let is_booted = is_booted.unwrap_or(given.contains_key("image"));
    let instance = instance(&mut state, &given);
    let id = state.add_instance(instance);
    if let Some(firewall) = firewall(&given) {
        firewall_devices::attach(&mut state, firewall, "linode", id);
    }
    let status = if is_booted { "running" } else { "offline" };
    state
        .provisioning
        .push((Instant::now(), id.to_string(), status));
    state.access.made(Entity::Linode, id);
    shown(state.instances.get(&id.to_string()))
}

fn firewall(given: &Map<String, Value>) -> Option<u64> {
    let id = given.get("firewall_id").and_then(Value::as_u64);
    id.filter(|id| *id != 0)
}

fn check(state: &State, sent: &Map<String, Value>) -> Result<(), Refusal> {
    let mut errors = Errors::default();
    strict::check("", sent, NEW, &mut errors);
    let text = |field: &str| sent.get(field).and_then(Value::as_str);
    if let Some(label) = text("label") {
        check_label(state, label, &mut errors);
    }
    let is_on = |field: &str| sent.get(field) == Some(&json!(true));
    let is_given = |field: &&str| sent.get(*field).is_some_and(|value| !value.is_null());
    let mut ways_in = ["root_pass", "authorized_keys", "authorized_users"].iter();
    if text("image").is_some() && !ways_in.any(is_given) {
        errors.add("root_pass", "root_pass is required");
    }
    if text("root_pass").is_some_and(|secret| !(7..=128).contains(&secret.chars().count())) {
        errors.add("root_pass", "Password must be between 7 and 128 characters");
    }
    if is_on("booted") && text("image").is_none() {
        errors.add("booted", "A Linode without an image cannot be booted");
    }
    if is_on("private_ip") && text("interface_generation") == Some("linode") {
        let reason = "Linodes with Linode Interfaces have no private IPv4 addresses";
        errors.add("private_ip", reason);
    }
    if firewall(sent).is_some_and(|id| !firewalls::is_there(state, &id.to_string())) {
        errors.add("firewall_id", "There is no such firewall");
    }
    errors.into_result()
}

fn check_label(state: &State, label: &str, errors: &mut Errors) {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if !LABEL.contains(&label.chars().count()) {
        errors.add("label", "Length must be 3-64 characters");
    } else if !label.chars().all(is_good) {
        let reason = "May only contain letters, numbers, hyphens, underscores and periods";
        errors.add("label", reason);
    } else if state
        .instances
        .iter()
        .any(|row| row.value()["label"] == label)
    {
        errors.add("label", "Label must be unique among your linodes");
    }
}

/// A new Linode, as the API shows it: on its way, with addresses of its own.
fn instance(state: &mut State, given: &Map<String, Value>) -> Value {
    let (ipv4, ipv6) = state.new_addresses();
    let mut addresses = vec![json!(ipv4)];
    if given.get("private_ip") == Some(&json!(true)) {
        addresses.push(json!(instance_ips::free_private(state)));
    }
    let mut value = json!({
        "status": "provisioning", "ipv4": addresses, "ipv6": format!("{ipv6}/128"), "image": null,
    });
    for field in [
        "region",
        "type",
        "label",
        "image",
        "group",
        "interface_generation",
    ] {
        if let Some(given) = given.get(field) {
            value[field] = given.clone();
        }
    }
    if let Some(given) = given.get("tags") {
        value["tags"] = tags(given, state.behaviour.sorts_tags);
    }
    value
}
