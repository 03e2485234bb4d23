//! The endpoints of cloudscale.ch's API v1, and the shapes of what they answer.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use crate::cloud_api::{Dialect, ErrorKind, Refusal, Request, lenient};

/// One server. Only its UUID is needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Server {
    /// Its UUID.
    pub(super) uuid: String,
    /// Its name; several may have the same.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    /// `running`, `stopped` or `changing`.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    /// Where it stands.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) zone: Option<Slug>,
    /// Its size.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) flavor: Option<Slug>,
    /// Its network cards.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) interfaces: Option<Vec<Interface>>,
}

/// Something of the catalogue.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Slug {
    /// Its short name.
    pub(super) slug: String,
}

/// One network card.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Interface {
    /// `public` or `private`.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Its addresses.
    pub(super) addresses: Vec<Address>,
}

/// One address of a network card.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Address {
    /// The address.
    pub(super) address: String,
}

/// All servers.
pub(super) fn servers() -> Request {
    Request::get("list_servers", "servers")
}

/// One server.
pub(super) fn server(uuid: &str) -> Request {
    Request::get("get_server", format!("servers/{uuid}"))
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

impl Dialect for ErrorShape {
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
