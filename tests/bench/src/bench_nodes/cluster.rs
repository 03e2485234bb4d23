//! The cluster of the bench, and what is asked of it in every phase.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::Scale;
use super::audit::{Audit, POLICY};
use super::daemons::{Entrance, PROGRAMS_WAY, TASKS_WAY};
use super::kubelets::Kubelets;
use crate::bench::cluster::central;
use crate::bench::{cloud_rests, end, program_rests};
use mooring_cloud_sim::linode::{Instance, Linode};
use mooring_cloud_sim::{Call, Calls, TOKEN};
use mooring_test_cluster::control_plane::{ControlPlane, Options, free_port};
use mooring_test_cluster::endpoints::Endpoints;
use mooring_test_cluster::shipped::Shipped;
use mooring_test_netlab::metadata_sim::{Machine, MetadataSim};
use mooring_test_support::process::Process;
use mooring_test_support::scratch::Scratch;

/// How many Pods are made side by side.
const AT_ONCE: usize = 32;
/// How long anything may take that is waited for; twice the whole bench's usual share of it.
pub(super) const LIMIT: Duration = Duration::from_secs(600);
/// A program that uses less processor time than this in a second has come to rest.
const AT_REST: Duration = Duration::from_millis(100);

/// Where all instances are listed.
pub(super) const INSTANCES: &str = "/v4/linode/instances";

/// All that is there.
pub(super) struct Cluster {
    pub(super) scale: Scale,
    pub(super) names: Arc<Vec<String>>,
    pub(super) linode: Linode,
    pub(super) metadata: MetadataSim,
    pub(super) kubelets: Kubelets,
    pub(super) heartbeats: Option<JoinHandle<()>>,
    pub(super) kubeconfigs: Vec<PathBuf>,
    pub(super) entrance: Entrance,
    pub(super) programs: Vec<Process>,
    pub(super) tasks: JoinSet<Result<()>>,
    pub(super) central: Central,
    pub(super) audit: Audit,
    pub(super) admin: Client,
    pub(super) cp: ControlPlane,
    pub(super) began: Instant,
    central_kubeconfig: PathBuf,
    _scratch: Scratch,
}

/// A running central.
pub(super) struct Central {
    pub(super) process: Process,
    pub(super) endpoints: Endpoints,
}

impl Cluster {
    /// Everything but the Nodes and their daemons.
    pub(super) async fn build(scale: &Scale) -> Result<Self> {
        let began = Instant::now();
        let scratch = Scratch::new("bench")?;
        let policy = scratch.join("audit-policy.yaml");
        std::fs::write(&policy, POLICY)?;
        let options = Options::default()
            .server_name(TASKS_WAY.to_string())
            .server_name(PROGRAMS_WAY.to_string())
            .api_server_flag("--bind-address=0.0.0.0")
            .api_server_flag(format!("--audit-policy-file={}", policy.display()))
            // In MiB: no second file, whatever happens.
            .api_server_flag("--audit-log-maxsize=100000")
            // As large clusters have them.
            .api_server_flag("--max-requests-inflight=1600")
            .api_server_flag("--max-mutating-requests-inflight=800");
        let cp = ControlPlane::start(options).await?;
        let shipped = Shipped::install(&cp).await?;
        // As large clusters do.
        shipped.without_identity_fence(&cp).await?;
        let admin = cp.admin();
        let names: Vec<String> = (0..scale.nodes).map(|n| format!("node-{n:05}")).collect();
        let names = Arc::new(names);
        let linode = Linode::start().await?;
        let machines: Vec<Machine> = (1..).zip(&*names).map(|(id, n)| machine(id, n)).collect();
        for machine in &machines {
            linode.add(instance(machine)?);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let metadata = MetadataSim::serve(listener, names.iter().cloned().zip(machines))?;
        let central_kubeconfig = shipped.central_kubeconfig(&cp).await?;
        let central = start_central(&cp, scale, &linode, &central_kubeconfig)?;
        let mut cluster = Self {
            kubelets: Kubelets::new(admin.clone(), names.clone()),
            audit: Audit::new(cp.folder().join("audit.log")),
            entrance: Entrance::new(&cp)?,
            scale: scale.clone(),
            heartbeats: None,
            kubeconfigs: Vec::new(),
            programs: Vec::new(),
            tasks: JoinSet::new(),
            names,
            linode,
            metadata,
            central,
            admin,
            cp,
            began,
            central_kubeconfig,
            _scratch: scratch,
        };
        cluster.tell("the API server, the cloud and central run");
        cluster.kubeconfigs = cluster.make_kubeconfigs().await?;
        cluster.tell(&format!("{} daemons have a Pod and its token", scale.nodes));
        Ok(cluster)
    }

    async fn make_kubeconfigs(&self) -> Result<Vec<PathBuf>> {
        let all = futures::stream::iter(0..self.names.len())
            .map(|index| {
                let way = match self.is_program(index) {
                    true => PROGRAMS_WAY,
                    false => TASKS_WAY,
                };
                self.entrance
                    .kubeconfig(&self.admin, &self.names[index], way)
            })
            .buffered(AT_ONCE);
        all.try_collect().await
    }

    /// Whether the daemon of this Node is a program. They are spread evenly.
    pub(super) fn is_program(&self, index: usize) -> bool {
        let Scale {
            nodes, programs, ..
        } = self.scale;
        (index + 1) * programs / nodes > index * programs / nodes
    }

    /// A tenth of the Nodes, spread evenly.
    pub(super) fn a_tenth(&self) -> Vec<usize> {
        (0..self.names.len()).step_by(10).collect()
    }

    /// Says how far the bench is.
    pub(super) fn tell(&self, what: &str) {
        println!("[{:4} s] {what}", self.began.elapsed().as_secs());
    }

    // --- central ------------------------------------------------------------------------------

    /// Ends central in good order, and starts it again. Gives when it started.
    pub(super) async fn restart_central(&mut self) -> Result<Instant> {
        end(&self.central.process, LIMIT).await.context("central")?;
        let start = Instant::now();
        self.central = start_central(
            &self.cp,
            &self.scale,
            &self.linode,
            &self.central_kubeconfig,
        )?;
        Ok(start)
    }

    /// Waits until central uses next to no processor time any more: what it had to look at after a
    /// change, it has looked at.
    pub(super) async fn central_rests(&self) -> Result<()> {
        program_rests(LIMIT, AT_REST, 3, self.central.process.pid()).await
    }

    // --- what was asked -----------------------------------------------------------------------

    /// Waits until the cloud was not asked for so long.
    pub(super) async fn cloud_rests(&self, quiet: Duration) -> Result<()> {
        cloud_rests(LIMIT, quiet, || self.linode.calls()).await
    }

    /// The API server's writes by Mooring since then, but for central's Lease.
    pub(super) async fn writes_since(&mut self, start: Timestamp) -> Result<Vec<String>> {
        use super::audit::Who;
        self.audit.settle(&self.admin).await?;
        let is_lease = |who, resource: &str| who == Who::Central && resource == "leases";
        let writes = self.audit.since(start).filter(|entry| {
            entry.who != Who::Other && entry.is_write() && !is_lease(entry.who, &entry.resource)
        });
        Ok(writes.map(super::audit::Entry::summary).collect())
    }

    /// Fails if either program was refused anything so far, or a daemon has ended.
    pub(super) async fn nothing_was_refused(&mut self) -> Result<()> {
        self.audit.settle(&self.admin).await?;
        let refused: Vec<_> = self
            .audit
            .entries()
            .iter()
            .filter(|e| e.is_refused())
            .collect();
        if let Some(first) = refused.first() {
            bail!(
                "{} requests were refused, first {}",
                refused.len(),
                first.summary()
            );
        }
        let ended = self.programs.iter().find(|program| !program.is_running());
        ensure!(ended.is_none(), "{ended:?} has ended");
        match self.tasks.try_join_next() {
            Some(ended) => bail!("a daemon has ended: {ended:?}"),
            None => Ok(()),
        }
    }
}

/// The first pages of listings among these: one for each time that all machines were looked at.
pub(super) fn refreshes(calls: &Calls) -> Vec<Instant> {
    let is_first = |call: &Call| call.parameter("page").is_none_or(|page| page == "1");
    let listings = calls.to(INSTANCES).filter(is_first);
    listings.iter().map(|call| call.at).collect()
}

/// How many of these times are within one such window, at most.
pub(super) fn most_within(times: &[Instant], window: Duration) -> usize {
    let from = |start: &Instant| {
        let within = |at: &&Instant| **at >= *start && at.duration_since(*start) < window;
        times.iter().filter(within).count()
    };
    times.iter().map(from).max().unwrap_or(0)
}

/// Requests that name one instance.
pub(super) fn about_one(calls: &Calls) -> Calls {
    calls.filter(|call| call.path.starts_with(&format!("{INSTANCES}/")))
}

fn start_central(
    cp: &ControlPlane,
    scale: &Scale,
    linode: &Linode,
    kubeconfig: &std::path::Path,
) -> Result<Central> {
    let port = free_port(std::net::Ipv4Addr::LOCALHOST.into())?;
    let flags = [
        "--cloud-provider=linode".to_owned(),
        "--node-daemon-grace=30s".to_owned(),
        format!(
            "--node-monitor-period={}ms",
            scale.monitor_period.as_millis()
        ),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
    ];
    let spec = central(cp, flags)?
        .env("LINODE_URL", linode.url())
        .env("LINODE_API_TOKEN", TOKEN)
        .env("LINODE_REGION", "us-east");
    Ok(Central {
        process: Process::start(&spec)?,
        endpoints: Endpoints::new(port)?,
    })
}

fn machine(id: u32, name: &str) -> Machine {
    Machine::linode(id, name)
}

/// The instance that says in the cloud's API what the machine says of itself.
fn instance(machine: &Machine) -> Result<Instance> {
    let Machine::Linode { instance, network } = machine else {
        bail!("not a Linode");
    };
    let label = instance["label"].as_str().context("a label")?;
    let mut made = Instance::labelled(label);
    for field in ["id", "region", "type", "host_uuid", "tags", "specs"] {
        made = made.with(field, instance[field].clone());
    }
    for kind in ["public", "private"] {
        for address in network["ipv4"][kind].as_array().into_iter().flatten() {
            let address = address.as_str().unwrap_or_default();
            made = made.ipv4(address.trim_end_matches("/32"));
        }
    }
    let ipv6 = network["ipv6"]["slaac"].as_str().context("an address")?;
    Ok(made.ipv6(ipv6.trim_end_matches("/128")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_is_found_wherever_it_begins() {
        let start = Instant::now();
        let at = |seconds: &[u64]| -> Vec<Instant> {
            let times = seconds.iter().map(|s| start + Duration::from_secs(*s));
            times.collect()
        };
        let minute = Duration::from_secs(60);
        assert_eq!(most_within(&[], minute), 0);
        assert_eq!(most_within(&at(&[0, 30, 60, 90]), minute), 2);
        assert_eq!(most_within(&at(&[0, 50, 70, 100, 105]), minute), 4);
    }
}
