//! A cluster with a simulated cloud that has a load balancer for each Service, and what is asked of it in every
//! phase.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{cloud_rests, end, program_rests};
use crate::clouds::{Served, SimulatedCloud, kind, to_serve};
use mooring_cloud_sim::Calls;
use mooring_test_cluster::control_plane::{ControlPlane, Options, free_port};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, events_for};
use mooring_test_cluster::shipped::Shipped;
use mooring_test_support::process::{Process, Spec};
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// How long anything may take that is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(1800);
/// How many ports each Service has.
pub(crate) const PORTS: usize = 2;
/// A program that uses less processor time than this in a second has come to rest.
const AT_REST: Duration = Duration::from_millis(60);
/// For how long the cloud is not asked when all has been done.
const QUIET: Duration = Duration::from_secs(3);

const NAMESPACE: &str = "bench";
/// The label that tells Nodes apart.
pub(crate) const NUMBER_LABEL: &str = "bench.example.com/number";

/// All that is there. `S`: how large it is.
pub(crate) struct Cluster<C, S> {
    pub(crate) scale: S,
    pub(crate) sim: C,
    pub(crate) central: Central,
    pub(crate) cp: ControlPlane,
    pub(crate) shipped: Shipped,
    pub(crate) admin: Client,
    kubeconfig: PathBuf,
    /// Central's flags besides.
    flags: Vec<String>,
    /// The numbers of the Nodes that there are.
    nodes: Mutex<Vec<usize>>,
    /// The number of the next one: none is given twice.
    next: AtomicUsize,
    began: Instant,
}

/// A running central.
pub(crate) struct Central {
    pub(crate) process: Process,
    pub(crate) endpoints: Endpoints,
}

/// What a stretch of time has cost.
pub(crate) struct Cost {
    pub(crate) reads: Calls,
    pub(crate) writes: Calls,
    /// From its begin to the last write.
    pub(crate) seconds: f64,
}

/// The flags by which central asks a cloud so often; `None`: as shipped.
pub(crate) fn rate(qps: Option<u32>) -> Vec<String> {
    let flags = qps.map(|qps| {
        let burst = qps.saturating_mul(4);
        [
            format!("--cloud-api-qps={qps}"),
            format!("--cloud-api-burst={burst}"),
        ]
    });
    flags.into_iter().flatten().collect()
}

impl<C: SimulatedCloud, S> Cluster<C, S> {
    /// One with this cloud and no Nodes.
    pub(crate) async fn build(scale: S, sim: C, flags: Vec<String>) -> Result<Self> {
        let cp = ControlPlane::start(Options::default()).await?;
        let shipped = Shipped::install(&cp).await?;
        let admin = cp.admin();
        create_namespace(&admin, NAMESPACE).await?;
        let kubeconfig = shipped.central_kubeconfig(&cp).await?;
        let central = start_central(&cp, &sim, &kubeconfig, &flags)?;
        Ok(Self {
            scale,
            sim,
            central,
            cp,
            shipped,
            admin,
            kubeconfig,
            flags,
            nodes: Mutex::default(),
            next: AtomicUsize::new(1),
            began: Instant::now(),
        })
    }

    /// Says how far the bench is.
    pub(crate) fn tell(&self, what: &str) {
        println!("[{:4} s] {what}", self.began.elapsed().as_secs());
    }

    /// Ends central in good order, starts it again with these flags besides, and waits until it has begun to ask
    /// the cloud.
    pub(crate) async fn restart_central(&mut self, more: &[&str]) -> Result<()> {
        end(&self.central.process, LIMIT).await.context("central")?;
        let start = Instant::now();
        let more = more.iter().map(|flag| (*flag).to_owned());
        let flags: Vec<String> = self.flags.iter().cloned().chain(more).collect();
        self.central = start_central(&self.cp, &self.sim, &self.kubeconfig, &flags)?;
        let ready = try_eventually(LIMIT, async || {
            self.central.endpoints.status("/readyz").await == Some(200)
        });
        let ready = ready.await.map_err(anyhow::Error::msg);
        ready.context("central is not ready")?;
        let asked = try_eventually(LIMIT, async || !self.sim.calls().since(start).is_empty());
        let asked = asked.await.map_err(anyhow::Error::msg);
        asked.context("central does not ask the cloud")
    }

    // --- Nodes --------------------------------------------------------------------------------

    fn numbers(&self) -> MutexGuard<'_, Vec<usize>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many Nodes there are.
    pub(crate) fn nodes(&self) -> usize {
        self.numbers().len()
    }

    /// So many more Nodes join, all at once.
    pub(crate) async fn join(&self, count: usize) -> Result<()> {
        let next = self.next.fetch_add(count, Ordering::Relaxed);
        let joining = (next..next + count).map(async |n| {
            self.sim.add_machine(n);
            let node = C::node(&node(n), n).label(NUMBER_LABEL, &n.to_string());
            node.create(&self.admin).await.map(drop)
        });
        try_join_all(joining).await?;
        self.numbers().extend(next..next + count);
        Ok(())
    }

    /// The Node that came last leaves.
    pub(crate) async fn leave(&self) -> Result<()> {
        let last = self.numbers().pop().context("a Node to leave")?;
        let nodes = Api::<Node>::all(self.admin.clone());
        nodes.delete(&node(last), &DeleteParams::default()).await?;
        Ok(())
    }

    // --- Services -----------------------------------------------------------------------------

    pub(crate) fn services(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    pub(crate) async fn create(&self, service: ServiceBuilder) -> Result<Service> {
        service.create(&self.admin).await
    }

    pub(crate) async fn patch(&self, name: &str, patch: &Value) -> Result<Service> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        Ok(self.services().patch(name, &params, &patch).await?)
    }

    /// So many Services are made at once, and served.
    pub(crate) async fn create_all(&self, count: usize) -> Result<Cost> {
        let start = Instant::now();
        let creating = (0..count).map(|n| self.create(service(&name(n))));
        try_join_all(creating).await?;
        self.all_served().await?;
        self.settled(start, &format!("{count} Services are served"))
            .await
    }

    /// An annotation of each changes that nobody reads.
    pub(crate) async fn touch_all(&self, count: usize) -> Result<Cost> {
        let start = Instant::now();
        let annotations = json!({ "bench.example.com/touched": format!("{start:?}") });
        let patch = json!({ "metadata": { "annotations": annotations } });
        let names: Vec<String> = (0..count).map(name).collect();
        try_join_all(names.iter().map(|name| self.patch(name, &patch))).await?;
        self.settled(start, "all touched").await
    }

    /// All are deleted at once.
    pub(crate) async fn delete_all(&self, count: usize) -> Result<Cost> {
        let start = Instant::now();
        let (services, params) = (self.services(), DeleteParams::default());
        let names: Vec<String> = (0..count).map(name).collect();
        try_join_all(names.iter().map(|name| services.delete(name, &params))).await?;
        let gone = try_eventually(LIMIT, async || -> Result<()> {
            let left = self.services().list(&ListParams::default()).await?.items;
            ensure!(left.is_empty(), "{} Services are left", left.len());
            Ok(())
        });
        gone.await.map_err(|reason| anyhow!("{reason}"))?;
        self.settled(start, "all deleted").await
    }

    /// What a Service's load balancer is to serve, before these Nodes.
    pub(crate) fn wanted(&self, service: &Service, nodes: &[usize]) -> Served {
        to_serve::<C>(service, nodes)
    }

    /// Waits until each Service has its address, and its load balancer leads to all Nodes.
    pub(crate) async fn all_served(&self) -> Result<()> {
        let services = self.services().list(&ListParams::default()).await?.items;
        let nodes = self.numbers().clone();
        let served = try_eventually(LIMIT, async || -> Result<()> {
            let found = self.sim.served(&services);
            for (service, found) in services.iter().zip(found) {
                let members: usize = found.values().map(std::collections::BTreeSet::len).sum();
                let name = &service.metadata.name;
                let wanted = self.wanted(service, &nodes);
                ensure!(found == wanted, "{members} members of {name:?}");
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
    pub(crate) async fn rests(&self) -> Result<()> {
        cloud_rests(LIMIT, QUIET, || self.sim.calls()).await?;
        program_rests(LIMIT, AT_REST, 2, self.central.process.pid()).await
    }

    /// What it has cost since then, once all is done.
    pub(crate) async fn settled(&self, start: Instant, what: &str) -> Result<Cost> {
        self.rests().await.with_context(|| what.to_owned())?;
        let cost = self.cost_since(start);
        self.tell(&format!("{what}: {}", cost.by_kind()));
        Ok(cost)
    }

    /// What has been asked since then.
    pub(crate) fn cost_since(&self, start: Instant) -> Cost {
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

    /// How many Events of this reason there were about each Service.
    pub(crate) async fn events(&self, reason: &str) -> Result<Vec<i32>> {
        let mut counts = Vec::new();
        for service in self.services().list(&ListParams::default()).await? {
            let name = service.metadata.name.unwrap_or_default();
            let events = events_for(&self.admin, "Service", Some(NAMESPACE), &name).await?;
            let of_reason = events.iter().filter(|event| event.reason == reason);
            counts.push(of_reason.map(|event| event.count).sum());
        }
        Ok(counts)
    }
}

impl Cost {
    /// How many reads of each kind there were.
    pub(crate) fn by_kind(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for call in self.reads.iter() {
            *counts.entry(kind(call)).or_default() += 1;
        }
        let texts: Vec<String> = counts
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        match texts.is_empty() {
            true => "no read".to_owned(),
            false => texts.join(", "),
        }
    }

    /// How many writes were under way at the same time, at most.
    pub(crate) fn at_once(&self) -> usize {
        let under_way = |moment: Instant| {
            let all = self.writes.iter();
            all.filter(|call| {
                let took = call.took.unwrap_or_default();
                call.at <= moment && moment < call.at + took
            })
            .count()
        };
        let most = self.writes.iter().map(|call| under_way(call.at)).max();
        most.unwrap_or(0)
    }
}

/// The n-th Service.
pub(crate) fn name(n: usize) -> String {
    format!("service-{n:04}")
}

fn node(n: usize) -> String {
    format!("node-{n:05}")
}

/// A Service with two ports.
pub(crate) fn service(name: &str) -> ServiceBuilder {
    let service = ServiceBuilder::load_balancer(NAMESPACE, name);
    service.port(80, 8080).port(443, 8443)
}

/// The entries of a Service's status.
pub(crate) fn ingress(service: &Service) -> Vec<Value> {
    let status = serde_json::to_value(&service.status).unwrap_or_default();
    let entries = status["loadBalancer"]["ingress"].as_array();
    entries.cloned().unwrap_or_default()
}

/// Central with the memory allocator's settings of the chart.
pub(crate) fn central(cp: &ControlPlane, flags: impl IntoIterator<Item = String>) -> Result<Spec> {
    let spec = Program::Central.spec(cp.folder(), flags)?;
    Ok(spec
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_TRIM_THRESHOLD_", "131072"))
}

fn start_central<C: SimulatedCloud>(
    cp: &ControlPlane,
    sim: &C,
    kubeconfig: &Path,
    flags: &[String],
) -> Result<Central> {
    let port = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
    let own = [
        format!("--cloud-provider={}", C::PROVIDER),
        "--controllers=service".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--secure-port={port}"),
    ];
    let flags = own.into_iter().chain(flags.iter().cloned());
    let mut spec = central(cp, flags)?;
    for (variable, value) in sim.environment() {
        spec = spec.env(variable, value);
    }
    Ok(Central {
        process: Process::start(&spec)?,
        endpoints: Endpoints::new(port)?,
    })
}
