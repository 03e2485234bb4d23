//! What the API takes in a request and what it refuses: fields, one by one.

use std::net::IpAddr;

use axum::body::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};

use super::answers::Refusal;

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Is {
    /// A text that is not empty and not longer than this.
    Text(usize),
    Flag,
    /// A whole number in this range.
    Number(u64, u64),
    OneOf(&'static [&'static str]),
    /// The name of a tag.
    TagName,
    /// `[{"name", "value"}]`.
    Tags,
    /// `[{"id"}]`.
    Ids,
    /// Addresses, or ranges of them: `10.0.0.1 - 10.0.0.5`.
    Addresses,
    /// Anything at all.
    Anything,
}

/// A field: its name, what it holds, whether it must be there.
pub(super) struct Field(pub(super) &'static str, pub(super) Is, pub(super) Needed);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    Must,
    May,
}

pub(super) use Needed::{May, Must};

/// Where things can be.
pub(super) const LOCATIONS: &[&str] = &["PHX", "ASH", "SGP", "NLD", "CHI", "SEA", "AUS"];

const TAG: &[Field] = &[
    Field("name", Is::TagName, Must),
    Field("value", Is::TagName, May),
];
const ID: &[Field] = &[Field("id", Is::Text(100), Must)];

/// The JSON of a request.
pub(super) fn json(headers: &HeaderMap, given: &Bytes) -> Result<Value, Refusal> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The content type of the request must be application/json.",
        ));
    }
    serde_json::from_slice(given).map_err(|_| {
        Refusal::new(
            StatusCode::BAD_REQUEST,
            "The request body is no valid JSON.",
        )
    })
}

/// An object with these fields and no others.
pub(super) fn object(value: Value, fields: &[Field]) -> Result<Map<String, Value>, Refusal> {
    let Value::Object(object) = value else {
        return Err(Refusal::field("The request body must be an object."));
    };
    let mut errors = Vec::new();
    check_fields("", &object, fields, &mut errors);
    if errors.is_empty() {
        Ok(object)
    } else {
        Err(Refusal::invalid(errors))
    }
}

/// A list of tags; gives names and values.
pub(super) fn tags(value: &Value) -> Result<Vec<(String, Option<String>)>, Refusal> {
    let mut errors = Vec::new();
    check("tags", Is::Tags, value, &mut errors);
    if !errors.is_empty() {
        return Err(Refusal::invalid(errors));
    }
    let tags = value.as_array().into_iter().flatten().map(|tag| {
        let value = tag["value"].as_str().map(ToOwned::to_owned);
        (tag["name"].as_str().unwrap_or_default().to_owned(), value)
    });
    Ok(tags.collect())
}

fn check_fields(
    prefix: &str,
    object: &Map<String, Value>,
    fields: &[Field],
    errors: &mut Vec<String>,
) {
    for Field(name, _, needed) in fields {
        let absent = object.get(*name).is_none_or(Value::is_null);
        if *needed == Must && absent {
            errors.push(format!("{prefix}{name} must not be null"));
        }
    }
    for (name, value) in object {
        match fields.iter().find(|field| field.0 == name) {
            None => errors.push(format!("{prefix}{name} is not a known field")),
            Some(_) if value.is_null() => {}
            Some(Field(_, is, _)) => check(&format!("{prefix}{name}"), *is, value, errors),
        }
    }
}

fn check(name: &str, is: Is, value: &Value, errors: &mut Vec<String>) {
    let text = value.as_str();
    let complaint = match is {
        Is::Text(longest) => {
            let good = text.is_some_and(|text| (1..=longest).contains(&text.chars().count()));
            (!good).then(|| format!("{name} size must be between 1 and {longest}"))
        }
        Is::Flag => (!value.is_boolean()).then(|| format!("{name} must be true or false")),
        Is::Number(least, most) => {
            let good = value.as_u64().is_some_and(|n| (least..=most).contains(&n));
            (!good).then(|| format!("{name} must be from {least} to {most}"))
        }
        Is::OneOf(all) => {
            let good = text.is_some_and(|text| all.contains(&text));
            (!good).then(|| format!("{name} must be one of {}", all.join(", ")))
        }
        Is::TagName => {
            let good = text.is_some_and(is_tag_name);
            (!good).then(|| format!("{name} must match \"^[A-zÀ-ú0-9_-]{{1,100}}$\""))
        }
        Is::Tags => return check_list(name, TAG, value, errors),
        Is::Ids => return check_list(name, ID, value, errors),
        Is::Addresses => {
            let all = value.as_array().map(|all| {
                let mut all = all.iter();
                all.all(|address| address.as_str().is_some_and(is_address_or_range))
            });
            (all != Some(true)).then(|| format!("{name} must be a list of IP addresses or ranges"))
        }
        Is::Anything => None,
    };
    errors.extend(complaint);
}

fn check_list(name: &str, fields: &[Field], value: &Value, errors: &mut Vec<String>) {
    let Some(items) = value.as_array() else {
        errors.push(format!("{name} must be a list"));
        return;
    };
    for (index, item) in items.iter().enumerate() {
        let prefix = format!("{name}[{index}].");
        match item.as_object() {
            None => errors.push(format!("{name}[{index}] must be an object")),
            Some(item) => check_fields(&prefix, item, fields, errors),
        }
    }
}

/// `[A-zÀ-ú0-9_-]`, 1 to 100 of them. The range from `A` to `z` has some signs between the letters.
pub(super) fn is_tag_name(text: &str) -> bool {
    let is_good = |letter: char| {
        ('A'..='z').contains(&letter)
            || ('À'..='ú').contains(&letter)
            || letter.is_ascii_digit()
            || letter == '-'
    };
    (1..=100).contains(&text.chars().count()) && text.chars().all(is_good)
}

fn is_address_or_range(text: &str) -> bool {
    text.split(" - ").all(|part| part.parse::<IpAddr>().is_ok()) && text.split(" - ").count() <= 2
}
