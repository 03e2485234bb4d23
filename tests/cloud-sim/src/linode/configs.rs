//! `/nodebalancers/{id}/configs`: the ports of a NodeBalancer.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::{get, post};
use http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};

use super::answers::{Answer, Errors, Refusal, done};
use super::api::{Handle, listing, shown};
use super::backends::Backends;
use super::config_nodes;
use super::config_rules;
use super::instance::merge;
use super::kind::Kind;
use super::lock;
use super::state::State;
use super::strict::{self, Field, Is, May, Must};

const FILTERS: &[&str] = &["id", "port", "protocol"];
/// The nodes that a new NodeBalancer gives its configs.
const NODES: &[Field] = &[Field("nodes", Is::Objects(config_nodes::FIELDS), May)];
const REBUILT: &[Field] = &[Field("nodes", Is::Objects(config_nodes::REBUILT), Must)];

type ConfigPath = Path<(String, String)>;

/// An object of a request, and the prefix by which errors name its fields.
pub(super) type Named<'a> = (String, &'a Map<String, Value>);

pub(super) fn routes() -> Router<Handle> {
    Router::new()
        .route("/nodebalancers/{id}/configs", get(list).post(create))
        .route(
            "/nodebalancers/{id}/configs/{config}",
            get(one).put(update).delete(delete),
        )
        .route(
            "/nodebalancers/{id}/configs/{config}/rebuild",
            post(rebuild),
        )
}

/// A config of this NodeBalancer.
pub(super) fn existing<'a>(
    state: &'a State,
    balancer: &str,
    config: &str,
) -> Result<&'a Value, Refusal> {
    let balancer = &state.existing(Kind::NodeBalancer, balancer)?["id"];
    let config = state.rows(Kind::Config).value(config);
    if config["nodebalancer_id"] == *balancer {
        Ok(config)
    } else {
        Err(Refusal::not_found())
    }
}

/// What is wrong with the nodes of a config that there is.
pub(super) fn check_nodes(state: &State, config: &Value, nodes: &[Named<'_>], errors: &mut Errors) {
    let balancer = &config["nodebalancer_id"];
    let backends = Backends::of_node_balancer(state, balancer.as_u64().unwrap_or_default());
    for (prefix, node) in nodes {
        let is_udp = config["protocol"] == "udp";
        config_nodes::check(prefix, node, &backends, is_udp, errors);
    }
}

/// Whether a config may have so many nodes.
pub(super) fn check_count(state: &State, config: &Value, count: usize, errors: &mut Errors) {
    let balancer = config["nodebalancer_id"].to_string();
    let most = most_nodes(&state.rows(Kind::NodeBalancer).value(&balancer)["type"]);
    if count > most {
        errors.add("nodes", format!("A config has at most {most} nodes"));
    }
}

fn most_nodes(kind: &Value) -> usize {
    if kind
        .as_str()
        .is_some_and(|kind| kind.starts_with("premium"))
    {
        2000
    } else {
        1000
    }
}

/// What is wrong with the configs of a new NodeBalancer.
pub(super) fn check_all(
    given: &Map<String, Value>,
    kind: &Value,
    backends: &Backends,
    errors: &mut Errors,
) {
    let mut before: Vec<Value> = Vec::new();
    for (prefix, given) in strict::objects(given.get("configs"), "configs") {
        let written = strict::given(given, config_rules::FIELDS);
        let config = config_rules::resolved(None, &written);
        config_rules::check(&prefix, &config, &written, before.iter(), errors);
        strict::check(&prefix, given, NODES, errors);
        let nodes = strict::objects(given.get("nodes"), &format!("{prefix}nodes"));
        for (prefix, node) in &nodes {
            let node = strict::given(node, config_nodes::FIELDS);
            let is_udp = config["protocol"] == "udp";
            config_nodes::check(prefix, &node, backends, is_udp, errors);
        }
        let most = most_nodes(kind);
        if nodes.len() > most {
            let reason = format!("A config has at most {most} nodes");
            errors.add(format!("{prefix}nodes"), reason);
        }
        before.push(config);
    }
}

/// Gives a NodeBalancer a config with its nodes.
pub(super) fn add(state: &mut State, balancer: u64, given: &Map<String, Value>) -> u64 {
    let config = config_rules::resolved(None, &strict::given(given, config_rules::FIELDS));
    let id = add_alone(state, balancer, None, config);
    for (_, node) in strict::objects(given.get("nodes"), "nodes") {
        config_nodes::put(state, id, None, &strict::given(node, config_nodes::FIELDS));
    }
    state.count_nodes(id);
    id
}

/// Gives a NodeBalancer a config with its nodes, all of them as the API shows them.
pub(super) fn add_as_shown(state: &mut State, balancer: u64, given: &Map<String, Value>) {
    let mut config = config_rules::resolved(None, &strict::given(given, config_rules::FIELDS));
    let mut fields = given.clone();
    let nodes = fields.remove("nodes");
    merge(&mut config, &Value::Object(fields));
    let id = given.get("id").and_then(Value::as_u64);
    let id = add_alone(state, balancer, id, config);
    for (_, node) in strict::objects(nodes.as_ref(), "nodes") {
        let own = node.get("id").and_then(Value::as_u64);
        let own = config_nodes::put(state, id, own, node);
        if let Some(status) = node.get("status").and_then(Value::as_str) {
            state.show_node_status(&own.to_string(), status);
        }
    }
    state.count_nodes(id);
}

fn add_alone(state: &mut State, balancer: u64, id: Option<u64>, mut config: Value) -> u64 {
    let id = state.id(&json!({ "id": id }));
    config["id"] = json!(id);
    config["nodebalancer_id"] = json!(balancer);
    state.rows_mut(Kind::Config).add(id.to_string(), config);
    id
}

async fn list(
    Shared(state): Shared<Handle>,
    Path(balancer): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let mut state = lock(&state);
    state.settle();
    let balancer = &state.existing(Kind::NodeBalancer, &balancer)?["id"];
    let configs = state.rows(Kind::Config).iter();
    let configs = configs.filter(|config| config.value()["nodebalancer_id"] == *balancer);
    Ok(listing(configs, FILTERS, &headers, &uri))
}

/// A new config. Nodes that come with it are ignored: only a rebuild takes them.
async fn create(
    Shared(state): Shared<Handle>,
    Path(balancer): Path<String>,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let balancer = state.existing(Kind::NodeBalancer, &balancer)?["id"].as_u64();
    let balancer = balancer.unwrap_or_default();
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, config_rules::FIELDS, &mut errors);
    let given = strict::given(&given, config_rules::FIELDS);
    let config = config_rules::resolved(None, &given);
    let others = state.referring(Kind::Config, "nodebalancer_id", balancer);
    config_rules::check("", &config, &given, others, &mut errors);
    errors.into_result()?;
    let id = add(&mut state, balancer, &given);
    shown(state.rows(Kind::Config).get(&id.to_string()))
}

async fn one(Shared(state): Shared<Handle>, Path((balancer, config)): ConfigPath) -> Answer {
    let mut state = lock(&state);
    state.settle();
    existing(&state, &balancer, &config)?;
    shown(state.rows(Kind::Config).get(&config))
}

async fn update(
    Shared(state): Shared<Handle>,
    Path((balancer, config)): ConfigPath,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    let changed = changed(&state, &balancer, &config, &given, &mut errors)?;
    errors.into_result()?;
    state
        .rows_mut(Kind::Config)
        .change(&config, |config| *config = changed);
    shown(state.rows(Kind::Config).get(&config))
}

/// A config as a request changes it.
fn changed(
    state: &State,
    balancer: &str,
    config: &str,
    given: &Map<String, Value>,
    errors: &mut Errors,
) -> Result<Value, Refusal> {
    let before = existing(state, balancer, config)?;
    strict::check("", given, config_rules::FIELDS, errors);
    let given = strict::given(given, config_rules::FIELDS);
    let changed = config_rules::resolved(Some(before), &given);
    let balancer = before["nodebalancer_id"].as_u64().unwrap_or_default();
    let others = state.referring(Kind::Config, "nodebalancer_id", balancer);
    let others = others.filter(|other| other["id"] != before["id"]);
    config_rules::check("", &changed, &given, others, errors);
    Ok(changed)
}

/// A config and all of its nodes at once. Nodes with an id stay, those without are new, and the
/// others go.
async fn rebuild(
    Shared(state): Shared<Handle>,
    Path((balancer, config)): ConfigPath,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    let changed = changed(&state, &balancer, &config, &given, &mut errors)?;
    strict::check("", &given, REBUILT, &mut errors);
    let id = changed["id"].as_u64().unwrap_or_default();
    let sent = strict::objects(given.get("nodes"), "nodes");
    let nodes: Vec<(String, Option<u64>, Map<String, Value>)> = sent
        .into_iter()
        .map(|(prefix, node)| {
            let id = node.get("id").and_then(Value::as_u64);
            (prefix, id, strict::given(node, config_nodes::FIELDS))
        })
        .collect();
    let named: Vec<Named<'_>> = nodes
        .iter()
        .map(|(prefix, _, node)| (prefix.clone(), node))
        .collect();
    check_nodes(&state, &changed, &named, &mut errors);
    check_count(&state, &changed, named.len(), &mut errors);
    let old: Vec<u64> = state
        .referring(Kind::Node, "config_id", id)
        .filter_map(|node| node["id"].as_u64())
        .collect();
    for (prefix, node, _) in &nodes {
        if node.is_some_and(|node| !old.contains(&node)) {
            errors.add(format!("{prefix}id"), "The config has no such node");
        }
    }
    errors.into_result()?;
    state
        .rows_mut(Kind::Config)
        .change(&config, |config| *config = changed);
    for gone in old
        .iter()
        .filter(|id| !nodes.iter().any(|node| node.1 == Some(**id)))
    {
        state.rows_mut(Kind::Node).remove(&gone.to_string());
    }
    for (_, node, given) in &nodes {
        config_nodes::put(&mut state, id, *node, given);
    }
    state.count_nodes(id);
    shown(state.rows(Kind::Config).get(&config))
}

async fn delete(Shared(state): Shared<Handle>, Path((balancer, config)): ConfigPath) -> Answer {
    let mut state = lock(&state);
    let id = existing(&state, &balancer, &config)?["id"].clone();
    state.rows_mut(Kind::Config).remove(&config);
    let nodes = state.rows_mut(Kind::Node);
    nodes.remove_where(|node| node["config_id"] == id);
    Ok(done())
}
