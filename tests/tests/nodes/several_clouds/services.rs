//! Two clouds that both have load balancers: a Service chooses by its class.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, Patch, PatchParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::cloudscale;
use mooring_cloud_sim::phoenixnap;
use mooring_test_cluster::cluster::Cluster;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, create_namespace, unique};
use mooring_test_cluster::shipped::{Central, CentralFlags, permit_kube_vip};
use mooring_test_support::wait::eventually;
use serde_json::{Value, json};

use super::AT_LAST;

/// A cluster with a Node in each of the two clouds.
struct TwoClouds {
    cluster: Cluster,
    namespace: String,
    cloudscale: CloudSim,
    phoenixnap: CloudSim,
}

impl TwoClouds {
    async fn start() -> Self {
        let clouds = Self {
            cluster: Cluster::exclusive().await,
            namespace: unique("services"),
            cloudscale: CloudSim::start(Cloud::Cloudscale).await,
            phoenixnap: CloudSim::start(Cloud::Phoenixnap).await,
        };
        let admin = &clouds.cluster.admin;
        create_namespace(admin, &clouds.namespace).await.unwrap();
        permit_kube_vip(&clouds.cluster).await.unwrap();
        for (name, cloud) in [("scale", &clouds.cloudscale), ("metal", &clouds.phoenixnap)] {
            let server = Server::named(name).private("10.0.0.1").public("192.0.2.1");
            let node = NodeBuilder::new(name)
                .provider_id(&cloud.add(server))
                .ready();
            node.create(admin).await.unwrap();
        }
        clouds
    }

    async fn central(&self) -> Central {
        let blocks = self.phoenixnap.phoenixnap().expect("it is PhoenixNAP");
        let network = blocks.add_network("services", "PHX");
        let mut flags = CentralFlags::alone().cloud(&self.cloudscale);
        for (name, value) in self.phoenixnap.environment() {
            flags = flags.environment(name, value);
        }
        let flags = flags
            .environment("PNAP_LOAD_BALANCER", format!("kube-vip://{network}"))
            .without_endpoints()
            .with("--cloud-provider=cloudscale,phoenixnap")
            .with("--controllers=service");
        self.cluster.start_central(flags).await
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.cluster.admin.clone(), &self.namespace)
    }

    fn service(&self, name: &str) -> ServiceBuilder {
        ServiceBuilder::load_balancer(&self.namespace, name).port(80, 8080)
    }

    async fn patch(&self, name: &str, patch: &Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        self.services().patch(name, &params, &patch).await.unwrap();
    }

    async fn has_address(&self, name: &str) {
        eventually(&format!("{name} has an address"), AT_LAST, async || {
            let service = self.services().get(name).await.unwrap();
            let status = service.status.clone().unwrap_or_default();
            let ingress = status.load_balancer.unwrap_or_default().ingress;
            ingress.ok_or(service)
        })
        .await;
    }

    /// How many load balancers, and how many blocks that are not on their way back.
    fn count(&self) -> (usize, usize) {
        let scale = self.cloudscale.cloudscale().expect("it is cloudscale.ch");
        let metal = self.phoenixnap.phoenixnap().expect("it is PhoenixNAP");
        let balancers = scale.all(cloudscale::Kind::LoadBalancer).len();
        (balancers, metal.all(phoenixnap::Kind::Block).len())
    }
}

#[tokio::test]
async fn a_service_chooses_its_cloud_by_class_and_leaves_nothing_in_the_other() {
    let clouds = TwoClouds::start().await;
    let _central = clouds.central().await;
    let admin = &clouds.cluster.admin;
    clouds.service("default").create(admin).await.unwrap();
    clouds.has_address("default").await;
    assert_eq!(clouds.count(), (1, 0));
    let metal = clouds.service("metal").class("mooring.dev/phoenixnap");
    metal.create(admin).await.unwrap();
    clouds.has_address("metal").await;
    assert_eq!(clouds.count(), (1, 1));

    // The class goes with the type, and with it the word of whose it was.
    clouds
        .patch(
            "metal",
            &json!({"spec": {"type": "ClusterIP", "loadBalancerClass": null}}),
        )
        .await;
    eventually("the block is given back", AT_LAST, async || {
        clouds.count() == (1, 0)
    })
    .await;
    let class = json!({"type": "LoadBalancer", "loadBalancerClass": "mooring.dev/cloudscale"});
    clouds.patch("metal", &json!({ "spec": class })).await;
    clouds.has_address("metal").await;
    eventually("it is at cloudscale.ch", AT_LAST, async || {
        clouds.count() == (2, 0)
    })
    .await;
    clouds.cluster.finish().await;
}
