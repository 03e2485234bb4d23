//! What the API takes in a request and what it refuses: fields, one by one.

use std::net::IpAddr;

use axum::body::Bytes;
use http::{HeaderMap, header};
use serde_json::{Map, Value};

use super::answers::Refusal;

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Is {
    /// A text, or nothing.
    Text,
    /// True or false.
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A number in this range.
    Number(u64, u64),
    /// A list of texts.
    Texts,
    /// Something that is looked at elsewhere.
    Other,
}

/// A field, and what it holds.
pub(super) type Field = (&'static str, Is);

/// The body of a request, which is a JSON object and says so.
pub(super) fn json(headers: &HeaderMap, body: &Bytes) -> Result<Map<String, Value>, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(Refusal::invalid("Content-Type is not application/json"));
    }
    serde_json::from_slice(body).map_err(|error| Refusal::invalid(format!("body: {error}")))
}

/// Whether an object has only these fields, each with what it may hold.
pub(super) fn fields(given: &Map<String, Value>, known: &[Field]) -> Result<(), Refusal> {
    for (name, value) in given {
        let Some((_, is)) = known.iter().find(|(known, _)| known == name) else {
            return Err(Refusal::invalid(format!("{name} is unknown")));
        };
        let is_right = match is {
            Is::Text => value.is_string() || value.is_null(),
            Is::Flag => value.is_boolean(),
            Is::OneOf(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Is::Number(least, most) => value
                .as_u64()
                .is_some_and(|number| (*least..=*most).contains(&number)),
            Is::Texts => value
                .as_array()
                .is_some_and(|all| all.iter().all(Value::is_string)),
            Is::Other => true,
        };
        if !is_right {
            return Err(Refusal::invalid(format!("{name} is invalid: {value}")));
        }
    }
    Ok(())
}

/// An object that a list has.
pub(super) fn object(value: &Value) -> Result<&Map<String, Value>, Refusal> {
    let object = value.as_object();
    object.ok_or_else(|| Refusal::invalid(format!("{value} is no object")))
}

/// What a list of objects has under this name: `[{"node": "srv-…"}]`.
pub(super) fn listed(list: &Value, name: &'static str) -> Result<Vec<String>, Refusal> {
    let all = list.as_array();
    let all = all.ok_or_else(|| Refusal::invalid(format!("{list} is no list")))?;
    let one = |value: &Value| {
        let given = object(value)?;
        fields(given, &[(name, Is::Text)])?;
        let id = given.get(name).and_then(Value::as_str);
        id.map(ToOwned::to_owned)
            .ok_or_else(|| Refusal::invalid(format!("{name} is missing")))
    };
    all.iter().map(one).collect()
}

/// Ports and ranges of them, at most fifteen: `80,443,30000-32767`.
pub(super) fn ports(text: &str) -> bool {
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    let parts: Vec<&str> = text.split(',').collect();
    let is_part = |part: &&str| match part.split_once('-') {
        Some((first, last)) => is_port(first) && is_port(last),
        None => is_port(part),
    };
    parts.len() <= 15 && text.len() <= 255 && parts.iter().all(is_part)
}

/// Where traffic comes from or goes to: a network, an address, `any`, or what has an identifier.
pub(super) fn place(text: &str) -> bool {
    let is_id = ["srv-", "grp-", "lba-"].iter().any(|p| text.starts_with(p));
    let (address, length) = text.split_once('/').unwrap_or((text, "0"));
    let address = address.parse::<IpAddr>();
    let most = if matches!(address, Ok(IpAddr::V6(_))) {
        128
    } else {
        32
    };
    let is_network = address.is_ok() && length.parse::<u8>().is_ok_and(|length| length <= most);
    text == "any" || is_id || is_network
}
