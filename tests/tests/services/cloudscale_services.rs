//! Load balancers of cloudscale.ch: the scenarios for every cloud, and its own.

mod annotation_effects;
mod annotations;
mod annotations_refused;
mod cloud;
mod credentials;
mod ending;
mod floating_ips;
mod late_listings;
mod migration;
mod migration_state;
mod ownership;
mod refusals;
mod robust;
mod severe;
mod shapes;
mod traffic;

#[path = "../service_scenarios/change.rs"]
mod change;
#[path = "../service_scenarios/clouds.rs"]
mod clouds;
#[path = "../service_scenarios/cluster.rs"]
mod cluster;
#[path = "../service_scenarios/create.rs"]
mod create;
#[path = "../service_scenarios/delete.rs"]
mod delete;
#[path = "../service_scenarios/efficiency.rs"]
mod efficiency;
#[path = "../service_scenarios/nodes.rs"]
mod nodes;
#[path = "../service_scenarios/plan.rs"]
mod plan;
#[path = "../service_scenarios/status.rs"]
mod status;

use mooring_tests::cloud_sim::Calls;
use mooring_tests::cloud_sim::cloudscale::{Cloudscale, Kind};
use serde_json::Value;

use cluster::{CloudCluster, annotation};

/// What all of its annotations begin with.
const PREFIX: &str = "k8s.cloudscale.ch/loadbalancer-";

/// An annotation by what its name ends with.
fn key(end: &str) -> String {
    format!("{PREFIX}{end}")
}

impl CloudCluster {
    /// The simulation.
    fn sim(&self) -> &Cloudscale {
        cloud::sim(&self.cloud)
    }

    /// The load balancer whose UUID is written on a Service.
    async fn uuid(&self, name: &str) -> String {
        let service = self.get(name).await;
        let uuid = annotation(&service, &key("uuid"));
        uuid.expect("the UUID is written on the Service").to_owned()
    }

    /// The parts of a kind of this load balancer, or itself.
    fn parts(&self, uuid: &str, kind: Kind) -> Vec<Value> {
        let mut all = self.sim().all(kind);
        all.retain(|part| match kind {
            Kind::LoadBalancer => part["uuid"] == uuid,
            _ => part["load_balancer"]["uuid"] == uuid,
        });
        all
    }

    /// What was asked to change this load balancer or its parts.
    fn writes_on(&self, uuid: &str) -> Calls {
        cloud::writes_on(&self.cloud, uuid)
    }
}
