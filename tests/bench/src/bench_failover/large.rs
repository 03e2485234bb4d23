//! What announcing costs on a large segment while nothing fails.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams};
use mooring_common::l2_network::L2Network;

use crate::bench::proc;
use mooring_test_cluster::control_plane::Record;
use mooring_test_cluster::objects::{ServiceBuilder, create_namespace};
use mooring_test_cluster::shipped::NODE_USER;
use mooring_test_netlab::failover::faults::until;
use mooring_test_netlab::failover::{APP, daemon_spec};
use mooring_test_netlab::netlab::{Capture, Host, Netlab, claims};
use mooring_test_netlab::netlab_cluster::{Kubelet, NETWORK, NetlabCluster, Network, Site};
use mooring_test_support::process::Process;
use mooring_test_support::program::Program;
use mooring_test_support::wait::try_eventually;

/// How long it may take until all is as it should.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(300);

/// How many writes per second all daemons may need besides, while nothing changes.
const MOST_WRITES: f64 = 0.5;

/// How long the voters are the same until no others are wanted.
const STILL: Duration = Duration::from_secs(15);

/// How many things are made at a time.
const AT_ONCE: usize = 10;

/// What was measured of many nodes at rest.
#[derive(Clone, Debug)]
pub struct Large {
    /// How many daemons there were.
    pub nodes: usize,
    /// How many addresses.
    pub addresses: usize,
    /// Frames with heartbeats on the segment, and on the node network, per second.
    pub heartbeats: f64,
    /// Announcements that nobody had asked for, per second.
    pub announcements: f64,
    /// Renewals of Leases by the daemons, per second, all together.
    pub renewals: f64,
    /// What else they wrote to the API server, and how often per second.
    pub writes: BTreeMap<String, f64>,
    /// Processor time per daemon, of a hundred: on average, and the busiest.
    pub processor: (f64, f64),
    /// What of the average is of the daemon's own code; the rest is the kernel's.
    pub own_code: f64,
    /// Resident memory of the largest daemon, in KiB.
    pub resident: u64,
    /// `release` or `debug`.
    pub profile: &'static str,
}

/// Measures for so long. In a netlab.
pub(super) async fn measure(nodes: usize, services: usize, span: Duration) -> Result<Large> {
    let (cluster, _kubelets, _central) = cluster(nodes).await?;
    Network::wide(NETWORK).create(&cluster).await?;
    make_services(&cluster, services).await?;
    let daemons = start_daemons(&cluster).await?;
    let capture = cluster.lab.capture_control()?;
    settle(&cluster, &capture, nodes, services).await?;

    let (start, since) = (Instant::now(), cluster.now());
    let used = || -> Result<Vec<(Duration, Duration)>> {
        let pids = daemons.iter().map(Process::pid);
        pids.map(proc::processor_times).collect()
    };
    let before = used()?;
    until(start + span).await;
    let after = used()?;
    let took = start.elapsed();
    let frames = capture.since(start);
    let announced = frames.iter().filter(|frame| {
        let told = frame.neighbour_advertisement();
        frame.arp().is_some_and(|arp| arp.is_gratuitous())
            || told.is_some_and(|told| !told.solicited && told.overrides)
    });
    let log = cluster.audit_settled().await.since(since);
    let (mut renewals, mut writes) = (0, BTreeMap::<String, usize>::new());
    for record in log.by(NODE_USER).writes().iter() {
        if record.resource == "leases" && record.verb == "update" {
            renewals += 1;
        } else {
            *writes.entry(what(record)).or_default() += 1;
        }
    }
    let percent = |used: Duration| used.as_secs_f64() / took.as_secs_f64() * 100.0;
    let shares: Vec<(f64, f64)> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| {
            let own = percent(after.0.saturating_sub(before.0));
            (own, own + percent(after.1.saturating_sub(before.1)))
        })
        .collect();
    let mean =
        |of: fn(&(f64, f64)) -> f64| shares.iter().map(of).sum::<f64>() / shares.len() as f64;
    let resident = daemons
        .iter()
        .map(Process::resident_kib)
        .collect::<Result<Vec<u64>>>()?;
    Ok(Large {
        nodes,
        addresses: services * 2,
        heartbeats: claims::rate(claims::heartbeats(&frames).values().sum(), took),
        announcements: claims::rate(announced.count(), took),
        renewals: claims::rate(renewals, took),
        writes: writes
            .into_iter()
            .map(|(what, count)| (what, claims::rate(count, took)))
            .collect(),
        processor: (
            mean(|share| share.1),
            shares.iter().map(|share| share.1).fold(0.0, f64::max),
        ),
        own_code: mean(|share| share.0),
        resident: resident.into_iter().max().unwrap_or_default(),
        profile: Program::Node.release_or_own()?.0,
    })
}

/// `patch nodes/status`.
fn what(record: &Record) -> String {
    let Record {
        verb,
        resource,
        subresource,
        ..
    } = record;
    let path = [resource.as_str(), subresource].into_iter();
    let path: Vec<&str> = path.filter(|part| !part.is_empty()).collect();
    format!("{verb} {}", path.join("/"))
}

/// Hosts without Pods: a route from each to the Pods of each other would take minutes to make.
async fn cluster(nodes: usize) -> Result<(NetlabCluster, BTreeMap<String, Kubelet>, Process)> {
    let lab = Netlab::new()?;
    let hosts: Vec<Host> = (1..=nodes)
        .map(|number| lab.client(&format!("n{number}")))
        .collect::<Result<_>>()?;
    let client = lab.client("client")?;
    let site = Site {
        lab,
        nodes: hosts,
        client,
    };
    let control_plane = site.control_plane().await?;
    let cluster = site.install(control_plane).await?;
    let kubelets = cluster.register().await?;
    let central = cluster.start_central(&[]).await?;
    create_namespace(&cluster.admin, APP).await?;
    Ok((cluster, kubelets, central))
}

async fn start_daemons(cluster: &NetlabCluster) -> Result<Vec<Process>> {
    let started = cluster.nodes.iter().map(async |node| {
        let mut spec = daemon_spec(cluster, node).await?;
        spec.program = Program::Node.release_or_own()?.1;
        node.start(spec)
    });
    let started: Vec<Result<Process>> = stream::iter(started).buffered(AT_ONCE).collect().await;
    started.into_iter().collect()
}

async fn make_services(cluster: &NetlabCluster, services: usize) -> Result<()> {
    let admin = cluster.admin.clone();
    let made = (0..services).map(async |number| {
        ServiceBuilder::load_balancer(APP, &format!("s{number}"))
            .port(80, 8080)
            .without_node_ports()
            .families(&["IPv4", "IPv6"])
            .create(&admin)
            .await
    });
    let made: Vec<Result<Service>> = stream::iter(made).buffer_unordered(AT_ONCE).collect().await;
    made.into_iter().try_for_each(|made| made.map(drop))
}

/// Waits until all addresses are given, all daemons take part, no burst is under way, and whoever is to
/// be a voter is one.
async fn settle(
    cluster: &NetlabCluster,
    capture: &Capture,
    nodes: usize,
    services: usize,
) -> Result<()> {
    let all = Api::<Service>::namespaced(cluster.admin.clone(), APP);
    let outcome = try_eventually(SETTLE_TIMEOUT, async || {
        let list = all.list(&ListParams::default()).await?;
        let served = list.items.iter().filter(|service| {
            let status = service.status.as_ref();
            let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref());
            ingress.is_some_and(|ingress| ingress.len() == 2)
        });
        let served = served.count();
        ensure!(
            served == services,
            "{served} of {services} Services have addresses"
        );
        Ok(())
    });
    outcome.await.map_err(anyhow::Error::msg)?;
    let outcome = try_eventually(SETTLE_TIMEOUT, async || {
        let now = Instant::now();
        let frames = capture.since(now - Duration::from_secs(3));
        let heard = claims::heartbeats(&frames).len();
        let burst = frames
            .iter()
            .filter(|frame| frame.arp().is_some_and(|arp| arp.is_gratuitous()))
            .count();
        ensure!(
            heard == nodes && burst <= services / 5,
            "{heard} daemons are heard, {burst} announcements in the last 3 s"
        );
        Ok(())
    });
    outcome.await.map_err(anyhow::Error::msg)?;
    let networks = Api::<L2Network>::all(cluster.admin.clone());
    let mut last = (0, Instant::now());
    let outcome = try_eventually(SETTLE_TIMEOUT, async || {
        let status = networks.get(NETWORK).await?.status.unwrap_or_default();
        let voters = status.voters.unwrap_or_default();
        if voters.generation != last.0 {
            last = (voters.generation, Instant::now());
        }
        ensure!(
            last.1.elapsed() > STILL,
            "the voters change: {} by now",
            voters.nodes.len()
        );
        Ok(())
    });
    outcome.await.map_err(anyhow::Error::msg)
}

impl Large {
    /// One per node every ten seconds, as a kubelet.
    fn most_renewals(&self) -> f64 {
        self.nodes as f64 / 10.0
    }

    fn all_writes(&self) -> f64 {
        // The sum of none would be written as -0.0.
        self.writes.values().fold(0.0, |sum, rate| sum + rate)
    }

    /// What is not as wanted, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let (mut missed, limit) = (Vec::new(), self.most_renewals());
        if self.renewals > limit {
            missed.push(format!(
                "many nodes: {:.1} renewals/s, wanted {limit}",
                self.renewals
            ));
        }
        let writes = self.all_writes();
        if writes > MOST_WRITES {
            missed.push(format!(
                "many nodes: {writes:.1} other writes/s, wanted {MOST_WRITES}"
            ));
        }
        if self.processor.0 > 1.0 && self.profile == "release" {
            missed.push(format!(
                "many nodes: {:.2} % of a processor per daemon, wanted 1",
                self.processor.0
            ));
        }
        if self.resident > 20 * 1024 && self.profile == "release" {
            missed.push(format!(
                "many nodes: {} KiB resident, wanted 20 MiB",
                self.resident
            ));
        }
        missed
    }
}

impl fmt::Display for Large {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.writes.iter();
        let of: Vec<String> = of.map(|(what, rate)| format!("{what} {rate:.1}")).collect();
        write!(
            f,
            "{} nodes, {} addresses: {:.0} heartbeats/s and {:.1} unsolicited frames/s on the bridge, \
             {:.1} renewals of Leases/s and {:.1} other API writes/s{}; per daemon {:.2} % of a \
             processor on average ({:.2} in its own code, the rest in the kernel) and {:.2} % at \
             most, {:.1} MiB ({} build). Wanted: {} renewals/s, \
             {MOST_WRITES} other writes/s, 1 %, 20 MiB",
            self.nodes,
            self.addresses,
            self.heartbeats,
            self.announcements,
            self.renewals,
            self.all_writes(),
            if of.is_empty() {
                String::new()
            } else {
                format!(" ({})", of.join(", "))
            },
            self.processor.0,
            self.own_code,
            self.processor.1,
            self.resident as f64 / 1024.0,
            self.profile,
            self.most_renewals()
        )
    }
}
