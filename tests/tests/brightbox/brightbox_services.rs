//! Load balancers of Brightbox: the scenarios for every cloud, and its own.

mod annotations;
pub(crate) mod cloud;
mod cloud_ips;
mod crashes;
mod disorder;
mod firewalls;
mod handover;
mod https;
mod late;
pub(crate) mod left_by_go;
mod members;
mod robust;
mod tenants;

#[path = "../service_scenarios/change.rs"]
mod change;
#[path = "../service_scenarios/clouds.rs"]
mod clouds;
#[path = "../service_scenarios/cluster.rs"]
pub(crate) mod cluster;
#[path = "../service_scenarios/create.rs"]
mod create;
#[path = "../service_scenarios/delete.rs"]
mod delete;
#[path = "../service_scenarios/efficiency.rs"]
mod efficiency;
#[path = "../service_scenarios/forwarding.rs"]
mod forwarding;
#[path = "../service_scenarios/forwarding_change.rs"]
mod forwarding_change;
#[path = "../service_scenarios/forwarding_credentials.rs"]
mod forwarding_credentials;
#[path = "../service_scenarios/forwarding_failures.rs"]
mod forwarding_failures;
#[path = "../service_scenarios/forwarding_nodes.rs"]
mod forwarding_nodes;
#[path = "../service_scenarios/plan.rs"]
mod plan;
#[path = "../service_scenarios/plan_command.rs"]
mod plan_command;
#[path = "../service_scenarios/slow_creation.rs"]
mod slow_creation;
#[path = "../service_scenarios/status.rs"]
mod status;

use k8s_openapi::api::core::v1::Service;
use mooring_cloud_sim::brightbox::{Brightbox, Kind};
use mooring_common::names::reasons;
use mooring_test_cluster::objects::{EventNote, ServiceBuilder};
use mooring_test_support::wait::eventually;
use serde_json::Value;

use cluster::CloudCluster;

/// What its annotations begin with.
const PREFIX: &str = "service.beta.kubernetes.io/brightbox-load-balancer-";

/// An annotation by what its name ends with.
fn key(end: &str) -> String {
    format!("{PREFIX}{end}")
}

impl CloudCluster {
    /// The simulation.
    fn sim(&self) -> &Brightbox {
        self.cloud.sim()
    }

    /// What everything of a Service is called.
    fn named(&self, name: &str) -> String {
        format!("{name}.{}.kubernetes", self.namespace)
    }

    /// The load balancer of a Service, as the API shows it.
    async fn shown(&self, name: &str) -> Value {
        let service = self.get(name).await;
        let found = self.balancer(&service).expect("a load balancer");
        let shown = self.sim().get(Kind::LoadBalancer, &found.id);
        shown.expect("it is there")
    }

    /// Everything of a kind that is called like what a Service has.
    fn parts(&self, service: &str, kind: Kind) -> Vec<Value> {
        self.sim().named(kind, &self.named(service))
    }

    /// A Service with these annotations, by what their names end with.
    fn noted(&self, name: &str, notes: &[(&str, &str)]) -> ServiceBuilder {
        let service = self.service(name);
        notes.iter().fold(service, |service, (end, value)| {
            service.annotation(&key(end), value)
        })
    }

    /// Makes a Service with these annotations, and waits until it is served.
    async fn provide_with(&self, name: &str, notes: &[(&str, &str)]) -> Service {
        self.make(self.noted(name, notes)).await;
        self.provided(name).await
    }

    /// The annotation of a Service by what its name ends with.
    async fn note(&self, name: &str, end: &str, value: Option<&str>) {
        self.annotate(name, &key(end), value).await;
    }

    /// What Events complain of, other than what cannot be otherwise: that there are no Nodes, and what users notice.
    async fn complaints(&self, name: &str) -> Vec<EventNote> {
        let mut told = self.warnings(name).await;
        let expected = [
            reasons::UNAVAILABLE_LOAD_BALANCER,
            reasons::DISRUPTIVE_CHANGE,
        ];
        told.retain(|event| !expected.contains(&event.reason.as_str()));
        told
    }

    /// Waits until the load balancer of a Service is shown as wanted.
    async fn shows(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually(what, cluster::SOON, async || {
            let service = self.get(name).await;
            let found = self.balancer(&service).ok_or(Value::Null)?;
            let shown = self.sim().get(Kind::LoadBalancer, &found.id);
            let shown = shown.ok_or(Value::Null)?;
            if wanted(&shown) {
                Ok(shown)
            } else {
                Err(shown)
            }
        })
        .await
    }
}
