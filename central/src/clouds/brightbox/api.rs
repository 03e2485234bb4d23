//! The endpoints of Brightbox's API 1.0, and the shapes of what they answer.
//!
//! Of each object only what it cannot be told apart without is insisted on, and words that are not known
//! are kept as they are: a strange object must not hide all others.

pub(super) mod balancers;
mod cloud_ips;
mod firewall;
mod servers;

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use crate::cloud_api::{ErrorDecoder, ErrorKind, Refusal, Request, or_default};
use crate::resources;

pub(super) use balancers::{Balancer, BalancerSpec, HealthCheck, Listener, plain_name};
pub(super) use cloud_ips::CloudIp;
pub(super) use firewall::{Group, MOST_PORTS, Policy, Rule, RuleSpec, each};
pub(super) use servers::Server;

resources! {
    /// Servers.
    pub(super) SERVERS: Server, "server", "server", "servers", "servers";
    /// Load balancers.
    pub(super) BALANCERS: Balancer, "load balancer", "load_balancer", "load_balancers", "load_balancers";
    /// Cloud IPs.
    pub(super) CLOUD_IPS: CloudIp, "Cloud IP", "cloud_ip", "cloud_ips", "cloud_ips";
    /// Server groups.
    pub(super) GROUPS: Group, "server group", "server_group", "server_groups", "server_groups";
    /// Firewall policies.
    pub(super) POLICIES: Policy, "firewall policy", "firewall_policy", "firewall_policies", "firewall_policies";
    /// Firewall rules.
    pub(super) RULES: Rule, "firewall rule", "firewall_rule", "firewall_rules", "firewall_rules";
}

/// What anybody may ask whose token is valid.
pub(super) fn accounts() -> Request {
    Request::get("list_accounts", "accounts")
}

/// Whether this is an identifier of that kind, with so many letters and digits at least.
pub(super) fn is_id(text: &str, kind: &str, least: usize) -> bool {
    let is_usual = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let rest = text.strip_prefix(kind);
    rest.is_some_and(|rest| rest.len() >= least && rest.chars().all(is_usual))
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
