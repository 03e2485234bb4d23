//! The endpoints.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde_json::json;

use super::access::unknown_scopes;
use super::answers::{Answer, Refusal, error, ok};
use super::filter::Filter;
use super::limits::Counted;
use super::lock;
use super::paging::page;
use super::state::{State, Vpc};
use super::{
    config_nodes, configs, firewall_devices, firewalls, instance_ips, instances, node_balancers,
    reserved_ips, vpc_interfaces,
};
use crate::request::decoded;
use crate::rows::{Row, body};

/// A shared state.
pub(super) type Handle = Arc<Mutex<State>>;

const VPC_FIELDS: &[&str] = &["id", "label", "region"];
const SUBNET_FIELDS: &[&str] = &["id", "label"];
const VPC_IP_FIELDS: &[&str] = &["vpc_id", "subnet_id", "linode_id", "region", "active"];

/// The API in both of its versions.
pub(super) fn router(state: Handle) -> Router {
    let version = Router::new()
        .route("/profile", get(profile))
        .route("/profile/grants", get(grants))
        .route("/vpcs", get(vpcs))
        .route("/vpcs/{id}", get(vpc))
        .route("/vpcs/{id}/subnets", get(subnets))
        .route("/vpcs/{id}/subnets/{subnet}", get(subnet))
        .route("/vpcs/{id}/ips", get(ips))
        .route("/vpcs/{id}/ipv6s", get(ipv6s))
        .merge(instances::routes())
        .merge(node_balancers::routes())
        .merge(configs::routes())
        .merge(config_nodes::routes())
        .merge(firewalls::routes())
        .merge(firewall_devices::routes())
        .merge(reserved_ips::routes())
        .merge(instance_ips::routes())
        .merge(vpc_interfaces::routes());
    Router::new()
        .nest("/v4", version.clone())
        .nest("/v4beta", version)
        .fallback(|| async { error(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { error(StatusCode::METHOD_NOT_ALLOWED) })
        .layer(from_fn_with_state(state.clone(), gate))
        .with_state(state)
}

/// Whether a request is to `/v4` while that lacks what is in `/v4beta`.
#[derive(Clone, Copy)]
pub(super) struct LacksBeta(pub(super) bool);

/// Paths that `/v4` lacks then.
fn is_beta(segments: &[&str]) -> bool {
    matches!(
        segments,
        ["networking", "reserved", ..] | ["nodebalancers", _, "vpcs"]
    )
}

/// Which limit a request is held to.
pub(super) fn counted(method: &Method, path: &str) -> Counted {
    let is_single = path.ends_with(|c: char| c.is_ascii_digit());
    let mut others = ["/profile", "/stats", "/rules"].iter();
    if method == Method::GET && !is_single && !others.any(|one| path.ends_with(one)) {
        Counted::Listing
    } else if method == Method::POST && path.ends_with("/linode/instances") {
        Counted::Creation
    } else {
        Counted::Other
    }
}

/// The token and what it may do, and the limits.
async fn gate(Shared(state): Shared<Handle>, mut request: Request<Body>, next: Next) -> Response {
    let path = request.uri().path();
    let segments: Vec<&str> = path.split('/').skip(2).collect();
    let counted_as = counted(request.method(), path);
    let (counted, lacks_beta, scopes) = {
        let mut state = lock(&state);
        let wanted = format!("Bearer {}", state.token);
        let given = request.headers().get(header::AUTHORIZATION);
        if given.is_none_or(|given| given.as_bytes() != wanted.as_bytes()) {
            let mut refusal = error(StatusCode::UNAUTHORIZED);
            refusal.headers_mut().extend(unknown_scopes());
            return refusal;
        }
        let lacks_beta = state.behaviour.beta_apart && path.starts_with("/v4/");
        if lacks_beta && is_beta(&segments) {
            return error(StatusCode::NOT_FOUND);
        }
        let counted = state.limits.count(counted_as);
        let allowed = state.access.check(request.method(), &segments);
        let counted = counted.and_then(|headers| allowed.map(|()| headers));
        let scopes = state.access.headers(request.method(), &segments);
        (counted, lacks_beta, scopes)
    };
    let (mut answer, headers) = match counted {
        Err(refusal) => (*refusal, HeaderMap::new()),
        Ok(headers) => {
            request.extensions_mut().insert(LacksBeta(lacks_beta));
            let reads = request.method() == Method::GET || request.method() == Method::HEAD;
            let path = request.uri().path().to_owned();
            let answer = next.run(request).await;
            if !reads && answer.status().is_success() {
                lock(&state).record_write(&path);
            }
            (answer, headers)
        }
    };
    answer.headers_mut().extend(headers);
    answer.headers_mut().extend(scopes);
    answer
}

/// The page of these rows that a request asks for, chosen by its filter.
pub(super) fn listing<'a>(
    rows: impl Iterator<Item = &'a Row>,
    fields: &[&str],
    headers: &HeaderMap,
    uri: &Uri,
) -> Response {
    let header = headers.get("x-filter").map(|value| value.to_str());
    let Ok(header) = header.transpose() else {
        return error(StatusCode::BAD_REQUEST);
    };
    match Filter::read(header, fields) {
        Err(refusal) => *refusal,
        Ok(filter) => {
            let query = decoded(uri.query().unwrap_or_default());
            page(&filter.choose(rows), &query)
        }
    }
}

/// An object, if it is there.
pub(super) fn shown(row: Option<&Row>) -> Answer {
    row.map(|row| ok(body(row))).ok_or_else(Refusal::not_found)
}

fn one(row: Option<&Row>) -> Response {
    row.map_or_else(|| error(StatusCode::NOT_FOUND), |row| ok(body(row)))
}

async fn profile(Shared(state): Shared<Handle>) -> Response {
    let restricted = lock(&state).access.grants.is_some();
    let profile = json!({
        "username": "mooring", "email": "mooring@example.com", "restricted": restricted,
        "timezone": "UTC", "two_factor_auth": false, "verified_phone_number": null,
    });
    ok(profile.to_string())
}

async fn grants(Shared(state): Shared<Handle>) -> Response {
    let shown = lock(&state).access.shown();
    shown.map_or_else(
        || StatusCode::NO_CONTENT.into_response(),
        |shown| ok(shown.to_string()),
    )
}

async fn vpcs(Shared(state): Shared<Handle>, headers: HeaderMap, uri: Uri) -> Response {
    listing(lock(&state).vpcs.iter(), VPC_FIELDS, &headers, &uri)
}

async fn vpc(Shared(state): Shared<Handle>, Path(id): Path<String>) -> Response {
    one(lock(&state).vpcs.get(&id))
}

fn in_vpc(state: &Handle, id: &str, answer: impl FnOnce(&Vpc) -> Response) -> Response {
    let state = lock(state);
    let of_vpc = id.parse().ok().and_then(|id: u64| state.of_vpc.get(&id));
    of_vpc.map_or_else(|| error(StatusCode::NOT_FOUND), answer)
}

async fn subnets(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    in_vpc(&state, &id, |vpc| {
        listing(vpc.subnets.iter(), SUBNET_FIELDS, &headers, &uri)
    })
}

async fn subnet(
    Shared(state): Shared<Handle>,
    Path((id, subnet)): Path<(String, String)>,
) -> Response {
    in_vpc(&state, &id, |vpc| one(vpc.subnets.get(&subnet)))
}

async fn ips(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    in_vpc(&state, &id, |vpc| {
        listing(vpc.ips.iter(), VPC_IP_FIELDS, &headers, &uri)
    })
}

async fn ipv6s(
    Shared(state): Shared<Handle>,
    Path(id): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    in_vpc(&state, &id, |vpc| {
        listing(vpc.ipv6s.iter(), VPC_IP_FIELDS, &headers, &uri)
    })
}
