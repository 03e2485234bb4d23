//! The cluster of the bench, and what is asked of it in every phase.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::Scale;
use crate::bench::{cloud_rests, end, program_rests};
use mooring_cloud_sim::cloudscale::{Behaviour, Cloudscale, Interface, Kind, Machine, Served};
use mooring_cloud_sim::{Calls, TOKEN};
use mooring_test_cluster::control_plane::{ControlPlane, Options, free_port};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::objects::{NodeBuilder, ServiceBuilder, create_namespace};
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// How long anything may take that is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(1800);
/// How many ports each Service has.
pub(super) const PORTS: usize = 2;
/// A program that uses less processor time than this in a second has come to rest.
const AT_REST: Duration = Duration::from_millis(60);
/// For how long the cloud is not asked when all has been done.
const QUIET: Duration = Duration::from_secs(3);

const NAMESPACE: &str = "bench";

/// All that is there.
pub(super) struct Cluster {
    pub(super) scale: Scale,
    pub(super) sim: Cloudscale,
    pub(super) central: Central,
    pub(super) cp: ControlPlane,
    pub(super) shipped: Shipped,
    pub(super) admin: Client,
    kubeconfig: PathBuf,
    /// The numbers of the Nodes that there are.
    nodes: Mutex<Vec<usize>>,
    began: Instant,
}

/// A running central.
pub(super) struct Central {
    pub(super) process: Process,
    pub(super) endpoints: Endpoints,
}

/// What a stretch of time has cost.
pub(super) struct Cost {
    pub(super) reads: Calls,
    pub(super) writes: Calls,
    /// From its begin to the last write.
    pub(super) seconds: f64,
}

impl Cluster {
    pub(super) async fn build(scale: &Scale) -> Result<Self> {
        let cp = ControlPlane::start(Options::default()).await?;
        let shipped = Shipped::install(&cp).await?;
        let admin = cp.admin();
        create_namespace(&admin, NAMESPACE).await?;
        let sim = Cloudscale::start().await?;
        sim.set_latency(scale.latency);
        sim.behave(Behaviour {
            change_time: scale.change_time,
            ..Behaviour::default()
        });
        let kubeconfig = shipped.central_kubeconfig(&cp).await?;
        let central = start_central(&cp, scale, &sim, &kubeconfig)?;
        let cluster = Self {
            scale: *scale,
            sim,
            central,
            cp,
            shipped,
            admin,
            kubeconfig,
            nodes: Mutex::default(),
            began: Instant::now(),
        };
        cluster.join(scale.nodes).await?;
        cluster.rests().await?;
        cluster.tell(&format!("{} Nodes are there", scale.nodes));
        Ok(cluster)
    }

    /// Says how far the bench is.
    pub(super) fn tell(&self, what: &str) {
        println!("[{:4} s] {what}", self.began.elapsed().as_secs());
    }

    /// Ends central in good order, and starts it again.
    pub(super) async fn restart_central(&mut self) -> Result<()> {
        end(&self.central.process, LIMIT).await.context("central")?;
        self.central = start_central(&self.cp, &self.scale, &self.sim, &self.kubeconfig)?;
        Ok(())
    }

    // --- Nodes --------------------------------------------------------------------------------

    fn numbers(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        let nodes = self.nodes.lock();
        nodes.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// So many more Nodes join, all at once.
    pub(super) async fn join(&self, count: usize) -> Result<()> {
        let next = self.numbers().iter().max().map_or(1, |last| last + 1);
        let joining = (next..next + count).map(async |n| {
            let private = Interface::private().address(&address(n));
            let uuid = self.sim.add(Machine::named(&name(n)).interface(private));
            let node = NodeBuilder::new(&name(n)).ready();
            let node = node.label(NUMBER_LABEL, &n.to_string());
            let node = node.provider_id(&format!("cloudscale://{uuid}"));
            node.create(&self.admin).await.map(drop)
        });
        try_join_all(joining).await?;
        self.numbers().extend(next..next + count);
        Ok(())
    }

    /// The Node that came last leaves.
    pub(super) async fn leave(&self) -> Result<()> {
        let last = self.numbers().pop().context("a Node to leave")?;
        let nodes = Api::<Node>::all(self.admin.clone());
        nodes.delete(&name(last), &DeleteParams::default()).await?;
        Ok(())
    }

    // --- Services -----------------------------------------------------------------------------

    pub(super) fn services(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    pub(super) async fn create(&self, service: ServiceBuilder) -> Result<Service> {
        service.create(&self.admin).await
    }

    pub(super) async fn patch(&self, name: &str, patch: &Value) -> Result<Service> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        Ok(self.services().patch(name, &params, &patch).await?)
    }

    pub(super) async fn annotate(&self, name: &str, key: &str, value: &str) -> Result<Service> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(name, &patch).await
    }

    /// What a Service's load balancer is to serve, before these Nodes.
    pub(super) fn wanted(&self, service: &Service, nodes: &[usize]) -> Served {
        let spec = service.spec.clone().unwrap_or_default();
        let ports = spec.ports.into_iter().flatten();
        let wanted = ports.map(|port| {
            let protocol = port.protocol.unwrap_or_default().to_lowercase();
            let node_port = port.node_port.unwrap_or_default();
            let members = nodes.iter().map(|n| format!("{}:{node_port}", address(*n)));
            (format!("{protocol}/{}", port.port), members.collect())
        });
        wanted.collect()
    }

    /// Waits until each Service has its address, and its load balancer leads to all Nodes.
    pub(super) async fn all_served(&self) -> Result<()> {
        let services = self.services().list(&ListParams::default()).await?.items;
        let nodes = self.numbers().clone();
        let served = try_eventually(LIMIT, async || -> Result<()> {
            for service in &services {
                let found = self.sim.traffic(&balancer_name(service)).now();
                let members: usize = found.values().map(std::collections::BTreeSet::len).sum();
                ensure!(
                    found == self.wanted(service, &nodes),
                    "{members} members of {}",
                    balancer_name(service)
                );
            }
            Ok(())
        });
        served.await.map_err(|reason| anyhow!("{reason}"))?;
        let ready = try_eventually(LIMIT, async || -> Result<()> {
            let services = self.services().list(&ListParams::default()).await?.items;
            let without = services
                .iter()
                .filter(|service| ingress(service).is_empty());
            let without = without.count();
            ensure!(without == 0, "{without} Services have no address");
            Ok(())
        });
        ready.await.map_err(|reason| anyhow!("{reason}"))
    }

    // --- what it costs ------------------------------------------------------------------------

    /// Waits until central uses next to no processor time and asks the cloud nothing any more: what
    /// it had to do after a change, it has done.
    pub(super) async fn rests(&self) -> Result<()> {
        cloud_rests(LIMIT, QUIET, || self.sim.calls()).await?;
        program_rests(LIMIT, AT_REST, 2, self.central.process.pid()).await
    }

    /// What has been asked since then.
    pub(super) fn cost_since(&self, start: Instant) -> Cost {
        let calls = self.sim.calls().since(start);
        let writes = calls.writes();
        let last = writes
            .last()
            .map(|call| call.at + call.took.unwrap_or_default());
        Cost {
            reads: calls.filter(|call| !call.is_write()),
            seconds: last.map_or(0.0, |last| last.duration_since(start).as_secs_f64()),
            writes,
        }
    }

    /// How many rounds of writes there were, by load balancer: Events say so.
    pub(super) async fn events(&self, reason: &str) -> Result<Vec<i32>> {
        let mut counts = Vec::new();
        for service in self.services().list(&ListParams::default()).await? {
            let name = service.metadata.name.unwrap_or_default();
            let about = mooring_test_cluster::objects::events_for(
                &self.admin,
                "Service",
                Some(NAMESPACE),
                &name,
            );
            let events = about.await?;
            let of_reason = events.iter().filter(|event| event.reason == reason);
            counts.push(of_reason.map(|event| event.count).sum());
        }
        Ok(counts)
    }
}

impl Cost {
    /// How many listings of each kind there were: `balancers 1, pools 1, …`.
    pub(super) fn by_kind(&self) -> String {
        let kinds = [
            ("servers", Kind::Server),
            ("load balancers", Kind::LoadBalancer),
            ("pools", Kind::Pool),
            ("listeners", Kind::Listener),
            ("monitors", Kind::HealthMonitor),
            ("floating IPs", Kind::FloatingIp),
            ("members of a pool", Kind::Member),
        ];
        let counted = kinds.map(|(name, kind)| (name, self.reads.to(kind.path()).len()));
        let listings: usize = counted.iter().map(|(_, count)| count).sum();
        let mut texts: Vec<String> = counted
            .map(|(name, count)| format!("{name} {count}"))
            .into();
        texts.push(format!("one object {}", self.reads.len() - listings));
        texts.join(", ")
    }
}

/// The label that tells Nodes apart.
pub(super) const NUMBER_LABEL: &str = "bench.example.com/number";

fn name(n: usize) -> String {
    format!("node-{n:05}")
}

fn address(n: usize) -> String {
    format!("10.{}.{}.{}", n / 62_500, n / 250 % 250, n % 250 + 1)
}

/// A Service with two ports.
pub(super) fn service(name: &str) -> ServiceBuilder {
    let service = ServiceBuilder::load_balancer(NAMESPACE, name);
    service.port(80, 8080).port(443, 8443)
}

/// The name that its load balancer has by default.
pub(super) fn balancer_name(service: &Service) -> String {
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    format!("k8s-service-{uid}")
}

/// The entries of a Service's status.
pub(super) fn ingress(service: &Service) -> Vec<Value> {
    let status = serde_json::to_value(&service.status).unwrap_or_default();
    let entries = status["loadBalancer"]["ingress"].as_array();
    entries.cloned().unwrap_or_default()
}

fn start_central(
    cp: &ControlPlane,
    scale: &Scale,
    sim: &Cloudscale,
    kubeconfig: &std::path::Path,
) -> Result<Central> {
    let port = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
    let mut flags = vec![
        "--cloud-provider=cloudscale".to_owned(),
        "--controllers=service".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--secure-port={port}"),
    ];
    if let Some(qps) = scale.qps {
        flags.push(format!("--cloud-api-qps={qps}"));
        flags.push(format!("--cloud-api-burst={}", qps.saturating_mul(4)));
    }
    let spec = Program::Central
        .spec(cp.folder(), flags)?
        .env("CLOUDSCALE_API_URL", sim.url())
        .env("CLOUDSCALE_ACCESS_TOKEN", TOKEN);
    Ok(Central {
        process: Process::start(&spec)?,
        endpoints: Endpoints::new(port)?,
    })
}
