//! Floating IPs.

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::cloud_api::{Request, referred};
use crate::engine::canonical::address_of;
use crate::engine::provider::Holder;

/// One floating IP.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct FloatingIp {
    /// Its network, `203.0.113.9/32`, whose address is its identity.
    network: String,
    /// The UUID of the load balancer that it leads to.
    #[serde(default, deserialize_with = "referred")]
    load_balancer: Option<String>,
    /// The UUID of the server that it leads to.
    #[serde(default, deserialize_with = "referred")]
    server: Option<String>,
}

impl FloatingIp {
    /// Its address in canonical form; its network as it is if that has none.
    pub(crate) fn address(&self) -> String {
        address_of(&self.network).unwrap_or_else(|| self.network.clone())
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

/// All floating IPs.
pub(crate) fn all() -> Request {
    Request::get("list_floating_ips", "floating-ips")
}

/// Lets the one of this address lead to this load balancer.
pub(crate) fn assign(address: &str, balancer: &str) -> Request {
    let path = format!("floating-ips/{address}");
    let body = json!({"load_balancer": balancer});
    Request::new("assign_floating_ip", Method::PATCH, path).json(body)
}
