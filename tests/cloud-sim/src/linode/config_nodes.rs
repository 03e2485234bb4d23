//! `/nodebalancers/{id}/configs/{id}/nodes`: the backends of a config.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::get;
use http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};

use super::answers::{Answer, Errors, Refusal, done};
use super::api::{Handle, listing, shown};
use super::backends::Backends;
use super::configs;
use super::kind::Kind;
use super::lock;
use super::state::State;
use super::strict::{self, Field, Is, May, Must};

const FILTERS: &[&str] = &["id", "label", "address", "mode", "weight"];

pub(super) const FIELDS: &[Field] = &[
    Field("label", Is::Label("."), Must),
    Field("address", Is::Text, Must),
    Field("weight", Is::Number(1, 255), May),
    Field(
        "mode",
        Is::OneOf(&["accept", "reject", "drain", "backup", "none"]),
        May,
    ),
    Field("subnet_id", Is::Id, May),
];

/// A node of a rebuild: an id says which one it is.
pub(super) const REBUILT: &[Field] = &[
    Field("id", Is::Id, May),
    FIELDS[0],
    FIELDS[1],
    FIELDS[2],
    FIELDS[3],
    FIELDS[4],
];

const CHANGED: &[Field] = &[
    Field("label", Is::Label("."), May),
    Field("address", Is::Text, May),
    FIELDS[2],
    FIELDS[3],
    FIELDS[4],
];

type ConfigPath = Path<(String, String)>;
type NodePath = Path<(String, String, String)>;

pub(super) fn routes() -> Router<Handle> {
    let nodes = "/nodebalancers/{id}/configs/{config}/nodes";
    Router::new().route(nodes, get(list).post(create)).route(
        &format!("{nodes}/{{node}}"),
        get(one).put(update).delete(delete),
    )
}

/// What is wrong with a node, apart from what its fields may hold.
pub(super) fn check(
    prefix: &str,
    node: &Map<String, Value>,
    backends: &Backends,
    is_udp: bool,
    errors: &mut Errors,
) {
    let text = |field: &str| node.get(field).and_then(Value::as_str);
    let subnet = node.get("subnet_id").and_then(Value::as_u64);
    let address = text("address");
    if let Some((field, reason)) = address.and_then(|a| backends.address_error(a, subnet)) {
        errors.add(format!("{prefix}{field}"), reason);
    }
    let mode = text("mode");
    if mode.is_some_and(|mode| is_udp != (mode == "none")) {
        let reason = if is_udp {
            "Nodes of a udp config have no mode"
        } else {
            "Must be one of accept, reject, drain, backup"
        };
        errors.add(format!("{prefix}mode"), reason);
    }
}

/// Puts a node into a config, under this id if there is one; gives its id. Who calls it counts the
/// nodes of the config afterwards.
pub(super) fn put(
    state: &mut State,
    config: u64,
    id: Option<u64>,
    given: &Map<String, Value>,
) -> u64 {
    let shown = state.rows(Kind::Config).value(&config.to_string());
    let balancer = shown["nodebalancer_id"].clone();
    let mode = if shown["protocol"] == "udp" {
        "none"
    } else {
        "accept"
    };
    let attached = given.get("subnet_id").and_then(|subnet| {
        let balancer = balancer.as_u64()?;
        let mut all = state.referring(Kind::NodeBalancerVpc, "nodebalancer_id", balancer);
        let attached = all.find(|vpc| vpc["subnet_id"] == *subnet && vpc["purpose"] == "backend");
        Some(attached?["id"].clone())
    });
    let or = |field: &str, default: Value| given.get(field).cloned().unwrap_or(default);
    let id = state.id(&json!({ "id": id }));
    let is_new = state.rows(Kind::Node).get(&id.to_string()).is_none();
    let value = json!({
        "id": id,
        "address": or("address", Value::Null),
        "label": or("label", Value::Null),
        "status": "Unknown",
        "weight": or("weight", json!(100)),
        "mode": or("mode", json!(mode)),
        "config_id": config,
        "nodebalancer_id": balancer,
        "vpc_config_id": attached,
    });
    let nodes = state.rows_mut(Kind::Node);
    if is_new {
        nodes.add(id.to_string(), value);
    } else {
        nodes.change(&id.to_string(), |node| {
            let is_same = node["address"] == value["address"];
            let status = node["status"].clone();
            *node = value;
            if is_same {
                node["status"] = status;
            }
        });
    }
    id
}

async fn list(
    Shared(state): Shared<Handle>,
    Path((balancer, config)): ConfigPath,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let mut state = lock(&state);
    state.settle();
    let config = configs::existing(&state, &balancer, &config)?["id"].clone();
    let nodes = state.rows(Kind::Node).iter();
    let nodes = nodes.filter(|node| node.value()["config_id"] == config);
    Ok(listing(nodes, FILTERS, &headers, &uri))
}

async fn create(
    Shared(state): Shared<Handle>,
    Path((balancer, config)): ConfigPath,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let config = configs::existing(&state, &balancer, &config)?.clone();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, FIELDS, &mut errors);
    let given = strict::given(&given, FIELDS);
    configs::check_nodes(&state, &config, &[(String::new(), &given)], &mut errors);
    let id = config["id"].as_u64().unwrap_or_default();
    let count = state.referring(Kind::Node, "config_id", id).count();
    configs::check_count(&state, &config, count + 1, &mut errors);
    errors.into_result()?;
    let node = put(&mut state, id, None, &given);
    state.count_nodes(id);
    shown(state.rows(Kind::Node).get(&node.to_string()))
}

async fn one(Shared(state): Shared<Handle>, Path((balancer, config, node)): NodePath) -> Answer {
    let mut state = lock(&state);
    state.settle();
    existing(&state, &balancer, &config, &node)?;
    shown(state.rows(Kind::Node).get(&node))
}

async fn update(
    Shared(state): Shared<Handle>,
    Path((balancer, config, node)): NodePath,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let before = existing(&state, &balancer, &config, &node)?.clone();
    let config = configs::existing(&state, &balancer, &config)?.clone();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, CHANGED, &mut errors);
    let mut merged = strict::given(before.as_object().unwrap_or(&Map::new()), FIELDS);
    let attached = state.rows(Kind::NodeBalancerVpc);
    let attached = attached.value(&before["vpc_config_id"].to_string())["subnet_id"].clone();
    if !attached.is_null() {
        merged.insert("subnet_id".to_owned(), attached);
    }
    merged.extend(strict::given(&given, FIELDS));
    configs::check_nodes(&state, &config, &[(String::new(), &merged)], &mut errors);
    errors.into_result()?;
    let id = config["id"].as_u64().unwrap_or_default();
    put(&mut state, id, before["id"].as_u64(), &merged);
    state.count_nodes(id);
    shown(state.rows(Kind::Node).get(&node))
}

async fn delete(Shared(state): Shared<Handle>, Path((balancer, config, node)): NodePath) -> Answer {
    let mut state = lock(&state);
    let config = existing(&state, &balancer, &config, &node)?["config_id"].as_u64();
    state.rows_mut(Kind::Node).remove(&node);
    state.count_nodes(config.unwrap_or_default());
    Ok(done())
}

fn existing<'a>(
    state: &'a State,
    balancer: &str,
    config: &str,
    node: &str,
) -> Result<&'a Value, Refusal> {
    let config = &configs::existing(state, balancer, config)?["id"];
    let node = state.rows(Kind::Node).value(node);
    if node["config_id"] == *config {
        Ok(node)
    } else {
        Err(Refusal::not_found())
    }
}
