//! Public networks, and the blocks on them.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::answers::{Refusal, with, with_text};
use super::api::{Answered, existing, shown};
use super::kind::Kind;
use super::pending::Change;
use super::shown::contains;
use super::state::State;
use super::strict::{self, Field, Is, LOCATIONS, May, Must};

const NEW: &[Field] = &[
    Field("name", Is::Text(100), Must),
    Field("location", Is::OneOf(LOCATIONS), Must),
    Field("description", Is::Text(250), May),
    Field("vlanId", Is::Number(2, 4094), May),
    Field("ipBlocks", Is::Ids, May),
    Field("raEnabled", Is::Flag, May),
];
const CHANGED: &[Field] = &[
    Field("name", Is::Text(100), May),
    Field("description", Is::Text(250), May),
    Field("raEnabled", Is::Flag, May),
];

/// What stands for nothing in a list of blocks.
fn ids(listed: &Value) -> Vec<String> {
    let listed = listed.as_array().into_iter().flatten();
    let ids = listed.filter_map(|block| block["id"].as_str());
    ids.map(ToOwned::to_owned).collect()
}

/// `POST /public-networks`
pub(super) fn create(state: &mut State, body: Value) -> Answered {
    let mut network = strict::object(body, NEW)?;
    let blocks = ids(&network.remove("ipBlocks").unwrap_or_default());
    if blocks.len() > state.behaviour.blocks_per_network + 1 {
        return Err(Refusal::field("ipBlocks size must be between 0 and 11"));
    }
    for block in &blocks {
        free(state, block, &network["location"])?;
    }
    let added = state.add(Kind::Network, &Value::Object(network));
    let id = added.map_err(|error| Refusal::field(&format!("{error:#}")))?;
    for block in blocks {
        begin_assignment(state, &block, &id);
    }
    Ok(shown(state, Kind::Network, &id, StatusCode::CREATED))
}

/// `PATCH /public-networks/{id}`
pub(super) fn change(state: &mut State, id: &str, body: Value) -> Answered {
    let changes: Map<String, Value> = strict::object(body, CHANGED)?;
    ready(state, id)?;
    state.change(Kind::Network, id, |network| {
        for (field, value) in changes {
            network[field] = value;
        }
    });
    Ok(shown(state, Kind::Network, id, StatusCode::OK))
}

/// `DELETE /public-networks/{id}`
pub(super) fn delete(state: &mut State, id: &str) -> Answered {
    ready(state, id)?;
    let network = state.rows(Kind::Network).value(id);
    let is_empty = |field: &str| network[field].as_array().is_none_or(Vec::is_empty);
    if !is_empty("memberships") || !is_empty("ipBlocks") {
        let why = "The public network still has members or IP blocks.";
        return Err(Refusal::conflict(why));
    }
    state.remove(Kind::Network, id);
    Ok(with_text(StatusCode::NO_CONTENT, ""))
}

/// `POST /public-networks/{id}/ip-blocks`
pub(super) fn attach(state: &mut State, id: &str, body: Value) -> Answered {
    let body = strict::object(body, &[Field("id", Is::Text(100), Must)])?;
    ready(state, id)?;
    let block = body["id"].as_str().unwrap_or_default().to_owned();
    let network = state.rows(Kind::Network).value(id).clone();
    let listed = ids(&network["ipBlocks"]);
    let status = state.rows(Kind::Block).value(&block)["status"].clone();
    if status == "error assigning" && listed.contains(&block) {
        begin_assignment(state, &block, id);
        return Ok(accepted(state, &block));
    }
    free(state, &block, &network["location"]).inspect_err(|_| {
        let what = format!("attach {block} ({status}) to {id}");
        state.ledger.misdirected.push(what);
    })?;
    let version = |block: &str| state.rows(Kind::Block).value(block)["ipVersion"].clone();
    let is_v6 = version(&block) == "V6";
    let alike = listed
        .iter()
        .filter(|listed| (version(listed) == "V6") == is_v6);
    let most = if is_v6 {
        1
    } else {
        state.behaviour.blocks_per_network
    };
    if alike.count() >= most {
        let why = "The public network already has the maximum number of IP blocks.";
        return Err(Refusal::new(state.behaviour.full_network, why));
    }
    begin_assignment(state, &block, id);
    Ok(accepted(state, &block))
}

/// `DELETE /public-networks/{id}/ip-blocks/{block}`
pub(super) fn detach(state: &mut State, id: &str, block: &str, forced: bool) -> Answered {
    ready(state, id)?;
    let network = state.rows(Kind::Network).value(id).clone();
    if !ids(&network["ipBlocks"]).contains(&block.to_owned()) {
        let what = format!("detach {block} from {id}");
        state.ledger.misdirected.push(what);
        return Err(Refusal::missing(state.behaviour.missing));
    }
    let shown = state.rows(Kind::Block).value(block).clone();
    let cidr = shown["cidr"].as_str().unwrap_or_default();
    let used = state.used_addresses(&network);
    if !forced && used.iter().any(|used| contains(cidr, used)) {
        let why = "The IP block is in use by a member of the public network.";
        return Err(Refusal::conflict(why));
    }
    let status = shown["status"].as_str().unwrap_or_default();
    if !["assigned", "error assigning", "error unassigning"].contains(&status) {
        let why = format!("The IP block cannot be removed while it is {status}.");
        return Err(Refusal::conflict(&why));
    }
    let change = Change::Unassigning {
        block: block.to_owned(),
        network: id.to_owned(),
    };
    state.change(Kind::Block, block, |block| {
        block["status"] = json!("unassigning");
    });
    state.begin(change, state.behaviour.unassigning);
    state.settle();
    let text = "The specified IP block is being removed from the Public Network.";
    Ok(if state.behaviour.json_texts {
        with(StatusCode::ACCEPTED, &json!(text))
    } else {
        with_text(StatusCode::ACCEPTED, text)
    })
}

/// A network that is there and takes changes.
pub(super) fn ready(state: &State, id: &str) -> Result<(), Refusal> {
    existing(state, Kind::Network, id)?;
    let status = &state.rows(Kind::Network).value(id)["status"];
    if state.is_busy(id) || status != "READY" {
        let why = "The public network is in a state that does not permit this. Try again later.";
        return Err(Refusal::conflict(why));
    }
    Ok(())
}

/// A block in this location that is on nothing yet.
fn free(state: &State, block: &str, location: &Value) -> Result<(), Refusal> {
    existing(state, Kind::Block, block)?;
    let block = state.rows(Kind::Block).value(block);
    if block["location"] != *location {
        let why = "The IP block and the public network must be in the same location.";
        return Err(Refusal::field(why));
    }
    if block["status"] != "unassigned" {
        let why = format!(
            "The IP block cannot be assigned while it is {}.",
            block["status"]
        );
        return Err(Refusal::conflict(&why));
    }
    Ok(())
}

fn begin_assignment(state: &mut State, block: &str, network: &str) {
    let change = Change::Assigning {
        block: block.to_owned(),
        network: network.to_owned(),
    };
    state.show_block(block, "assigning", None);
    state.enlist(network, block);
    state.begin(change, state.behaviour.assigning);
    state.settle();
}

fn accepted(state: &State, block: &str) -> axum::response::Response {
    let cidr = &state.rows(Kind::Block).value(block)["cidr"];
    let body = json!({ "id": block, "cidr": cidr, "usedIpsCount": "0" });
    with(StatusCode::ACCEPTED, &body)
}
