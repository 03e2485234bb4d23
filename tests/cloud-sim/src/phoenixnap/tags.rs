//! The names of tags, and what is tagged.

use http::StatusCode;
use serde_json::{Value, json};

use super::answers::{Refusal, with};
use super::api::{Answered, existing, shown};
use super::kind::Kind;
use super::state::State;
use super::strict::{self, Field, Is, May, Must};

const NEW: &[Field] = &[
    Field("name", Is::TagName, Must),
    Field("isBillingTag", Is::Flag, Must),
    Field("description", Is::Text(250), May),
];

/// Names and values of tags that a request gives; the names must be there.
pub(super) fn known(
    state: &State,
    given: &Value,
) -> Result<Vec<(String, Option<String>)>, Refusal> {
    let tags = strict::tags(given)?;
    let unknown = tags
        .iter()
        .filter(|(name, _)| state.tag_named(name).is_none());
    let errors: Vec<String> = unknown
        .map(|(name, _)| format!("tags: there is no tag with the name {name}"))
        .collect();
    if errors.is_empty() {
        Ok(tags)
    } else {
        Err(Refusal::invalid(errors))
    }
}

/// `PUT …/{id}/tags`: these and no others.
pub(super) fn replace(state: &mut State, kind: Kind, id: &str, given: &Value) -> Answered {
    let tags = strict::tags(given)?;
    existing(state, kind, id)?;
    known(state, given)?;
    let assigned = state.assigned(&tags);
    state.change(kind, id, |tagged| tagged["tags"] = assigned);
    Ok(shown(state, kind, id, StatusCode::OK))
}

/// `POST /tags`
pub(super) fn create(state: &mut State, body: Value) -> Answered {
    let tag = strict::object(body, NEW)?;
    vacant(state, tag["name"].as_str().unwrap_or_default(), None)?;
    let added = state.add(Kind::Tag, &Value::Object(tag));
    let id = added.map_err(|error| Refusal::field(&format!("{error:#}")))?;
    Ok(shown(state, Kind::Tag, &id, StatusCode::CREATED))
}

/// `PATCH /tags/{id}`
pub(super) fn change(state: &mut State, id: &str, body: Value) -> Answered {
    let body = strict::object(body, NEW)?;
    existing(state, Kind::Tag, id)?;
    let name = body["name"].as_str().unwrap_or_default().to_owned();
    vacant(state, &name, Some(id))?;
    state.change(Kind::Tag, id, |tag| {
        for (field, value) in body {
            tag[field] = value;
        }
    });
    for kind in [Kind::Block, Kind::Server] {
        state.change_all(kind, |tagged| {
            let tags = tagged["tags"].as_array_mut().into_iter().flatten();
            for tag in tags.filter(|tag| tag["id"] == id) {
                tag["name"] = json!(name);
            }
        });
    }
    Ok(shown(state, Kind::Tag, id, StatusCode::OK))
}

/// `DELETE /tags/{id}`
pub(super) fn delete(state: &mut State, id: &str) -> Answered {
    existing(state, Kind::Tag, id)?;
    state.remove(Kind::Tag, id);
    let body = json!({ "result": "The tag has been deleted.", "tagId": id });
    Ok(with(StatusCode::OK, &body))
}

/// Whether no other tag has this name.
fn vacant(state: &State, name: &str, but: Option<&str>) -> Result<(), Refusal> {
    match state.tag_named(name) {
        Some(found) if Some(found) != but => {
            let why = format!("A tag with the name {name} exists already.");
            Err(Refusal::conflict(&why))
        }
        _ => Ok(()),
    }
}
