//! The endpoints of Brightbox's API 1.0, and the shapes of what they answer.
//!
//! Of each object only what it cannot be told apart without is insisted on, and words that are not known
//! are kept as they are: a strange object must not hide all others.

pub(super) mod balancers;
pub(super) mod cloud_ips;
pub(super) mod firewall;
pub(super) mod servers;

use std::collections::BTreeSet;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Deserializer};

use crate::cloud_api::{ErrorDecoder, ErrorKind, Refusal, or_default};

/// What one object shows of another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Reference {
    /// Its identifier.
    pub(super) id: String,
    /// Its name, if it has one.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) name: String,
}

impl Reference {
    /// What has this identifier.
    pub(super) fn of(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: String::new(),
        }
    }
}

/// The identifiers of several others.
fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    let all: Vec<Reference> = or_default(deserializer)?;
    Ok(all.into_iter().map(|other| other.id).collect())
}

/// Brightbox's errors: `{"error_name": "…", "errors": ["…"]}`, and those of tokens: `{"error": "…",
/// "error_description": "…"}`.
#[derive(Debug)]
pub(super) struct ErrorShape;

#[derive(Deserialize)]
struct ErrorBody {
    error: Option<String>,
    error_description: Option<String>,
    error_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    errors: Vec<String>,
}

impl ErrorBody {
    fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// `resource_conflict: The Cloud IP is mapped`. None unless it is such a body.
    fn words(self) -> Option<String> {
        let details = self.error_description.into_iter().chain(self.errors);
        let details: Vec<String> = details.collect();
        let name = self.error.or(self.error_name)?;
        Some(if details.is_empty() {
            name
        } else {
            format!("{name}: {}", details.join(", "))
        })
    }
}

impl ErrorDecoder for ErrorShape {
    fn refusal(&self, status: StatusCode, _: &HeaderMap, body: &[u8]) -> Refusal {
        let read = ErrorBody::read(body);
        let name = read.as_ref().and_then(|body| body.error_name.clone());
        let mut refusal = Refusal::by_status(status, read.and_then(ErrorBody::words));
        match (status, name.as_deref()) {
            // Anybody in between can answer 404; only the API says what is missing.
            (StatusCode::NOT_FOUND, Some("missing_resource")) => refusal.kind = ErrorKind::NotFound,
            (StatusCode::FORBIDDEN, Some("account_limit_reached")) => {
                refusal.remedy = Some(
                    "delete what is not needed, or ask Brightbox for a higher limit of the account",
                );
            }
            _ => {}
        }
        refusal
    }

    fn error_in_success(&self, body: &[u8]) -> Option<String> {
        ErrorBody::read(body.get(..4096).unwrap_or(body)).and_then(ErrorBody::words)
    }
}
