//! `/networking/reserved/ips`: IPv4 addresses that stay when what has them goes.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State as Shared};
use axum::routing::get;
use http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::answers::{Answer, Errors, done};
use super::api::{Handle, listing, shown};
use super::kind::Kind;
use super::lock;
use super::state::State;
use super::strict::{self, Field, Is, Must, REGIONS};

const FILTERS: &[&str] = &["address", "region"];
const NEW: &[Field] = &[Field("region", Is::OneOf(REGIONS), Must)];

pub(super) fn routes() -> Router<Handle> {
    Router::new()
        .route("/networking/reserved/ips", get(list).post(create))
        .route(
            "/networking/reserved/ips/{address}",
            get(one).delete(delete),
        )
}

/// Whether a new NodeBalancer can have this address.
pub(super) fn check(state: &State, address: &Value, region: &Value, errors: &mut Errors) {
    let Some(address) = address.as_str() else {
        return;
    };
    let reserved = state.rows(Kind::ReservedIp).value(address);
    if reserved["region"] != *region {
        errors.add_plain("IPv4 address is not reserved");
    } else if !reserved["assigned_entity"].is_null() {
        errors.add_plain("IPv4 address is already in use");
    }
}

/// A NodeBalancer has this reserved address from now on.
pub(super) fn assign(state: &mut State, address: &str, balancer: u64) {
    let rows = state.rows_mut(Kind::ReservedIp);
    rows.change(address, |reserved| {
        reserved["assigned_entity"] = json!({
            "id": balancer, "type": "nodebalancer",
            "url": format!("/v4/nodebalancers/{balancer}"),
        });
    });
}

/// A NodeBalancer has no reserved address any more.
pub(super) fn free(state: &mut State, balancer: u64) {
    let rows = state.rows_mut(Kind::ReservedIp);
    rows.change_where(
        |reserved| reserved["assigned_entity"]["id"] == balancer,
        |reserved| reserved["assigned_entity"] = Value::Null,
    );
}

/// Reserves an address; gives it.
pub(super) fn reserve(state: &mut State, region: &str, address: Option<&str>) -> String {
    let address = address.map_or_else(|| state.new_addresses().0, ToOwned::to_owned);
    let (network, _) = address.rsplit_once('.').unwrap_or_default();
    let reserved = json!({
        "address": address, "gateway": format!("{network}.1"), "subnet_mask": "255.255.255.0",
        "prefix": 24, "type": "ipv4", "public": true,
        "rdns": format!("{}.ip.linodeusercontent.com", address.replace('.', "-")),
        "linode_id": null, "region": region, "vpc_nat_1_1": null, "reserved": true,
        "assigned_entity": null, "tags": [],
    });
    let rows = state.rows_mut(Kind::ReservedIp);
    rows.add(address.clone(), reserved);
    address
}

async fn list(Shared(state): Shared<Handle>, headers: HeaderMap, uri: Uri) -> Answer {
    let state = lock(&state);
    let reserved = state.rows(Kind::ReservedIp).iter();
    Ok(listing(reserved, FILTERS, &headers, &uri))
}

async fn create(Shared(state): Shared<Handle>, body: Bytes) -> Answer {
    let mut state = lock(&state);
    let given = strict::object(&body)?;
    let mut errors = Errors::default();
    strict::check("", &given, NEW, &mut errors);
    errors.into_result()?;
    let region = given["region"].as_str().unwrap_or_default();
    let address = reserve(&mut state, region, None);
    shown(state.rows(Kind::ReservedIp).get(&address))
}

async fn one(Shared(state): Shared<Handle>, Path(address): Path<String>) -> Answer {
    shown(lock(&state).rows(Kind::ReservedIp).get(&address))
}

/// An address that a NodeBalancer has stays with it, and is not reserved any more.
async fn delete(Shared(state): Shared<Handle>, Path(address): Path<String>) -> Answer {
    let mut state = lock(&state);
    state.existing(Kind::ReservedIp, &address)?;
    state.rows_mut(Kind::ReservedIp).remove(&address);
    Ok(done())
}
