//! The parts of load balancers: pools, their members, listeners, health monitors.

use serde::Deserialize;

use super::Reference;
use crate::cloud_api::{Request, lenient};

/// One pool.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pool {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    /// `round_robin`, `least_connections`, `source_ip`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) algorithm: Option<String>,
    /// `tcp`, `udp`, `proxy`, `proxyv2`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) protocol: Option<String>,
    /// What it is a part of.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) load_balancer: Option<Reference>,
}

/// One member of a pool.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Member {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    /// Whether it is given traffic.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) enabled: Option<bool>,
    /// Its address.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) address: Option<String>,
    /// The subnet of its address.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) subnet: Option<Reference>,
    /// The port that traffic goes to.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) protocol_port: Option<u16>,
    /// The port that the health monitor asks.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) monitor_port: Option<u16>,
    /// What the health monitor says: `up`, `down`, `changing`, `no_monitor`, `unknown`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) monitor_status: Option<String>,
}

/// One listener.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Listener {
    /// Its UUID.
    pub(crate) uuid: String,
    /// Its name.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    /// `tcp` or `udp`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) protocol: Option<String>,
    /// The port that clients use.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) protocol_port: Option<u16>,
    /// The pool that it feeds.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) pool: Option<Reference>,
    /// What it is a part of.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) load_balancer: Option<Reference>,
    /// Who may connect.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) allowed_cidrs: Option<Vec<String>>,
    /// Milliseconds that a client may be silent.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) timeout_client_data_ms: Option<u32>,
    /// Milliseconds that connecting to a member may take.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) timeout_member_connect_ms: Option<u32>,
    /// Milliseconds that a member may be silent.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) timeout_member_data_ms: Option<u32>,
}

/// One health monitor.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Monitor {
    /// Its UUID.
    pub(crate) uuid: String,
    /// The pool whose members it asks.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) pool: Option<Reference>,
    /// `tcp`, `http`, `udp-connect`.
    #[serde(default, rename = "type", deserialize_with = "lenient")]
    pub(crate) kind: Option<String>,
    /// Seconds between two questions.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) delay_s: Option<u32>,
    /// Seconds that an answer may take.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) timeout_s: Option<u32>,
    /// Good answers in a row that make a member healthy.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) up_threshold: Option<u32>,
    /// Bad ones that make it unhealthy.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) down_threshold: Option<u32>,
    /// How it speaks HTTP.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) http: Option<Http>,
}

/// How a health monitor speaks HTTP.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Http {
    /// `GET`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) method: Option<String>,
    /// `/livez`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) url_path: Option<String>,
    /// `1.0` or `1.1`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) version: Option<String>,
    /// The `Host` header.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) host: Option<String>,
    /// `200`, `200-204`.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) expected_codes: Option<Vec<String>>,
}

/// Where pools are.
pub(crate) const POOLS: &str = "load-balancers/pools";
/// Where listeners are.
pub(crate) const LISTENERS: &str = "load-balancers/listeners";
/// Where health monitors are.
pub(crate) const MONITORS: &str = "load-balancers/health-monitors";

/// Where the members of a pool are.
pub(crate) fn members_path(pool: &str) -> String {
    format!("{POOLS}/{pool}/members")
}

/// All pools.
pub(crate) fn pools() -> Request {
    Request::get("list_pools", POOLS)
}

/// All members of a pool.
pub(crate) fn members(pool: &str) -> Request {
    Request::get("list_members", members_path(pool))
}

/// All listeners.
pub(crate) fn listeners() -> Request {
    Request::get("list_listeners", LISTENERS)
}

/// All health monitors.
pub(crate) fn monitors() -> Request {
    Request::get("list_health_monitors", MONITORS)
}
