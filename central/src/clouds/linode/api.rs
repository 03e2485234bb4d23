//! The endpoints of Linode's API v4, and the shapes of what they answer.

pub(super) mod node_balancers;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, SERVER};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use crate::api_objects;
use crate::cloud_api::{ErrorDecoder, ErrorKind, Kind, Refusal, Request};
use crate::resource_kinds;

/// Linode allows at most so many rows on a page.
const PAGE_SIZE: u32 = 500;
/// For how long to leave a Linode alone that is busy, as Linode's own client does.
const BUSY: Duration = Duration::from_secs(3);
const FILTER: &str = "x-filter";

api_objects! {
    /// One Linode. Only its number is needed.
    #[derive(Clone, Debug, Deserialize)]
    pub(super) struct Instance {
        /// Its number.
        pub(super) id: u64,
        /// Its name, unique in the account.
        pub(super) label?: Option<String>,
        /// Where it stands.
        pub(super) region?: Option<String>,
        /// Its type, such as `g6-standard-2`.
        #[serde(rename = "type")]
        pub(super) kind?: Option<String>,
        /// `running`, `offline` and others.
        pub(super) status?: Option<String>,
        /// Public and private addresses.
        pub(super) ipv4?: Option<Vec<String>>,
        /// Its public address with prefix length; null if it has none.
        #[serde(default)]
        pub(super) ipv6: Value,
        /// The host that it runs on.
        pub(super) host_uuid?: Option<String>,
        /// `legacy_config` or `linode`.
        pub(super) interface_generation?: Option<String>,
    }
}

/// One VPC, or one subnet of a VPC.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Labelled {
    /// Its number.
    pub(super) id: u64,
    /// Its name; that of a subnet is unique in its VPC.
    pub(super) label: Option<String>,
    /// The IPv4 range of a subnet.
    pub(super) ipv4: Option<String>,
}

/// One address, or range, that is taken in a VPC.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct VpcRow {
    /// Whose it is; null, absent or 0: no Linode's.
    pub(super) linode_id: Option<u64>,
    /// In which subnet.
    pub(super) subnet_id: Option<u64>,
    /// The IPv4 address; null for a range and for IPv6.
    pub(super) address: Option<String>,
    /// The IPv4 range that is routed to the interface; null for an address and for IPv6.
    pub(super) address_range: Option<String>,
    /// The length of the subnet's prefix.
    pub(super) prefix: Option<u8>,
    /// The interface, and the configuration profile that it belongs to; null or 0: it is the Linode's own.
    pub(super) interface_id: Option<u64>,
    pub(super) config_id: Option<u64>,
    /// Whether the Linode runs with it.
    pub(super) active: Option<bool>,
    /// The IPv6 range that the addresses are in.
    pub(super) ipv6_range: Option<String>,
    /// The IPv6 addresses.
    pub(super) ipv6_addresses: Option<Vec<VpcIpv6>>,
    /// Whether the outside reaches the IPv6 addresses.
    pub(super) ipv6_is_public: Option<bool>,
}

impl VpcRow {
    /// Whether it is about IPv4.
    pub(super) const fn is_ipv4(&self) -> bool {
        self.address.is_some() || self.address_range.is_some()
    }
}

/// One IPv6 address of a [`VpcRow`].
#[derive(Clone, Debug, Deserialize)]
pub(super) struct VpcIpv6 {
    /// The address.
    pub(super) slaac_address: Option<String>,
}

resource_kinds! {
    /// Linodes.
    pub(super) INSTANCES: "instance", "instances", "linode/instances";
    /// Configuration profiles of a Linode.
    pub(super) PROFILES: "instance_config", "instance_configs", "linode/instances/{}/configs";
    /// Interfaces of a configuration profile.
    pub(super) PROFILE_INTERFACES: "instance_config_interface", "instance_config_interfaces", "linode/instances/{}/configs/{}/interfaces";
    /// Interfaces of a Linode that are its own.
    pub(super) INTERFACES: "interface", "interfaces", "linode/instances/{}/interfaces";
    /// VPCs.
    pub(super) VPCS: "vpc", "vpcs", "vpcs";
    /// Subnets of a VPC.
    pub(super) SUBNETS: "vpc_subnet", "vpc_subnets", "vpcs/{}/subnets";
    /// IPv4 addresses in a VPC.
    pub(super) VPC_IPV4: "vpc_ip_address", "vpc_ip_addresses", "vpcs/{}/ips";
    /// IPv6 addresses in a VPC.
    pub(super) VPC_IPV6: "vpc_ipv6_address", "vpc_ipv6_addresses", "vpcs/{}/ipv6s";
}

/// Who the token belongs to.
pub(super) fn profile() -> Request {
    Request::get("get_profile", "profile")
}

/// All of a kind, as far as they belong to these.
pub(super) fn all(kind: &Kind, of: &[&str]) -> Request {
    filtered(kind, of, &json!({}))
}

/// All of a kind of which this holds.
pub(super) fn filtered(kind: &Kind, of: &[&str], filter: &Value) -> Request {
    let request = kind.list(of).query("page_size", PAGE_SIZE.to_string());
    request.header(FILTER, filter.to_string())
}

/// Linode's errors: `{"errors": [{"field": "label", "reason": "Must be unique"}]}`.
#[derive(Debug)]
pub(super) struct ErrorShape;

impl ErrorShape {
    /// `[field] reason; [field] reason`. None unless it is such a body.
    fn reasons(body: &[u8]) -> Option<String> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let errors = body.get("errors")?.as_array()?.iter();
        let reasons: Vec<String> = errors
            .map(|error| {
                let text = |key| error.get(key).and_then(Value::as_str);
                let reason = text("reason").unwrap_or("no reason given");
                text("field").map_or_else(|| reason.to_owned(), |f| format!("[{f}] {reason}"))
            })
            .collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

impl ErrorDecoder for ErrorShape {
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Refusal {
        let reasons = Self::reasons(body);
        let words = reasons
            .as_ref()
            .map(|reasons| format!("[{:03}] {reasons}", status.as_u16()));
        let mut refusal = Refusal::by_status(status, words);
        let said = reasons.as_deref().unwrap_or_default();
        match status {
            // The token is known, and lacks the scope.
            StatusCode::UNAUTHORIZED if said.contains("not authorized to use this endpoint") => {
                refusal.kind = ErrorKind::Forbidden;
            }
            // Anybody in between can answer 404; only the API answers it in its own shape.
            StatusCode::NOT_FOUND if reasons.is_some() => refusal.kind = ErrorKind::NotFound,
            StatusCode::BAD_REQUEST if is_busy(reasons.as_deref(), headers) => {
                refusal.kind = ErrorKind::Busy;
                refusal.retry_after = Some(BUSY);
            }
            _ => {}
        }
        refusal
    }

    fn error_in_success(&self, body: &[u8]) -> Option<String> {
        // Lists of Linodes are long; an error is not.
        (body.len() < 4096).then(|| Self::reasons(body)).flatten()
    }
}

/// A Linode at work refuses changes, and an overloaded front end refuses anything, both with 400.
fn is_busy(reasons: Option<&str>, headers: &HeaderMap) -> bool {
    let begins = |name, with: &str| {
        let value = headers.get(name).and_then(|v| v.to_str().ok());
        value.is_some_and(|value| value.starts_with(with))
    };
    match reasons {
        Some(reasons) => reasons.contains("Linode busy."),
        None => begins(SERVER, "nginx") && begins(CONTENT_TYPE, "text/html"),
    }
}
