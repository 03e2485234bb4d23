//! Floating IPs.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::referred;
use crate::cloud_api::Request;
use crate::engine::canonical::canonical_network;
use crate::engine::provider::Holder;

/// One floating IP.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FloatingIp {
    /// Its network, which is its identity: `203.0.113.9/32`.
    network: String,
    /// The UUID of the load balancer that it leads to.
    #[serde(default, deserialize_with = "referred")]
    load_balancer: Option<String>,
    /// The UUID of the server that it leads to.
    #[serde(default, deserialize_with = "referred")]
    server: Option<String>,
}

impl FloatingIp {
    /// Its network in canonical form; as it is if it is none.
    pub(crate) fn name(&self) -> String {
        canonical_network(&self.network).unwrap_or_else(|| self.network.clone())
    }

    /// Whether it leads to this load balancer.
    pub(crate) fn leads_to(&self, balancer: &str) -> bool {
        self.load_balancer.as_deref() == Some(balancer)
    }

    /// What it leads to.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let balancer = self.load_balancer.clone().map(Holder::LoadBalancer);
        balancer.or_else(|| self.server.clone().map(Holder::Server))
    }
}

/// The path of one, by its network.
fn path(network: &str) -> String {
    let address = network.split('/').next().unwrap_or(network);
    format!("floating-ips/{address}")
}

/// All floating IPs.
pub(crate) fn all() -> Request {
    Request::get("list_floating_ips", "floating-ips")
}

/// Lets one lead to this load balancer.
pub(crate) fn assign(network: &str, balancer: &str) -> Request {
    let body = json!({"load_balancer": balancer});
    Request::new("assign_floating_ip", Method::PATCH, path(network)).json(body)
}
