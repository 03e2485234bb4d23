//! Brightbox.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;
use serde_json::Value;

use super::{Served, SimulatedCloud};
use mooring_cloud_sim::brightbox::{Behaviour, Brightbox, CLIENT_ID, CLIENT_SECRET, Kind, Machine};
use mooring_cloud_sim::{Calls, Faults};

impl SimulatedCloud for Brightbox {
    const PROVIDER: &'static str = "brightbox";
    const TIMEOUT: &'static str = "BRIGHTBOX_API_TIMEOUT";

    /// Its names need no DNS server.
    async fn open() -> Result<Self> {
        let brightbox = Self::start().await?;
        brightbox.behave(Behaviour {
            numeric_names: true,
            ..Behaviour::default()
        });
        Ok(brightbox)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("BRIGHTBOX_API_URL", self.url()),
            ("BRIGHTBOX_CLIENT", CLIENT_ID.to_owned()),
            ("BRIGHTBOX_CLIENT_SECRET", CLIENT_SECRET.to_owned()),
        ]
    }

    fn add_machine(&self, n: usize) {
        let machine = Machine::named(&format!("n{n}")).interface(Some(&Self::address(n)), None);
        self.restore(&server(n), machine);
    }

    fn provider_id(n: usize) -> String {
        format!("brightbox://{}", server(n))
    }

    fn address(n: usize) -> String {
        format!("10.0.{}.{}", n / 250, n % 250 + 1)
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
        let balancers = living(self);
        let served = services.iter().map(|service| {
            let name = name(service);
            let mut balancers = balancers.iter();
            let balancer = balancers.find(|one| one["name"] == name);
            let id = balancer.and_then(|balancer| balancer["id"].as_str());
            id.map(|id| self.traffic(id).now()).unwrap_or_default()
        });
        served.collect()
    }
}

/// The identifier of the n-th server, beside those that the simulation gives.
fn server(n: usize) -> String {
    format!("srv-node{n:05}")
}

/// What everything of a Service is called.
pub(crate) fn name(service: &Service) -> String {
    let metadata = &service.metadata;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let (name, namespace) = (part(&metadata.name), part(&metadata.namespace));
    format!("{name}.{namespace}.kubernetes")
}

/// The load balancers that are not on their way out.
pub(crate) fn living(cloud: &Brightbox) -> Vec<Value> {
    let mut all = cloud.all(Kind::LoadBalancer);
    all.retain(|one| one["status"] != "deleting" && one["status"] != "deleted");
    all
}
