//! The cluster and its two clouds.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use mooring_cloud_sim::cloud::{Cloud, CloudSim, Server};
use mooring_common::names::taints::UNINITIALIZED;
use mooring_test_cluster::cluster::{Cluster, has_taint, provider_id};
use mooring_test_cluster::control_plane::{ControlPlane, Options};
use mooring_test_cluster::objects::NodeBuilder;
use mooring_test_cluster::shipped::{Central, CentralFlags};

use super::super::console::{Console, Step};
use super::super::scenario::MOORING;

/// Both clouds, the first of `--cloud-provider` first.
pub(super) const CLOUDS: [Cloud; 2] = [Cloud::Linode, Cloud::Cloudscale];

/// One of the machines that is a Node.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) cloud: Cloud,
    pub(super) name: String,
    /// Where load balancers reach it.
    pub(super) address: String,
    pub(super) id: String,
}

/// One cluster, two clouds.
pub(super) struct Clouds {
    pub(super) machines: Vec<Machine>,
    central: Option<Central>,
    linode: CloudSim,
    cloudscale: CloudSim,
    pub(super) cluster: Cluster,
}

impl Clouds {
    pub(super) async fn build(console: &Console) -> Result<Self> {
        console.chapter("One API server with Mooring as it is shipped, and two simulated clouds");
        let step = Step::new("cluster ready", 120, MOORING);
        console
            .run(step, async {
                let control_plane = ControlPlane::start(Options::default()).await?;
                let version = control_plane.admin().apiserver_version().await?.git_version;
                let mut clouds = Self {
                    machines: Vec::new(),
                    central: None,
                    linode: CloudSim::start(Cloud::Linode).await,
                    cloudscale: CloudSim::start(Cloud::Cloudscale).await,
                    cluster: Cluster::on(control_plane).await?,
                };
                // Of a cloud without machines nothing is believed.
                for cloud in CLOUDS {
                    clouds
                        .sim(cloud)
                        .add(Server::named("somebody-elses").private("10.250.0.1"));
                }
                clouds.start_central(console).await;
                let names = CLOUDS.map(Cloud::name).join(",");
                Ok((
                    clouds,
                    format!("Kubernetes {version}; --cloud-provider={names}"),
                ))
            })
            .await
    }

    pub(super) async fn start_central(&mut self, console: &Console) {
        self.central = None;
        let all = CLOUDS
            .into_iter()
            .flat_map(|cloud| self.sim(cloud).environment());
        let flags = all.fold(CentralFlags::alone(), |flags, (name, value)| {
            flags.environment(name, value)
        });
        let names = CLOUDS.map(Cloud::name).join(",");
        let flags = flags
            .without_endpoints()
            .with(format!("--cloud-provider={names}"))
            .with("--node-daemon-grace=0s")
            .with("--node-monitor-period=500ms")
            .with("--nodebalancer-drain-period=1s")
            .with("--cloud-api-qps=1000")
            .with("--cloud-api-burst=1000");
        let central = self.cluster.start_central(flags).await;
        console.heed(&central.process);
        self.central = Some(central);
    }

    pub(super) const fn sim(&self, cloud: Cloud) -> &CloudSim {
        match cloud {
            Cloud::Linode => &self.linode,
            _ => &self.cloudscale,
        }
    }

    pub(super) fn of(&self, cloud: Cloud) -> impl Iterator<Item = &Machine> {
        let all = self.machines.iter();
        all.filter(move |machine| machine.cloud == cloud)
    }

    pub(super) fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.admin.clone())
    }

    /// So many machines in each cloud, whose kubelets register their Nodes.
    pub(super) async fn join(&mut self, console: &Console, machines: usize) -> Result<()> {
        console.chapter("The machines of both clouds join");
        for cloud in CLOUDS {
            let new: Vec<_> = (0..machines).map(|_| self.add(cloud)).collect();
            self.described(console, &new).await?;
        }
        Ok(())
    }

    /// A new machine.
    fn add(&mut self, cloud: Cloud) -> Machine {
        let number = self.of(cloud).count() + 1;
        let name = format!("{}-{number}", cloud.name());
        let address = match cloud {
            Cloud::Linode => format!("192.168.128.{number}"),
            _ => format!("10.0.0.{number}"),
        };
        let server = Server::named(&name).private(&address);
        let server = server.public(&format!("203.0.113.{number}"));
        let machine = Machine {
            cloud,
            name,
            address,
            id: self.sim(cloud).add(server),
        };
        self.machines.push(machine.clone());
        machine
    }

    /// One more machine of this cloud.
    pub(super) async fn join_one(&mut self, console: &Console, cloud: Cloud) -> Result<()> {
        let machine = self.add(cloud);
        self.described(console, &[machine]).await
    }

    /// Their kubelets register them, and central initialises the Nodes.
    async fn described(&self, console: &Console, machines: &[Machine]) -> Result<()> {
        for machine in machines {
            let node = NodeBuilder::new(&machine.name).tainted().ready();
            node.create(&self.cluster.admin).await?;
        }
        let step = Step::new("Nodes described by their cloud", 30, MOORING);
        console
            .run(step, async {
                for machine in machines {
                    step.until(async || self.is_described(machine).await)
                        .await?;
                }
                let names: Vec<&str> = machines.iter().map(|one| one.name.as_str()).collect();
                Ok(((), names.join(", ")))
            })
            .await
    }

    async fn is_described(&self, machine: &Machine) -> Result<()> {
        let node = self.nodes().get(&machine.name).await?;
        ensure!(!has_taint(&node, UNINITIALIZED), "it is still tainted");
        let id = provider_id(&node).context("no provider ID")?;
        ensure!(id == machine.id, "it has the ID {id}");
        Ok(())
    }
}
