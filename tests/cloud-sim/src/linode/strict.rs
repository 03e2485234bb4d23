//! The fields of a request, one by one: what they may hold.

use axum::body::Bytes;
use serde_json::{Map, Value};

use super::answers::{Errors, Refusal};

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Is {
    /// A text of any length.
    Text,
    /// 3 to 32 letters, digits, `-`, `_` and these.
    Label(&'static str),
    /// A whole number in this range.
    Number(u64, u64),
    /// The id of something.
    Id,
    Flag,
    OneOf(&'static [&'static str]),
    /// A list of texts with 3 to 50 characters.
    Tags,
    /// A list of ids.
    Ids,
    /// A list of texts.
    Texts,
    Object(&'static [Field]),
    Objects(&'static [Field]),
}

/// A field: its name, what it holds, whether it must be there.
#[derive(Clone, Copy)]
pub(super) struct Field(pub(super) &'static str, pub(super) Is, pub(super) Needed);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    Must,
    May,
}

pub(super) use Needed::{May, Must};

/// The regions that there are.
pub(super) const REGIONS: &[&str] = &[
    "ap-northeast",
    "ap-south",
    "ap-southeast",
    "ap-west",
    "au-mel",
    "br-gru",
    "ca-central",
    "de-fra-2",
    "es-mad",
    "eu-central",
    "eu-west",
    "fr-par",
    "gb-lon",
    "id-cgk",
    "in-bom-2",
    "in-maa",
    "it-mil",
    "jp-osa",
    "jp-tyo-3",
    "nl-ams",
    "no-osl-1",
    "se-sto",
    "sg-sin-2",
    "us-central",
    "us-east",
    "us-iad",
    "us-iad-2",
    "us-lax",
    "us-mia",
    "us-ord",
    "us-sea",
    "us-southeast",
    "us-west",
];

/// The object that a request sends.
pub(super) fn object(body: &Bytes) -> Result<Map<String, Value>, Refusal> {
    serde_json::from_slice(body).map_err(|_| Refusal::reason("Invalid JSON"))
}

/// The fields that are there and not `null`. Like the API, it ignores those that it does not know.
pub(super) fn given(object: &Map<String, Value>, fields: &[Field]) -> Map<String, Value> {
    let known = object
        .iter()
        .filter(|(name, value)| !value.is_null() && fields.iter().any(|field| field.0 == *name));
    let known = known.map(|(name, value)| (name.clone(), value.clone()));
    known.collect()
}

/// The objects of a list, with the prefix by which errors name each.
pub(super) fn objects<'a>(
    list: Option<&'a Value>,
    name: &str,
) -> Vec<(String, &'a Map<String, Value>)> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    let numbered = items.enumerate().filter_map(|(index, item)| {
        let item = item.as_object()?;
        Some((format!("{name}[{index}]."), item))
    });
    numbered.collect()
}

/// What is wrong with the fields of an object. Errors name them after the prefix.
pub(super) fn check(
    prefix: &str,
    object: &Map<String, Value>,
    fields: &[Field],
    errors: &mut Errors,
) {
    for Field(name, is, needed) in fields {
        match object.get(*name).filter(|value| !value.is_null()) {
            None if *needed == Must => {
                errors.add(format!("{prefix}{name}"), format!("{name} is required"));
            }
            None => {}
            Some(value) => check_value(&format!("{prefix}{name}"), *is, value, errors),
        }
    }
}

fn check_value(name: &str, is: Is, value: &Value, errors: &mut Errors) {
    let text = value.as_str();
    let complaint = match is {
        Is::Text => text.is_none().then(|| "Must be of type String".to_owned()),
        Is::Label(others) => text.map_or_else(
            || Some("Must be of type String".to_owned()),
            |text| label_error(text, others),
        ),
        Is::Number(least, most) => {
            let good = value.as_u64().is_some_and(|n| (least..=most).contains(&n));
            (!good).then(|| format!("Must be {least}-{most}"))
        }
        Is::Id => (!value.is_u64()).then(|| "Must be of type Integer".to_owned()),
        Is::Flag => (!value.is_boolean()).then(|| "Must be of type Boolean".to_owned()),
        Is::OneOf(all) => {
            let good = text.is_some_and(|text| all.contains(&text));
            (!good).then(|| format!("Must be one of {}", all.join(", ")))
        }
        Is::Tags => return check_tags(name, value, errors),
        Is::Ids => {
            let ids = value.as_array();
            let good = ids.is_some_and(|ids| ids.iter().all(Value::is_u64));
            (!good).then(|| "Must be a list of Integers".to_owned())
        }
        Is::Texts => {
            let texts = value.as_array();
            let good = texts.is_some_and(|texts| texts.iter().all(Value::is_string));
            (!good).then(|| "Must be a list of Strings".to_owned())
        }
        Is::Object(fields) => match value.as_object() {
            Some(object) => return check(&format!("{name}."), object, fields, errors),
            None => Some("Must be of type Object".to_owned()),
        },
        Is::Objects(fields) => return check_list(name, value, fields, errors),
    };
    if let Some(complaint) = complaint {
        errors.add(name, complaint);
    }
}

fn check_list(name: &str, value: &Value, fields: &[Field], errors: &mut Errors) {
    let Some(items) = value.as_array() else {
        return errors.add(name, "Must be of type Array");
    };
    for (index, item) in items.iter().enumerate() {
        let name = format!("{name}[{index}]");
        match item.as_object() {
            Some(object) => check(&format!("{name}."), object, fields, errors),
            None => errors.add(name, "Must be of type Object"),
        }
    }
}

/// Each tag that is wrong is an error of its own, which names it.
fn check_tags(name: &str, value: &Value, errors: &mut Errors) {
    let Some(tags) = value.as_array() else {
        return errors.add(name, "Must be of type Array");
    };
    for (index, tag) in tags.iter().enumerate() {
        let name = format!("{name}[{index}]");
        match tag.as_str() {
            None => errors.add(name, "Must be of type String"),
            Some(tag) if !(3..=50).contains(&tag.trim().chars().count()) => {
                errors.add(
                    name,
                    format!("Tag '{tag}' must be between 3 and 50 characters"),
                );
            }
            Some(_) => {}
        }
    }
}

fn label_error(text: &str, others: &str) -> Option<String> {
    let is_good = |letter: char| {
        letter.is_ascii_alphanumeric() || "-_".contains(letter) || others.contains(letter)
    };
    if !(3..=32).contains(&text.chars().count()) {
        return Some("Length must be 3-32 characters".to_owned());
    }
    (!text.chars().all(is_good)).then(|| {
        format!(
            "May only contain letters, numbers, hyphens, underscores{}",
            {
                if others.is_empty() {
                    ""
                } else {
                    " and periods"
                }
            }
        )
    })
}
