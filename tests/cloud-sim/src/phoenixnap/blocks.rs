//! Buying IP blocks and giving them back.

use http::StatusCode;
use serde_json::{Value, json};

use super::answers::{Refusal, with};
use super::api::{Answered, existing, shown};
use super::kind::Kind;
use super::pending::Change;
use super::state::State;
use super::strict::{self, Field, Is, LOCATIONS, May, Must};
use super::tags;

const SIZES: &[&str] = &["/31", "/30", "/29", "/28", "/64"];

const NEW: &[Field] = &[
    Field("location", Is::OneOf(LOCATIONS), Must),
    Field("cidrBlockSize", Is::OneOf(SIZES), Must),
    Field("ipVersion", Is::OneOf(&["V4", "V6"]), May),
    Field("description", Is::Text(250), May),
    Field("tags", Is::Tags, May),
];

/// `POST /ip-blocks`
pub(super) fn buy(state: &mut State, body: Value) -> Answered {
    let mut block = strict::object(body, NEW)?;
    let is_v6 = block
        .get("ipVersion")
        .is_some_and(|version| version == "V6");
    if is_v6 != (block["cidrBlockSize"] == "/64") {
        return Err(Refusal::field(
            "cidrBlockSize is not available for this IP version",
        ));
    }
    let given = block.remove("tags").unwrap_or_else(|| json!([]));
    let tags = tags::known(state, &given)?;
    if state.rows(Kind::Block).len() >= state.behaviour.quota {
        let why = "The quota of public IPs of the account is exhausted.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    if state.behaviour.stock == 0 {
        let why = "There is no IP block of this size available in this location.";
        return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, why));
    }
    state.behaviour.stock -= 1;
    let mut block = Value::Object(block);
    block["tags"] = state.assigned(&tags);
    block["status"] = json!("creating");
    block["createdOn"] = json!(state.today());
    let added = state.add(Kind::Block, &block);
    let id = added.map_err(|error| Refusal::field(&format!("{error:#}")))?;
    let pace = state.behaviour.creating;
    state.begin(Change::Making { block: id.clone() }, pace);
    let now = state.now();
    let value = state.rows(Kind::Block).value(&id).clone();
    state.ledger.bought(&id, &value, now);
    state.settle();
    Ok(shown(state, Kind::Block, &id, StatusCode::CREATED))
}

/// `PATCH /ip-blocks/{id}`
pub(super) fn describe(state: &mut State, id: &str, body: Value) -> Answered {
    let body = strict::object(body, &[Field("description", Is::Text(250), May)])?;
    existing(state, Kind::Block, id)?;
    state.change(Kind::Block, id, |block| {
        for (field, value) in body {
            block[field] = value;
        }
    });
    Ok(shown(state, Kind::Block, id, StatusCode::OK))
}

/// `DELETE /ip-blocks/{id}`
pub(super) fn release(state: &mut State, id: &str) -> Answered {
    existing(state, Kind::Block, id)?;
    let status = &state.rows(Kind::Block).value(id)["status"];
    if status != "unassigned" {
        let why = format!("The IP block cannot be deleted while it is {status}.");
        return Err(Refusal::conflict(&why));
    }
    let now = state.now();
    state.remove(Kind::Block, id);
    state.ledger.released(id, now);
    let body = json!({ "result": "The IP block has been deleted.", "ipBlockId": id });
    Ok(with(StatusCode::OK, &body))
}
