//! The endpoints of cloudscale.ch's API v1, and the shapes of what they answer.
//!
//! Of each object only what it cannot be told apart without is insisted on: a new or missing field
//! of one must not hide all others.

pub(super) mod balancers;
pub(super) mod floating_ips;
pub(super) mod parts;
pub(super) mod servers;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::cloud_api::{ErrorDecoder, ErrorKind, Refusal, referred};
use crate::engine::canonical::{canonical_address, canonical_uuid};

/// The UUID of a subnet in canonical form, as the cloud says it or as it is told.
pub(super) fn subnet<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    Ok(referred(deserializer)?.map(|uuid| canonical_uuid(&uuid)))
}

/// An address, in canonical form.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| canonical_address(&text))
}

/// cloudscale.ch's errors: `{"detail": "Not found."}`, or a text or several for each field.
#[derive(Debug)]
pub(super) struct ErrorShape;

impl ErrorShape {
    /// `detail: Not found.; name: too long, not unique`. None unless it is such a body.
    fn reasons(body: &Value) -> Option<String> {
        let one = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Array(texts) => {
                let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
                texts.join(", ")
            }
            other => other.to_string(),
        };
        let reasons: Vec<String> = match body {
            Value::Object(fields) => fields
                .iter()
                .map(|(field, value)| format!("{field}: {}", one(value)))
                .collect(),
            Value::Array(_) | Value::String(_) => vec![one(body)],
            _ => Vec::new(),
        };
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

impl ErrorDecoder for ErrorShape {
    fn refusal(&self, status: StatusCode, _: &HeaderMap, body: &[u8]) -> Refusal {
        let read: Option<Value> = serde_json::from_slice(body).ok();
        let mut refusal = Refusal::by_status(status, read.as_ref().and_then(Self::reasons));
        // The shape of the body says nothing, but HTML says that it was somebody else.
        if status == StatusCode::NOT_FOUND && (read.is_some() || body.is_empty()) {
            refusal.kind = ErrorKind::NotFound;
        }
        refusal
    }

    fn error_in_success(&self, body: &[u8]) -> Option<String> {
        let body: Value = serde_json::from_slice(body.get(..4096).unwrap_or(body)).ok()?;
        let fields = body.as_object()?;
        let is_error = fields.len() == 1 && fields.contains_key("detail");
        is_error.then(|| Self::reasons(&body)).flatten()
    }
}
