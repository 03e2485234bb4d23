//! A Service that one cloud serves, whose user chooses what its status says, and what is in the other cloud.

use std::time::Instant;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::linode::{Kind, Served};
use mooring_common::names::cloudscale_annotations::FORCE_HOSTNAME;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, create_namespace, unique};
use mooring_test_cluster::shipped::{Central, CentralFlags};
use mooring_test_support::wait::eventually;
use serde_json::json;

use super::AT_LAST;

/// A cluster at cloudscale.ch, which has load balancers of Linode too.
struct WithLinode {
    cluster: Cluster,
    namespace: String,
    cloudscale: CloudSim,
    linode: CloudSim,
}

impl WithLinode {
    async fn start() -> Self {
        let clouds = Self {
            cluster: Cluster::exclusive().await,
            namespace: unique("services"),
            cloudscale: CloudSim::start(Cloud::Cloudscale).await,
            linode: CloudSim::start(Cloud::Linode).await,
        };
        let admin = &clouds.cluster.admin;
        create_namespace(admin, &clouds.namespace).await.unwrap();
        let server = Server::named("scale").private("10.0.0.1");
        let id = clouds.cloudscale.add(server);
        let node = NodeBuilder::new("scale").provider_id(&id).ready();
        node.create(admin).await.unwrap();
        clouds
    }

    async fn central(&self) -> Central {
        let mut flags = CentralFlags::alone().cloud(&self.cloudscale);
        for (name, value) in self.linode.environment() {
            flags = flags.environment(name, value);
        }
        let flags = flags
            .without_endpoints()
            .with("--cloud-provider=cloudscale,linode")
            .with("--controllers=service");
        self.cluster.start_central(flags).await
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.cluster.admin.clone(), &self.namespace)
    }

    /// A Service at cloudscale.ch whose status is to say this host name.
    async fn create(&self, name: &str, shows: &str) {
        let service = ServiceBuilder::load_balancer(&self.namespace, name).port(80, 8080);
        let service = service.annotation(FORCE_HOSTNAME, shows);
        service.create(&self.cluster.admin).await.unwrap();
    }

    async fn shows(&self, name: &str, host: &str) {
        eventually(&format!("{name} shows {host}"), AT_LAST, async || {
            let service = self.services().get(name).await.unwrap();
            let status = service.status.clone().unwrap_or_default();
            let ingress = status.load_balancer.unwrap_or_default().ingress;
            let shown = ingress.into_iter().flatten().next();
            match shown.and_then(|entry| entry.hostname) {
                Some(shown) if shown == host => Ok(()),
                _ => Err(service),
            }
        })
        .await;
    }
}

/// The NodeBalancer of another cluster's Go controller bears no mark: only a status tells whose it is, and whoever
/// may write a Service at cloudscale.ch says what that is.
#[tokio::test]
async fn host_name_of_somebody_elses_nodebalancer_takes_nothing_away() {
    let clouds = WithLinode::start().await;
    let linode = clouds.linode.linode().expect("it is Linode");
    let theirs = Served::named("theirs").port(80, "tcp", 30080);
    let theirs = linode.leave(&theirs.node("n1", "192.168.128.1"));
    let central = clouds.central().await;
    clouds.create("mine", &theirs.hostname).await;
    clouds.shows("mine", &theirs.hostname).await;
    drop(central);

    let since = Instant::now();
    let _central = clouds.central().await;
    eventually("it was looked for at Linode", AT_LAST, async || {
        let calls = clouds.linode.calls().since(since);
        !calls.to("/v4/nodebalancers").is_empty()
    })
    .await;
    clouds.create("marker", "marker.example").await;
    clouds.shows("marker", "marker.example").await;
    let deletion = DeleteParams::default();
    clouds.services().delete("mine", &deletion).await.unwrap();
    eventually("it is gone", AT_LAST, async || {
        let service = clouds.services().get_opt("mine").await.unwrap();
        service.is_none()
    })
    .await;
    let writes = clouds.linode.calls().writes();
    assert!(writes.is_empty(), "{}", writes.summary());
    let kept = linode.get(Kind::NodeBalancer, theirs.node_balancer);
    assert!(kept.is_some());
    clouds.cluster.finish().await;
}

#[tokio::test]
async fn outage_of_one_cloud_at_the_start_holds_up_no_service_of_another() {
    let clouds = WithLinode::start().await;
    let central = clouds.central().await;
    clouds.create("web", "before.example").await;
    clouds.shows("web", "before.example").await;
    drop(central);
    clouds.linode.set_down(true);
    let wish = json!({ "metadata": { "annotations": { FORCE_HOSTNAME: "after.example" } } });
    let (params, wish) = (PatchParams::default(), Patch::Merge(&wish));
    clouds
        .services()
        .patch("web", &params, &wish)
        .await
        .unwrap();
    let _central = clouds.central().await;
    clouds.shows("web", "after.example").await;
    clouds.linode.set_down(false);
    clouds.cluster.finish().await;
}
