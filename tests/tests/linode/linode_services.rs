//! NodeBalancers: the scenarios for every cloud, and those of Linode.

mod accounts;
mod annotations;
mod attacked;
mod backends;
mod certificates;
mod changed_firewalls;
mod chosen;
pub(crate) mod cloud;
mod crashes;
mod draining;
mod firewalls;
mod handover;
pub(crate) mod left_by_go;
mod planned;
mod ports;
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
#[path = "../service_scenarios/source_ranges.rs"]
mod source_ranges;
#[path = "../service_scenarios/status.rs"]
mod status;
#[path = "../service_scenarios/udp.rs"]
mod udp;

use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use kube::api::ListParams;
use mooring_cloud_sim::Calls;
use mooring_cloud_sim::linode::{Kind, Linode};
use mooring_test_support::wait::eventually;
use serde_json::Value;

use cloud::number;
use cluster::CloudCluster;

/// What all annotations on Services begin with.
const PREFIX: &str = "service.beta.kubernetes.io/linode-loadbalancer-";

/// An annotation by what its name ends with.
fn key(end: &str) -> String {
    format!("{PREFIX}{end}")
}

impl CloudCluster {
    /// The simulation.
    fn sim(&self) -> &Linode {
        self.cloud.sim()
    }

    /// The NodeBalancer of a Service, as the API shows it.
    async fn shown(&self, name: &str) -> Value {
        let service = self.get(name).await;
        let found = self.balancer(&service).expect("a NodeBalancer");
        let shown = self.sim().get(Kind::NodeBalancer, found.id);
        shown.expect("it is there")
    }

    /// Its id.
    async fn id(&self, name: &str) -> String {
        number(&self.shown(name).await["id"])
    }

    /// The annotation of a Service by what its name ends with.
    async fn note(&self, name: &str, end: &str, value: Option<&str>) {
        self.annotate(name, &key(end), value).await;
    }

    /// Makes a Service with these annotations, and waits until it is served.
    async fn provide_with(&self, name: &str, notes: &[(&str, &str)]) -> Service {
        let service = self.service(name);
        let service = notes.iter().fold(service, |service, (end, value)| {
            service.annotation(&key(end), value)
        });
        self.make(service).await;
        self.provided(name).await
    }

    /// Waits until a NodeBalancer is as wanted.
    async fn shows(&self, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) {
        eventually(what, cluster::SOON, async || {
            let shown = self.sim().get(Kind::NodeBalancer, id);
            if shown.as_ref().is_some_and(&wanted) {
                Ok(())
            } else {
                Err(shown)
            }
        })
        .await;
    }

    /// Waits until a NodeBalancer and its parts have been read so many times since then.
    async fn read_since(&self, id: &str, start: Instant, times: usize) {
        let path = format!("/v4/nodebalancers/{id}/configs");
        eventually(
            "its configs were read",
            cluster::AFTER_RETRIES,
            async || {
                let read = self.cloud.calls().since(start).to(&path);
                read.filter(|call| call.took.is_some()).len() >= times
            },
        )
        .await;
    }

    /// Takes all markers away again.
    async fn delete_markers(&self) {
        let all = self.services().list(&ListParams::default()).await.unwrap();
        let names = all.into_iter().filter_map(|service| service.metadata.name);
        for name in names.filter(|name| name.starts_with(cluster::MARKER)) {
            self.delete(&name).await;
            self.gone(&name).await;
        }
    }

    /// What was written since then, but for what made NodeBalancers.
    fn changes_since(&self, start: Instant) -> Calls {
        let writes = self.writes().since(start);
        writes.filter(|call| call.path != cloud::BALANCERS)
    }
}
