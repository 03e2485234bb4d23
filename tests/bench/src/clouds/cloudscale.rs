//! cloudscale.ch.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Service;

use super::{Served, SimulatedCloud, uid};
use mooring_cloud_sim::cloudscale::{Cloudscale, Interface, Machine};
use mooring_cloud_sim::{Calls, Faults, TOKEN};

impl SimulatedCloud for Cloudscale {
    const PROVIDER: &'static str = "cloudscale";
    const TIMEOUT: &'static str = "CLOUDSCALE_API_TIMEOUT";

    async fn open() -> Result<Self> {
        Self::start().await
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CLOUDSCALE_API_URL", self.url()),
            ("CLOUDSCALE_ACCESS_TOKEN", TOKEN.to_owned()),
        ]
    }

    fn add_machine(&self, n: usize) {
        let private = Interface::private().address(&Self::address(n));
        let machine = Machine::named(&format!("n{n}")).interface(private);
        self.restore(&uuid(n), machine);
    }

    fn provider_id(n: usize) -> String {
        format!("cloudscale://{}", uuid(n))
    }

    fn address(n: usize) -> String {
        format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250 + 1)
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
        let names = services.iter().map(balancer_name);
        names.map(|name| self.traffic(&name).now()).collect()
    }
}

fn uuid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// The name that a Service's load balancer has by default.
pub(crate) fn balancer_name(service: &Service) -> String {
    format!("k8s-service-{}", uid(service))
}
