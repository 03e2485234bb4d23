//! `/nodebalancers`: NodeBalancers, and what they have in VPCs.

use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::get;
use axum::{Extension, Router};
use http::{HeaderMap, HeaderValue, Uri};
use serde_json::{Map, Value, json};

use super::access::Entity;
use super::answers::{Answer, Errors, done, ok};
use super::api::{Handle, LacksBeta, listing, shown};
use super::backends::Backends;
use super::kind::Kind;
use super::lock;
use super::state::{CREATED, State};
use super::strict::{self, Field, Is, May, Must, REGIONS};
use super::vpc_ranges::{self, Attachment, BACKEND, FRONTEND};
use super::{config_rules, configs, firewall_devices, firewalls, reserved_ips};

const FILTERS: &[&str] = &[
    "id",
    "label",
    "region",
    "ipv4",
    "ipv6",
    "hostname",
    "tags",
    "client_conn_throttle",
];
const VPC_FILTERS: &[&str] = &["id", "vpc_id", "subnet_id", "purpose"];

const NEW: &[Field] = &[
    Field("region", Is::OneOf(REGIONS), Must),
    Field("label", Is::Label(""), May),
    Field("client_conn_throttle", Is::Number(0, 20), May),
    Field("client_udp_sess_throttle", Is::Number(0, 20), May),
    Field("tags", Is::Tags, May),
    Field(
        "type",
        Is::OneOf(&["common", "premium", "premium_40gb"]),
        May,
    ),
    Field("ipv4", Is::Text, May),
    Field("firewall_id", Is::Id, May),
    Field("configs", Is::Objects(config_rules::FIELDS), May),
    Field("backend_vpcs", Is::Objects(BACKEND), May),
    Field("vpcs", Is::Objects(BACKEND), May),
    Field("frontend_vpcs", Is::Objects(FRONTEND), May),
];
/// What can be changed later. The rest is ignored.
const CHANGED: &[Field] = &[NEW[1], NEW[2], NEW[3], NEW[4]];

/// What a request to `/v4` may not know.
const OF_BETA: [&str; 2] = ["ipv4", "frontend_vpcs"];

pub(super) fn routes() -> Router<Handle> {
    Router::new()
        .route("/nodebalancers", get(list).post(create))
        .route("/nodebalancers/{id}", get(one).put(update).delete(delete))
        .route("/nodebalancers/{id}/stats", get(stats))
        .route("/nodebalancers/{id}/vpcs", get(vpcs))
}

async fn list(Shared(state): Shared<Handle>, headers: HeaderMap, uri: Uri) -> Answer {
    let state = lock(&state);
    let behaviour = state.behaviour;
    let filter = headers.get("x-filter").map(HeaderValue::as_bytes);
    let filter = String::from_utf8_lossy(filter.unwrap_or_default());
    let by_address = ["\"ipv4\"", "\"ipv6\""].iter().any(|f| filter.contains(f));
    let listed_after = if by_address {
        behaviour.listed_after.max(behaviour.found_after)
    } else {
        behaviour.listed_after
    };
    let balancers = state.listed(Kind::NodeBalancer, listed_after, behaviour.delisted_after);
    let balancers = balancers.filter(|row| state.access.sees(Entity::NodeBalancer, row.key()));
    Ok(listing(balancers, FILTERS, &headers, &uri))
}

async fn one(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    shown(lock(&state).rows(Kind::NodeBalancer).get(&id))
}

async fn create(
    Shared(state): Shared<Handle>,
    Extension(LacksBeta(lacks_beta)): Extension<LacksBeta>,
    body: Bytes,
) -> Answer {
    let mut state = lock(&state);
    let mut sent = strict::object(&body)?;
    if lacks_beta {
        sent.retain(|field, _| !OF_BETA.contains(&field.as_str()));
    }
    let mut errors = Errors::default();
    strict::check("", &sent, NEW, &mut errors);
    let given = strict::given(&sent, NEW);
    let none = Value::Null;
    let of = |field: &str| given.get(field).unwrap_or(&none);
    let region = of("region");
    check_label(&state, of("label"), None, &mut errors);
    reserved_ips::check(&state, of("ipv4"), region, &mut errors);
    let firewall = of("firewall_id").as_u64().filter(|id| *id != 0);
    if firewall.is_some_and(|id| !firewalls::is_there(&state, &id.to_string())) {
        errors.add("firewall_id", "There is no such firewall");
    }
    let backends = vpc_ranges::backends(&state, &given, region, &mut errors);
    let frontends = vpc_ranges::frontends(&state, &given, region, &mut errors);
    let subnets = backends.iter().map(|at| (at.subnet, at.cidr.into()));
    let reachable = Backends::of(&state, region, subnets.collect());
    configs::check_all(&given, of("type"), &reachable, &mut errors);
    errors.into_result()?;

    let id = make(&mut state, &given, &backends, &frontends);
    state.access.made(Entity::NodeBalancer, id);
    shown(state.rows(Kind::NodeBalancer).get(&id.to_string()))
}

/// Makes a NodeBalancer with all its parts, as a request says it; gives its id.
pub(super) fn make(
    state: &mut State,
    given: &Map<String, Value>,
    backends: &[Attachment],
    frontends: &[Attachment],
) -> u64 {
    let id = add(state, given, frontends.first());
    for attachment in backends.iter().chain(frontends) {
        vpc_ranges::attach(state, id, attachment);
    }
    for (_, config) in strict::objects(given.get("configs"), "configs") {
        configs::add(state, id, config);
    }
    let firewall = given.get("firewall_id").and_then(Value::as_u64);
    if let Some(firewall) = firewall.filter(|id| *id != 0) {
        firewall_devices::attach(state, firewall, "nodebalancer", id);
    }
    id
}

/// Adds a NodeBalancer without configs; gives its id.
pub(super) fn add(
    state: &mut State,
    given: &Map<String, Value>,
    frontend: Option<&Attachment>,
) -> u64 {
    let id = state.id(&json!({ "id": given.get("id") }));
    let mut value = json!({
        "id": id, "label": format!("balancer{id}"), "type": "common",
        "client_conn_throttle": 0, "client_udp_sess_throttle": 0, "tags": [],
        "lke_cluster": null, "locks": [], "created": CREATED, "updated": CREATED,
        "transfer": { "in": null, "out": null, "total": null },
    });
    let (mut ipv4, mut ipv6) = state.new_addresses();
    if let Some(reserved) = given.get("ipv4").and_then(Value::as_str) {
        reserved.clone_into(&mut ipv4);
        reserved_ips::assign(state, reserved, id);
    }
    let mut hostname = format!("{}.ip.linodeusercontent.com", ipv4.replace('.', "-"));
    if let Some(frontend) = frontend {
        let address = frontend.range.hosts().next();
        ipv4 = address.unwrap_or(frontend.range.network()).to_string();
        (ipv6, hostname) = (String::new(), String::new());
    }
    value["ipv4"] = json!(ipv4);
    value["ipv6"] = if ipv6.is_empty() {
        Value::Null
    } else {
        json!(ipv6)
    };
    value["hostname"] = json!(hostname);
    let address_type = if frontend.is_some() { "vpc" } else { "public" };
    value["frontend_address_type"] = json!(address_type);
    value["frontend_vpc_subnet_id"] = json!(frontend.map(|at| at.subnet));
    value["region"] = given["region"].clone();
    if let Some(kind) = given.get("type") {
        value["type"] = kind.clone();
    }
    change(&mut value, given, state.behaviour.sorts_tags);
    state
        .rows_mut(Kind::NodeBalancer)
        .add(id.to_string(), value);
    id
}

/// What can be changed of a NodeBalancer.
fn change(balancer: &mut Value, given: &Map<String, Value>, sorts_tags: bool) {
    for (field, value) in strict::given(given, CHANGED) {
        balancer[&field] = match field.as_str() {
            "tags" => tags(&value, sorts_tags),
            _ => value,
        };
    }
}

/// Tags as they are kept: trimmed, and each once.
pub(super) fn tags(given: &Value, sorts: bool) -> Value {
    let mut kept: Vec<&str> = Vec::new();
    for tag in given.as_array().into_iter().flatten() {
        let tag = tag.as_str().unwrap_or_default().trim();
        if !kept.contains(&tag) {
            kept.push(tag);
        }
    }
    if sorts {
        kept.sort_unstable();
    }
    json!(kept)
}

fn check_label(state: &State, label: &Value, own: Option<&Value>, errors: &mut Errors) {
    let mut others = state.rows(Kind::NodeBalancer).iter().map(|row| row.value());
    if !label.is_null() && others.any(|other| other["label"] == *label && Some(&other["id"]) != own)
    {
        errors.add("label", "Label must be unique");
    }
}

async fn update(Shared(state): Shared<Handle>, Path(id): Path<String>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let own = state.existing(Kind::NodeBalancer, &id)?["id"].clone();
    let sent = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &sent, CHANGED, &mut errors);
    let label = sent.get("label").unwrap_or(&Value::Null);
    check_label(&state, label, Some(&own), &mut errors);
    errors.into_result()?;
    let sorts = state.behaviour.sorts_tags;
    let balancers = state.rows_mut(Kind::NodeBalancer);
    balancers.change(&id, |balancer| change(balancer, &sent, sorts));
    firewall_devices::show(&mut state);
    shown(state.rows(Kind::NodeBalancer).get(&id))
}

async fn delete(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    let mut state = lock(&state);
    let own = state.existing(Kind::NodeBalancer, &id)?["id"].as_u64();
    remove(&mut state, own.unwrap_or_default());
    Ok(done())
}

/// A NodeBalancer goes with all that is part of it. Firewalls stay, and a reserved address is free.
pub(super) fn remove(state: &mut State, id: u64) -> bool {
    let there = state.delete(Kind::NodeBalancer, &id.to_string());
    for kind in [Kind::Config, Kind::Node] {
        let rows = state.rows_mut(kind);
        rows.remove_where(|part| part["nodebalancer_id"] == id);
    }
    vpc_ranges::detach(state, id);
    reserved_ips::free(state, id);
    firewall_devices::detach_all(state, "nodebalancer", id);
    there
}

async fn stats(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Answer {
    let state = lock(&state);
    let balancer = state.existing(Kind::NodeBalancer, &id)?;
    let label = balancer["label"].as_str().unwrap_or_default();
    let stats = json!({
        "title": format!("linode.com - {label} ({id}) - day (5 min avg)"),
        "data": { "connections": [], "traffic": { "in": [], "out": [] } },
    });
    Ok(ok(stats.to_string()))
}

async fn vpcs(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answer {
    let state = lock(&state);
    let balancer = &state.existing(Kind::NodeBalancer, &id)?["id"];
    let vpcs = state.rows(Kind::NodeBalancerVpc).iter();
    let vpcs = vpcs.filter(|vpc| vpc.value()["nodebalancer_id"] == *balancer);
    Ok(listing(vpcs, VPC_FILTERS, &headers, &uri))
}
