//! The cluster of the bench, and what is asked of it in every phase.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::try_join_all;
use http::Method;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Layout, Scale};
use crate::bench::{Kind as Quantity, Report, Row, cloud_rests, end};
use mooring_cloud_sim::phoenixnap::{
    Behaviour, CLIENT_ID, CLIENT_SECRET, Kind, Machine, Pace, Phoenixnap, TOKEN_PATH,
};
use mooring_cloud_sim::{Call, Calls};
use mooring_test_cluster::control_plane::{ControlPlane, Options, free_port};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace, events_for};
use mooring_test_cluster::shipped::{Shipped, permit_kube_vip};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// How long anything may take that is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(900);
/// For how long the cloud is not asked about blocks when all has been done: it is asked every two
/// seconds while something is under way.
const QUIET: Duration = Duration::from_secs(4);

const NAMESPACE: &str = "bench";
/// The Event of a Service that is not given what it asks for.
const REFUSED: &str = "SyncLoadBalancerFailed";
/// Where a Service wants its block to be bought.
const LOCATION: &str = "phoenixnap.com/ip-location";
/// Blocks by id.
const BLOCK: &str = "/ips/v1/ip-blocks/*";

/// All that is there.
pub(super) struct Cluster {
    pub(super) scale: Scale,
    pub(super) layout: Layout,
    pub(super) sim: Phoenixnap,
    pub(super) central: Central,
    pub(super) cp: ControlPlane,
    pub(super) shipped: Shipped,
    pub(super) admin: Client,
    network: String,
    kubeconfig: PathBuf,
    began: Instant,
}

/// A running central.
pub(super) struct Central {
    pub(super) process: Process,
    pub(super) endpoints: Endpoints,
}

/// What a stretch of time has cost, but for what Nodes cost.
pub(super) struct Cost {
    pub(super) reads: Calls,
    pub(super) writes: Calls,
    /// From its begin to the last write.
    pub(super) until_last_write: Duration,
}

impl Cluster {
    /// Central runs, all servers are members of the network, and nothing else is there.
    pub(super) async fn build(scale: &Scale) -> Result<Self> {
        let cp = ControlPlane::start(Options::default()).await?;
        let shipped = Shipped::install(&cp).await?;
        permit_kube_vip(&cp).await?;
        let admin = cp.admin();
        create_namespace(&admin, NAMESPACE).await?;
        let sim = Phoenixnap::start().await?;
        let servers = (1..=scale.nodes).map(|n| {
            let machine = Machine::named(&node(n)).private(&format!("10.0.0.{n}"));
            let server = sim.add(machine.public(&format!("192.0.2.{n}")));
            json!({ "resourceId": server, "resourceType": "server", "ips": [] })
        });
        let members: Vec<Value> = servers.collect();
        let network = json!({ "name": "services", "location": "PHX", "memberships": members });
        let network = sim.put(Kind::Network, network);
        sim.set_latency(scale.latency);
        let kubeconfig = shipped.central_kubeconfig(&cp).await?;
        let layout = Layout::Shared;
        let central = start_central(&cp, scale, layout, &sim, &network, &kubeconfig)?;
        let cluster = Self {
            scale: *scale,
            layout,
            sim,
            central,
            cp,
            shipped,
            admin,
            network,
            kubeconfig,
            began: Instant::now(),
        };
        cluster.takes(scale.change_time);
        Ok(cluster)
    }

    /// Says how far the bench is.
    pub(super) fn tell(&self, what: &str) {
        let (seconds, layout) = (self.began.elapsed().as_secs(), self.layout.name());
        println!("[{seconds:4} s] {layout}: {what}");
    }

    /// From now on a block is on its way for so long, and the network busy meanwhile.
    pub(super) fn takes(&self, change_time: Duration) {
        let pace = Pace::Takes(change_time);
        self.sim.behave(Behaviour {
            assigning: pace,
            unassigning: pace,
            ..Behaviour::default()
        });
    }

    // --- central ------------------------------------------------------------------------------

    /// From now on blocks are bought like this, in an account that knows no tags yet.
    pub(super) async fn begin(&mut self, layout: Layout) -> Result<()> {
        for tag in self.sim.all(Kind::Tag) {
            let id = tag["id"].as_str().unwrap_or_default();
            ensure!(self.sim.take(Kind::Tag, id), "there is no tag {id}");
        }
        self.layout = layout;
        self.restart_central().await?;
        self.rests().await
    }

    /// Ends central in good order, and starts it again. It is ready then.
    pub(super) async fn restart_central(&mut self) -> Result<()> {
        end(&self.central.process, LIMIT).await.context("central")?;
        let start = Instant::now();
        self.central = start_central(
            &self.cp,
            &self.scale,
            self.layout,
            &self.sim,
            &self.network,
            &self.kubeconfig,
        )?;
        let ready = try_eventually(LIMIT, async || {
            self.central.endpoints.status("/readyz").await == Some(200)
        });
        ready
            .await
            .map_err(anyhow::Error::msg)
            .context("central is not ready")?;
        let asked = try_eventually(LIMIT, async || {
            !of_services(&self.sim.calls().since(start)).is_empty()
        });
        asked
            .await
            .map_err(anyhow::Error::msg)
            .context("central does not ask for blocks")
    }

    // --- Services -----------------------------------------------------------------------------

    pub(super) fn services(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    /// Makes these Services at once.
    pub(super) async fn create(&self, names: &[String]) -> Result<()> {
        let creating = names.iter().map(|name| {
            let service = ServiceBuilder::load_balancer(NAMESPACE, name).port(80, 8080);
            service.create(&self.admin)
        });
        try_join_all(creating).await?;
        Ok(())
    }

    /// Deletes all Services at once.
    pub(super) async fn delete(&self, names: &[String]) -> Result<()> {
        let (services, params) = (self.services(), DeleteParams::default());
        try_join_all(names.iter().map(|name| services.delete(name, &params))).await?;
        Ok(())
    }

    /// Changes an annotation of a Service, or takes it away.
    pub(super) async fn annotate(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.services().patch(name, &params, &patch).await?;
        Ok(())
    }

    /// Waits until so many Services have an address.
    pub(super) async fn served(&self, count: usize) -> Result<()> {
        let served = try_eventually(LIMIT, async || -> Result<()> {
            let services = self.services().list(&ListParams::default()).await?.items;
            let have = services.iter().filter(|service| has_address(service));
            let have = have.count();
            ensure!(have == count, "{have} of {count} have an address");
            Ok(())
        });
        served.await.map_err(|reason| anyhow!("{reason}"))
    }

    /// Waits until so many Services have been told that there is no room for them.
    pub(super) async fn refused(&self, count: usize) -> Result<()> {
        let refused = try_eventually(LIMIT, async || -> Result<()> {
            let mut told = 0;
            for service in self.services().list(&ListParams::default()).await? {
                let name = service.metadata.name.clone().unwrap_or_default();
                let about = events_for(&self.admin, "Service", Some(NAMESPACE), &name).await?;
                let is_told = about.iter().any(|event| event.reason == REFUSED);
                told += usize::from(is_told && !has_address(&service));
            }
            ensure!(told == count, "{told} of {count} are told");
            Ok(())
        });
        refused.await.map_err(|reason| anyhow!("{reason}"))
    }

    /// Waits until central has come to a Service that changes after all others have: it asks for what
    /// it cannot have, which is told without a request.
    pub(super) async fn all_looked_at(&self) -> Result<()> {
        let services = self.services().list(&ListParams::default()).await?.items;
        let marker = services.iter().find(|service| has_address(service));
        let marker = marker.and_then(|service| service.metadata.name.clone());
        let marker = marker.context("no Service has an address")?;
        self.annotate(&marker, LOCATION, Some("ASH")).await?;
        let told = try_eventually(LIMIT, async || -> Result<()> {
            let about = events_for(&self.admin, "Service", Some(NAMESPACE), &marker).await?;
            let mut about = about.iter();
            let is_told = about.any(|event| event.reason == REFUSED && event.note.contains("ASH"));
            ensure!(is_told, "{marker} is not told that ASH is elsewhere");
            Ok(())
        });
        told.await.map_err(|reason| anyhow!("{reason}"))?;
        self.annotate(&marker, LOCATION, None).await
    }

    /// Waits until there are so many Services and so many blocks.
    pub(super) async fn left(&self, services: usize, blocks: usize) -> Result<()> {
        let left = try_eventually(LIMIT, async || -> Result<()> {
            let there = self.services().list(&ListParams::default()).await?.items;
            ensure!(there.len() == services, "{} Services are left", there.len());
            let there = self.sim.all(Kind::Block).len();
            ensure!(there == blocks, "{there} blocks are left");
            Ok(())
        });
        left.await.map_err(|reason| anyhow!("{reason}"))
    }

    // --- what it costs ------------------------------------------------------------------------

    /// Waits until the cloud is asked nothing about blocks any more.
    pub(super) async fn rests(&self) -> Result<()> {
        cloud_rests(LIMIT, QUIET, || of_services(&self.sim.calls())).await
    }

    /// What has been asked since then.
    pub(super) fn cost_since(&self, start: Instant) -> Cost {
        let calls = of_services(&self.sim.calls().since(start));
        let writes = calls.writes();
        let last = writes
            .last()
            .map(|call| call.at + call.took.unwrap_or_default());
        Cost {
            reads: calls.filter(|call| !call.is_write()),
            until_last_write: last.map_or(Duration::ZERO, |last| last - start),
            writes,
        }
    }

    /// How many blocks were given back later than that after `start`.
    pub(super) fn released_after(&self, start: Instant, time: Duration) -> usize {
        let releases = self.sim.calls().since(start + time).to(BLOCK);
        releases.method(&Method::DELETE).len()
    }

    /// Reports requests, which should not be more than these.
    pub(super) fn report(
        &self,
        report: &mut Report,
        what: &str,
        cost: &Cost,
        most: (usize, usize),
        upstream: &'static str,
    ) {
        self.tell(&format!("{what}: {}", cost.by_kind()));
        let (reads, writes) = (cost.reads.len(), cost.writes.len());
        report.add(Row {
            name: format!("{}-{what}-reads/writes", self.layout.name()),
            measured: format!("{reads}/{writes}"),
            upstream: self.scale.upstream(upstream).to_owned(),
            target: format!("<= {}/{}", most.0, most.1),
            met: reads <= most.0 && writes <= most.1,
            // While something is under way, it is asked every two seconds whether it is done.
            kind: match self.scale.is_quick() {
                true => Quantity::Count,
                false => Quantity::Measure,
            },
        });
    }

    /// Reports a time, which should be below so many seconds.
    pub(super) fn report_time(
        &self,
        report: &mut Report,
        what: &str,
        took: Duration,
        most: f64,
        upstream: &'static str,
    ) {
        let name = format!("{}-{what}-seconds", self.layout.name());
        let upstream = self.scale.upstream(upstream);
        report.seconds(&name, took.as_secs_f64(), most, upstream);
    }
}

impl Cost {
    /// How many requests of each kind there were: `GET blocks 2, GET a network 1, …`.
    fn by_kind(&self) -> String {
        let blocks = Kind::Block.path();
        let network = format!("{}/*", Kind::Network.path());
        let assignment = format!("{network}/ip-blocks");
        let release = format!("{assignment}/*");
        let tagging = format!("{BLOCK}/tags");
        let kinds = [
            ("listings of blocks", &self.reads, blocks),
            ("looks at the network", &self.reads, &*network),
            ("listings of tags", &self.reads, Kind::Tag.path()),
            ("looks at a block", &self.reads, BLOCK),
            ("tags made", &self.writes, Kind::Tag.path()),
            ("bought", &self.writes, blocks),
            ("assigned", &self.writes, &*assignment),
            ("marked", &self.writes, &*tagging),
            ("detached", &self.writes, &*release),
            ("given back", &self.writes, BLOCK),
        ];
        let counted = kinds.map(|(name, calls, path)| (name, calls.to(path).len()));
        let texts = counted
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{count} {name}"));
        let texts: Vec<String> = texts.collect();
        match texts.is_empty() {
            true => "no request".to_owned(),
            false => texts.join(", "),
        }
    }
}

/// Requests for Services: neither those for tokens, nor those about servers, nor what is asked of the billing once an
/// hour.
fn of_services(calls: &Calls) -> Calls {
    calls.filter(|call: &Call| {
        let elsewhere = ["/bmc/", "/billing/"];
        call.path != TOKEN_PATH && !elsewhere.iter().any(|api| call.path.starts_with(api))
    })
}

fn has_address(service: &Service) -> bool {
    let status = serde_json::to_value(&service.status).unwrap_or_default();
    let ip = &status["loadBalancer"]["ingress"][0]["ip"];
    ip.as_str().is_some_and(|ip| !ip.is_empty())
}

/// The n-th Node, counted from 1.
pub(super) fn node(n: usize) -> String {
    format!("node-{n:03}")
}

fn start_central(
    cp: &ControlPlane,
    scale: &Scale,
    layout: Layout,
    sim: &Phoenixnap,
    network: &str,
    kubeconfig: &std::path::Path,
) -> Result<Central> {
    let port = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
    let mut flags = vec![
        "--cloud-provider=phoenixnap".to_owned(),
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--ip-block-sharing={}", layout == Layout::Shared),
        format!(
            "--node-monitor-period={}ms",
            scale.monitor_period.as_millis()
        ),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--secure-port={port}"),
    ];
    if let Some(qps) = scale.qps {
        flags.push(format!("--cloud-api-qps={qps}"));
        flags.push(format!("--cloud-api-burst={}", qps.saturating_mul(4)));
    }
    let spec = Program::Central
        .spec(cp.folder(), flags)?
        .env("PNAP_BASE_URL", sim.url())
        .env("PNAP_TOKEN_URL", sim.token_url())
        .env("PNAP_CLIENT_ID", CLIENT_ID)
        .env("PNAP_CLIENT_SECRET", CLIENT_SECRET)
        .env("PNAP_LOAD_BALANCER", format!("kube-vip://{network}"));
    Ok(Central {
        process: Process::start(&spec)?,
        endpoints: Endpoints::new(port)?,
    })
}
