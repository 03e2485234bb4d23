//! The endpoints of Linode's API v4, and the shapes of what they answer.

pub(super) mod node_balancers;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, HeaderMap, SERVER};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use crate::cloud_api::{ErrorDecoder, ErrorKind, Kind, Refusal, Request, lenient};

/// Linode allows at most so many rows on a page.
const PAGE_SIZE: u32 = 500;
/// For how long to leave a Linode alone that is busy, as Linode's own client does.
const BUSY: Duration = Duration::from_secs(3);
const FILTER: &str = "x-filter";

/// One Linode. Only its number is needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Instance {
    /// Its number.
    pub(super) id: u64,
    /// Its name, unique in the account.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) label: Option<String>,
    /// Where it stands.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) region: Option<String>,
    /// Its type, such as `g6-standard-2`.
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    /// `running`, `offline` and others.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
    /// Public and private addresses.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) ipv4: Option<Vec<String>>,
    /// Its public address with prefix length; null if it has none.
    #[serde(default)]
    pub(super) ipv6: Value,
    /// The host that it runs on.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) host_uuid: Option<String>,
    /// `legacy_config` or `linode`.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) interface_generation: Option<String>,
}

/// One VPC.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Vpc {
    /// Its number.
    pub(super) id: u64,
    /// Its name.
    pub(super) label: Option<String>,
}

/// One subnet of a VPC.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Subnet {
    /// Its number.
    pub(super) id: u64,
    /// Its name, unique in its VPC.
    pub(super) label: Option<String>,
    /// Its IPv4 range.
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
    /// The interface, and the configuration profile that it belongs to; null if it is the Linode's own.
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

/// One IPv6 address of a [`VpcRow`].
#[derive(Clone, Debug, Deserialize)]
pub(super) struct VpcIpv6 {
    /// The address.
    pub(super) slaac_address: Option<String>,
}

/// Who the token belongs to.
pub(super) fn profile() -> Request {
    Request::get("get_profile", "profile")
}

/// All Linodes, or those with this tag.
pub(super) fn instances(tag: Option<&str>) -> Request {
    let filter = tag.map_or_else(|| json!({}), |tag| json!({"tags": {"+contains": tag}}));
    collection("list_instances", "linode/instances".to_owned(), &filter)
}

/// One Linode.
pub(super) fn instance(id: &str) -> Request {
    Request::get("get_instance", format!("linode/instances/{id}"))
}

/// The configuration profiles of a Linode.
pub(super) fn configs(linode: &str) -> Request {
    let path = format!("linode/instances/{linode}/configs");
    collection("list_instance_configs", path, &json!({}))
}

/// The interfaces of a Linode that are its own.
pub(super) fn interfaces(linode: &str) -> Request {
    Request::get(
        "list_interfaces",
        format!("linode/instances/{linode}/interfaces"),
    )
}

/// All VPCs.
pub(super) fn vpcs() -> Request {
    collection("list_vpcs", "vpcs".to_owned(), &json!({}))
}

/// All subnets of a VPC.
pub(super) fn subnets(vpc: u64) -> Request {
    collection(
        "list_vpc_subnets",
        format!("vpcs/{vpc}/subnets"),
        &json!({}),
    )
}

/// One subnet of a VPC.
pub(super) fn subnet(vpc: u64, subnet: u64) -> Request {
    Request::get("get_vpc_subnet", format!("vpcs/{vpc}/subnets/{subnet}"))
}

/// All IPv4 addresses in these subnets of a VPC.
pub(super) fn vpc_ipv4(vpc: u64, subnets: &[u64]) -> Request {
    let path = format!("vpcs/{vpc}/ips");
    collection("list_vpc_ip_addresses", path, &in_subnets(subnets))
}

/// All IPv6 addresses in these subnets of a VPC.
pub(super) fn vpc_ipv6(vpc: u64, subnets: &[u64]) -> Request {
    let path = format!("vpcs/{vpc}/ipv6s");
    collection("list_vpc_ipv6_addresses", path, &in_subnets(subnets))
}

/// Several subnets stand in one text, as Linode's controller wrote it.
fn in_subnets(subnets: &[u64]) -> Value {
    let numbers: Vec<String> = subnets.iter().map(ToString::to_string).collect();
    json!({"subnet_id": numbers.join(",")})
}

/// All of a kind, as far as they belong to these.
pub(super) fn all(kind: &Kind, of: &[&str]) -> Request {
    filtered(kind.list(of), &json!({}))
}

fn collection(operation: &'static str, path: String, filter: &Value) -> Request {
    filtered(Request::get(operation, path), filter)
}

fn filtered(request: Request, filter: &Value) -> Request {
    request
        .query("page_size", PAGE_SIZE.to_string())
        .header(FILTER, filter.to_string())
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
        match status {
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
