//! BGP peer groups.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answers::Refusal;
use super::api::{Answered, existing, shown};
use super::kind::Kind;
use super::pending::Change;
use super::state::State;
use super::strict::{self, Field, Is, LOCATIONS, May, Must};
use crate::rows::Row;

const ASN: Is = Is::Number(1, 4_294_967_295);
const ROUTES: Is = Is::OneOf(&["DEFAULT", "NONE"]);

const NEW: &[Field] = &[
    Field("location", Is::OneOf(LOCATIONS), Must),
    Field("asn", ASN, Must),
    Field("advertisedRoutes", ROUTES, Must),
    Field("password", Is::Text(32), May),
];
const CHANGED: &[Field] = &[
    Field("asn", ASN, May),
    Field("advertisedRoutes", ROUTES, May),
    Field("password", Is::Text(32), May),
];

/// `POST /bgp-peer-groups`
pub(super) fn create(state: &mut State, body: Value) -> Answered {
    let body = strict::object(body, NEW)?;
    password(&body)?;
    let location = &body["location"];
    let is_here = |group: &Row| group.value()["location"] == *location;
    if state.rows(Kind::PeerGroup).iter().any(is_here) {
        let why = "There is a BGP peer group in this location already.";
        return Err(Refusal::conflict(why));
    }
    let given = json!({ "status": "PENDING", "location": location, "activeAsnDetails": null });
    let added = state.add(Kind::PeerGroup, &given);
    let id = added.map_err(|error| Refusal::field(&format!("{error:#}")))?;
    apply(state, &id, &body);
    Ok(under_way(state, id))
}

/// `PATCH /bgp-peer-groups/{id}`
pub(super) fn change(state: &mut State, id: &str, body: Value) -> Answered {
    let body = strict::object(body, CHANGED)?;
    password(&body)?;
    idle(state, id)?;
    apply(state, id, &body);
    state.change(Kind::PeerGroup, id, |group| group["status"] = json!("BUSY"));
    Ok(under_way(state, id.to_owned()))
}

/// `DELETE /bgp-peer-groups/{id}`
pub(super) fn delete(state: &mut State, id: &str) -> Answered {
    idle(state, id)?;
    state.change(Kind::PeerGroup, id, |group| {
        group["status"] = json!("PENDING_DELETION");
    });
    let answer = shown(state, Kind::PeerGroup, id, StatusCode::ACCEPTED);
    let group = id.to_owned();
    state.begin(Change::Parting { group }, state.behaviour.peering);
    state.settle();
    Ok(answer)
}

fn under_way(state: &mut State, group: String) -> axum::response::Response {
    let answer = shown(state, Kind::PeerGroup, &group, StatusCode::ACCEPTED);
    state.begin(Change::Peering { group }, state.behaviour.peering);
    state.settle();
    answer
}

fn idle(state: &State, id: &str) -> Result<(), Refusal> {
    existing(state, Kind::PeerGroup, id)?;
    if state.is_under_way(Kind::PeerGroup, id) {
        let why = "The BGP peer group is in a state that does not permit this.";
        return Err(Refusal::conflict(why));
    }
    Ok(())
}

fn password(body: &Map<String, Value>) -> Result<(), Refusal> {
    let password = body.get("password").and_then(Value::as_str);
    if password.is_some_and(|password| password.chars().count() < 8) {
        return Err(Refusal::field("password size must be between 8 and 32"));
    }
    Ok(())
}

fn apply(state: &mut State, id: &str, body: &Map<String, Value>) {
    state.change(Kind::PeerGroup, id, |group| {
        if let Some(asn) = body.get("asn") {
            group["targetAsnDetails"]["asn"] = asn.clone();
        }
        for field in ["advertisedRoutes", "password"] {
            if let Some(value) = body.get(field) {
                group[field] = value.clone();
            }
        }
    });
}
