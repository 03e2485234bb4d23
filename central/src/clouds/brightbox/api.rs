//! The endpoints of Brightbox's API 1.0, and the shapes of what they answer.
//!
//! Of each object only what it cannot be told apart without is insisted on, and words that are not known
//! are kept as they are: a strange object must not hide all others.

mod balancers;
mod cloud_ips;
mod firewall;
pub(super) mod servers;

use std::collections::BTreeSet;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Deserializer};

use crate::cloud_api::{ErrorDecoder, ErrorKind, Refusal, or_default};
use crate::resource_kinds;

pub(super) use balancers::{Acme, Balancer, Domain, HealthCheck, Listener, plain_name};
pub(super) use cloud_ips::CloudIp;
pub(super) use firewall::{Group, MOST_PORTS, Policy, Rule, RuleSpec, each};

resource_kinds! {
    /// Servers.
    pub(super) SERVERS: "server", "servers", "servers";
    /// Load balancers.
    pub(super) BALANCERS: "load_balancer", "load_balancers", "load_balancers";
    /// Cloud IPs.
    pub(super) CLOUD_IPS: "cloud_ip", "cloud_ips", "cloud_ips";
    /// Server groups.
    pub(super) GROUPS: "server_group", "server_groups", "server_groups";
    /// Firewall policies.
    pub(super) POLICIES: "firewall_policy", "firewall_policies", "firewall_policies";
    /// Firewall rules.
    pub(super) RULES: "firewall_rule", "firewall_rules", "firewall_rules";
}

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

/// Whether this is an identifier of that kind, with so many letters and digits at least.
pub(super) fn is_id(text: &str, kind: &str, least: usize) -> bool {
    let is_usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let rest = text.strip_prefix(kind);
    rest.is_some_and(|rest| rest.len() >= least && rest.chars().all(is_usual))
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
