//! Load balancers of cloudscale.ch: the scenarios for every cloud, and its own.

mod annotation_effects;
mod annotations;
mod annotations_refused;
pub(crate) mod cloud;
mod ending;
mod floating_ips;
mod late_listings;
mod migration;
pub(crate) mod migration_state;
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
#[path = "../service_scenarios/selected_nodes.rs"]
mod selected_nodes;
#[path = "../service_scenarios/slow_creation.rs"]
mod slow_creation;
#[path = "../service_scenarios/source_ranges.rs"]
mod source_ranges;
#[path = "../service_scenarios/status.rs"]
mod status;
#[path = "../service_scenarios/udp.rs"]
mod udp;

use kube::api::ListParams;
use mooring_cloud_sim::Calls;
use mooring_cloud_sim::cloudscale::{Cloudscale, Kind};
use mooring_test_cluster::shipped::CentralFlags;
use serde_json::Value;

use cloud::annotation;
use cluster::{CloudCluster, LoadBalancerCloud as _};

/// What all of its annotations begin with.
const PREFIX: &str = "k8s.cloudscale.ch/loadbalancer-";

/// An annotation by what its name ends with.
pub(crate) fn key(end: &str) -> String {
    format!("{PREFIX}{end}")
}

impl CloudCluster {
    /// The same, with so many passes over Services side by side.
    pub(crate) fn workers(&self, count: usize) -> CentralFlags {
        self.flags()
            .with(format!("--concurrent-service-syncs={count}"))
    }

    /// Takes all markers away again.
    pub(crate) async fn delete_markers(&self) {
        let all = self.services().list(&ListParams::default()).await.unwrap();
        let names = all.into_iter().filter_map(|service| service.metadata.name);
        for name in names.filter(|name| name.starts_with(cluster::MARKER)) {
            self.delete(&name).await;
            self.gone(&name).await;
        }
    }

    /// The simulation.
    fn sim(&self) -> &Cloudscale {
        self.cloud.sim()
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
        self.cloud.writes_on(uuid)
    }
}
