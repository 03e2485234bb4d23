//! The endpoints of PhoenixNAP's API, and the shapes of what they answer.
//!
//! Of each object only what it cannot be told apart without is insisted on: a new or missing field
//! of one must not hide all others.

pub mod bgp;
mod billing;
pub mod blocks;
pub mod ip_blocks;
pub mod public_networks;
pub mod servers;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NAME;
use crate::cloud_api::{Client, CloudError, ErrorDecoder, ErrorKind, Refusal, Request};

/// PhoenixNAP's API: what is asked of it in the files beside this one.
#[derive(Debug)]
pub struct Api {
    client: Client,
}

impl Api {
    /// The API that this client speaks to.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// [`Client::credentials`].
    pub fn credentials(&self) -> u64 {
        self.client.credentials()
    }

    /// What is asked for by its identifier: an answer about something else is malformed.
    async fn same<T: DeserializeOwned>(
        &self,
        request: &Request,
        id: &str,
        id_of: fn(&T) -> &str,
    ) -> Result<T, CloudError> {
        let found: T = self.client.fetch(request).await?;
        if id_of(&found) == id {
            return Ok(found);
        }
        let problem = "something else was given than what was asked for";
        Err(self.client.malformed(request, problem))
    }
}

/// Whether an answer may mean that there is no such thing.
pub(super) fn may_not_exist(error: &CloudError) -> bool {
    matches!(error.kind, ErrorKind::Forbidden | ErrorKind::NotFound)
}

/// The error of an answer that cannot be used.
pub(super) fn malformed(problem: impl Into<String>) -> CloudError {
    CloudError::new(NAME, ErrorKind::Malformed, problem)
}

/// A tag on an object. Its name must be known to the account before it is given to anything
/// ([`blocks::BlockCloud::create_tag`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tag {
    /// At most 100 letters, digits, `_` and `-`.
    pub name: String,
    /// The same; none: the name says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Tag {
    /// A tag with a value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: Some(value.into()),
        }
    }

    /// How queries name it: `usage.cloud-provider-phoenixnap-auto`.
    pub fn query(&self) -> String {
        match &self.value {
            Some(value) => format!("{}.{value}", self.name),
            None => self.name.clone(),
        }
    }
}

/// PhoenixNAP's errors: `{"message": "…", "validationErrors": ["…"]}`.
#[derive(Debug)]
pub struct ErrorShape;

#[derive(Deserialize)]
struct ErrorBody {
    message: String,
    #[serde(default, rename = "validationErrors")]
    details: Value,
}

impl ErrorShape {
    /// `message: detail, detail`. None unless it is such a body.
    fn reasons(body: &[u8]) -> Option<String> {
        let body: ErrorBody = serde_json::from_slice(body).ok()?;
        let details = body.details.as_array().into_iter().flatten();
        let details: Vec<&str> = details.filter_map(Value::as_str).collect();
        Some(if details.is_empty() {
            body.message
        } else {
            format!("{}: {}", body.message, details.join(", "))
        })
    }
}

impl ErrorDecoder for ErrorShape {
    /// 403 is said of what may not be seen and of what does not exist, so it proves neither.
    fn refusal(&self, status: StatusCode, _: &HeaderMap, body: &[u8]) -> Refusal {
        let mut refusal = Refusal::by_status(status, Self::reasons(body));
        match status {
            // Anybody in between can answer 404; only the API answers it in its own shape.
            StatusCode::NOT_FOUND if refusal.words.is_some() => refusal.kind = ErrorKind::NotFound,
            StatusCode::FORBIDDEN => {
                refusal.remedy = Some(
                    "this is also its answer where there is no such thing; if there is, give the \
                     credential the scopes bmc, bmc.read, tags and tags.read",
                );
            }
            _ => {}
        }
        refusal
    }

    fn error_in_success(&self, body: &[u8]) -> Option<String> {
        // Objects have identifiers and no message.
        let is_object = |body: &[u8]| {
            let fields: Option<serde_json::Map<String, Value>> = serde_json::from_slice(body).ok();
            fields.is_some_and(|fields| fields.contains_key("id") || fields.contains_key("result"))
        };
        (body.len() < 4096 && !is_object(body))
            .then(|| Self::reasons(body))
            .flatten()
    }
}

#[cfg(test)]
mod tests;
