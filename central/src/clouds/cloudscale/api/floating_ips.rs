//! Floating IPs.

use serde::Deserialize;

use super::Reference;
use crate::cloud_api::{Request, lenient};

/// One floating IP.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FloatingIp {
    /// Its network, which is its identity: `203.0.113.9/32`.
    pub(crate) network: String,
    /// The load balancer that it leads to.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) load_balancer: Option<Reference>,
    /// The server that it leads to.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) server: Option<Reference>,
}

/// The path of one, by its network.
pub(crate) fn path(network: &str) -> String {
    let address = network.split('/').next().unwrap_or(network);
    format!("floating-ips/{address}")
}

/// One floating IP, by its network.
pub(crate) fn one(network: &str) -> Request {
    Request::get("get_floating_ip", path(network))
}

/// All floating IPs.
pub(crate) fn all() -> Request {
    Request::get("list_floating_ips", "floating-ips")
}
