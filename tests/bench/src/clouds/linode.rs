//! Linode.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use super::{Served, SimulatedCloud, uid};
use mooring_cloud_sim::linode::{Instance, Kind, Limits, Linode};
use mooring_cloud_sim::{Calls, Faults, TOKEN};
use mooring_common::names::linode_tags;

/// The region of all.
pub(crate) const REGION: &str = "eu-central";
/// The IDs of Linodes begin here, beside those that the simulation gives.
const MACHINES: usize = 5_000_000;

impl SimulatedCloud for Linode {
    const PROVIDER: &'static str = "linode";
    const TIMEOUT: &'static str = "LINODE_REQUEST_TIMEOUT_SECONDS";

    async fn open() -> Result<Self> {
        let linode = Self::start().await?;
        linode.limit(Limits::none());
        Ok(linode)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LINODE_URL", self.url()),
            ("LINODE_API_TOKEN", TOKEN.to_owned()),
            ("LINODE_REGION", REGION.to_owned()),
        ]
    }

    fn add_machine(&self, n: usize) {
        let instance = Instance::labelled(&format!("n{n}")).ipv4(&Self::address(n));
        self.restore((MACHINES + n) as u64, instance);
    }

    fn provider_id(n: usize) -> String {
        format!("linode://{}", MACHINES + n)
    }

    fn address(n: usize) -> String {
        format!("192.168.{}.{}", 128 + n / 250, n % 250 + 1)
    }

    fn calls(&self) -> Calls {
        self.calls()
    }

    fn faults(&self) -> &Faults {
        self.faults()
    }

    fn set_latency(&self, latency: Duration) {
        self.set_latency(latency);
    }

    fn served(&self, services: &[Service]) -> Vec<Served> {
        let mut nodes: HashMap<u64, Vec<String>> = HashMap::new();
        for node in self.all(Kind::Node) {
            let takes_traffic = node["mode"] == "accept" || node["mode"] == "none";
            let config = node["config_id"].as_u64().unwrap_or_default();
            if takes_traffic {
                let address = node["address"].as_str().unwrap_or_default();
                nodes.entry(config).or_default().push(address.to_owned());
            }
        }
        let mut configs: HashMap<u64, Served> = HashMap::new();
        for config in self.all(Kind::Config) {
            let balancer = config["nodebalancer_id"].as_u64().unwrap_or_default();
            let protocol = if config["protocol"] == "udp" {
                "udp"
            } else {
                "tcp"
            };
            let port = format!("{protocol}/{}", config["port"]);
            let own = nodes.remove(&config["id"].as_u64().unwrap_or_default());
            let own = own.into_iter().flatten().collect();
            configs.entry(balancer).or_default().insert(port, own);
        }
        let balancers = self.all(Kind::NodeBalancer);
        let served = services.iter().map(|service| {
            let balancer = balancers.iter().find(|one| is_marked(one, service));
            let id = balancer.and_then(|balancer| balancer["id"].as_u64());
            id.and_then(|id| configs.remove(&id)).unwrap_or_default()
        });
        served.collect()
    }
}

/// Whether a NodeBalancer or firewall was made for this Service, by its tags.
pub(crate) fn is_marked(object: &Value, service: &Service) -> bool {
    let mark = format!("{}{}", linode_tags::SERVICE, uid(service));
    let tags = object["tags"].as_array();
    tags.into_iter().flatten().any(|tag| *tag == mark)
}
