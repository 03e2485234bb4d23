//! Four simulated clouds beside the machines file, and what goes wrong in each of them.

use std::time::Duration;

use http::StatusCode;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams};
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_cloud_sim::{Fault, Injection, When};
use mooring_common::names::linode_tags;
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::permit_kube_vip;
use mooring_test_netlab::netlab_cluster::NetlabCluster;
use mooring_test_support::process::Spec;
use mooring_test_support::wait::eventually;
use serde_json::json;
use uuid::Uuid;

use super::PAGED;
use super::cluster::Monitored;

/// Nodes that are machines of Linode. Their kubelets are down.
const AT_LINODE: [&str; 2] = ["l1", "l2"];
/// How many IP blocks the first central may have bought, and the one after it.
const BLOCKS: [&str; 2] = ["--max-ip-blocks=1", "--max-ip-blocks=2"];

/// The clouds. Each has a machine that is no Node: a listing without any proves nothing.
pub(super) struct Clouds {
    linode: CloudSim,
    cloudscale: CloudSim,
    phoenixnap: CloudSim,
    brightbox: CloudSim,
    /// The public network that IP blocks are assigned to.
    network: String,
    /// The provider IDs of [`AT_LINODE`].
    machines: Vec<String>,
    orphan: Option<u64>,
    injections: Vec<Injection>,
}

fn server(name: &str) -> Server {
    Server::named(name).private("192.168.128.9")
}

impl Clouds {
    pub(super) async fn start() -> Self {
        let phoenixnap = CloudSim::start(Cloud::Phoenixnap).await;
        let sim = phoenixnap.phoenixnap().expect("it is PhoenixNAP");
        let clouds = Self {
            network: sim.add_network("services", "PHX"),
            linode: CloudSim::start(Cloud::Linode).await,
            cloudscale: CloudSim::start(Cloud::Cloudscale).await,
            brightbox: CloudSim::start(Cloud::Brightbox).await,
            phoenixnap,
            machines: Vec::new(),
            orphan: None,
            injections: Vec::new(),
        };
        for cloud in clouds.all() {
            cloud.add(server("somebody-elses"));
        }
        clouds
    }

    fn all(&self) -> [&CloudSim; 4] {
        let Self {
            linode,
            cloudscale,
            phoenixnap,
            brightbox,
            ..
        } = self;
        [linode, cloudscale, phoenixnap, brightbox]
    }

    /// A central with these clouds, which asks them each second instead of every few minutes.
    pub(super) fn with_central(&self, central: Spec) -> Spec {
        let central = central.args([
            "--cloud-provider=linode,cloudscale,phoenixnap,brightbox,cloudlycke",
            "--node-status-update-frequency=1s",
            "--node-monitor-period=1s",
            "--load-balancer-resync-period=2s",
            "--cloud-api-qps=1000",
            "--cloud-api-burst=1000",
            BLOCKS[0],
        ]);
        let variables = self.all().into_iter().flat_map(CloudSim::environment);
        let central = variables.fold(central, |central, (name, value)| central.env(name, value));
        central.env("PNAP_LOAD_BALANCER", format!("kube-vip://{}", self.network))
    }

    /// Lets the Nodes join, and a Service have the one IP block that may be bought.
    pub(super) async fn settle(&mut self, cluster: &NetlabCluster) {
        permit_kube_vip(cluster).await.unwrap();
        for name in AT_LINODE {
            let id = self.linode.add(server(name));
            let node = NodeBuilder::new(name).provider_id(&id).not_ready();
            node.create(&cluster.admin).await.unwrap();
            self.machines.push(id);
        }
    }

    /// The first Service at PhoenixNAP gets an address of the only IP block.
    pub(super) async fn buy_block(&self, cluster: &Monitored) {
        ask(cluster, "block", Cloud::Phoenixnap).await;
        let services = cluster.services();
        eventually("it has an address", PAGED, async || {
            let service: Service = services.get("block").await?;
            let status = service.status.and_then(|status| status.load_balancer);
            let ingress = status.and_then(|status| status.ingress);
            anyhow::ensure!(ingress.is_some(), "{ingress:?}");
            anyhow::Ok(())
        })
        .await;
    }

    /// Another thing goes wrong in each cloud.
    pub(super) async fn break_all(&mut self, cluster: &Monitored) {
        // Machines of Nodes are gone, and a NodeBalancer is left of a Service that is gone.
        for id in &self.machines {
            self.linode.remove(id);
        }
        let services = Api::<Service>::namespaced(cluster.netlab.admin.clone(), "default");
        let own = services.get("kubernetes").await.unwrap();
        let (own, gone) = (own.metadata.uid.unwrap(), Uuid::new_v4());
        let tags = [
            format!("{}{own}", linode_tags::CLUSTER),
            format!("{}{gone}", linode_tags::SERVICE),
        ];
        let linode = self.linode.linode().expect("it is Linode");
        self.orphan = Some(linode.put_node_balancer(&json!({ "tags": tags })));
        // The token is revoked, and there is a Service to serve.
        self.cloudscale.revoke_token(true);
        ask(cluster, "refused", Cloud::Cloudscale).await;
        // Machines cannot be listed, and whoever asks for IP blocks waits.
        let phoenixnap = self.phoenixnap.faults();
        let failing = Fault::status(StatusCode::INTERNAL_SERVER_ERROR);
        let hanging = When::any("/ips/v1/ip-blocks");
        let many = Fault::status(StatusCode::TOO_MANY_REQUESTS).retry_after(Duration::from_secs(1));
        self.injections = vec![
            phoenixnap.inject(self.phoenixnap.listing(), failing),
            phoenixnap.inject(hanging, Fault::hang()),
            self.brightbox
                .faults()
                .inject(self.brightbox.listing(), many),
        ];
        ask(cluster, "hanging", Cloud::Phoenixnap).await;
    }

    /// All of that is over, but for the IP blocks: there are as many as there may be.
    pub(super) async fn mend_all(&mut self, cluster: &Monitored) {
        for (id, name) in self.machines.iter().zip(AT_LINODE) {
            self.linode.restore(id, server(name));
        }
        let linode = self.linode.linode().expect("it is Linode");
        assert!(linode.remove_node_balancer(self.orphan.take().expect("it was made")));
        self.cloudscale.revoke_token(false);
        for injection in self.injections.drain(..) {
            injection.lift();
        }
        let params = DeleteParams::default();
        cluster.services().delete("refused", &params).await.unwrap();
    }

    /// The next central may buy one more IP block.
    pub(super) fn permit_another_block(cluster: &mut Monitored) {
        let flags = &mut cluster.central_spec.args;
        let limit = flags.iter_mut().find(|flag| *flag == BLOCKS[0]);
        BLOCKS[1].clone_into(limit.expect("it is among them"));
    }
}

/// A Service that is to have a load balancer of this cloud.
async fn ask(cluster: &Monitored, name: &str, cloud: Cloud) {
    let class = format!("mooring.dev/{}", cloud.name());
    cluster.ask(name, |service| service.class(&class)).await;
}
