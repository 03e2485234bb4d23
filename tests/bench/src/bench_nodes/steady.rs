//! A healthy cluster in which nothing happens: every kubelet posts that it lives.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::audit::{Entry, Who};
use super::cluster::{Cluster, most_within, refreshes};
use super::daemons::{PROGRAMS_WAY, TASKS_WAY};
use super::report::{Report, Row};
use crate::bench::Kind;
use crate::bench::proc::{connections_to, memory_kib, processor_time};
use mooring_test_support::wait::try_eventually;

/// A connection that nobody uses is closed after 90 s.
const IDLE_CONNECTIONS_END: Duration = Duration::from_secs(95);

/// How many watches a daemon that announces has, and so connections, as long as it speaks HTTP/1.1: of
/// its Node twice, of L2Networks, Services and EndpointSlices.
const WATCHES: usize = 5;

/// How long to wait for what is to close.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitLimit {
    None,
    UntilIdleOnesEnd,
}

const MIB: f64 = 1024.0;

/// Says whether the connections could be counted already.
pub(super) async fn run(cluster: &mut Cluster, report: &mut Report) -> Result<bool> {
    cluster.kubelets.pull_images().await?;
    cluster.tell("all machines have pulled their images");
    cluster.heartbeats = Some(cluster.kubelets.live());
    // While a Node was not Ready yet, the cloud was asked for its machine.
    cluster.cloud_rests(cluster.scale.minute() * 7 / 12).await?;
    cluster.tell("the cluster has come to rest");
    let (from, start) = (cluster.cp.now(), Instant::now());
    let used = processor_times(cluster)?;
    tokio::time::sleep(cluster.scale.steady).await;
    let (span, used_since) = (start.elapsed(), processor_times(cluster)?);
    let calls = cluster.linode.calls().since(start);
    let writes = cluster.writes_since(from).await?;
    cluster.tell("it has rested");

    let refreshes = refreshes(&calls);
    let most = most_within(&refreshes, cluster.scale.minute());
    let rate = calls.len() as f64 / span.as_secs_f64();
    report.add(Row {
        id: "T2",
        quantity: format!(
            "cloud reads of a healthy cluster, over {} s",
            span.as_secs()
        ),
        measured: format!(
            "{} listings of all machines ({} requests, {rate:.2}/s)",
            refreshes.len(),
            calls.len()
        ),
        target: "1 listing per minute, below 1 request/s".to_owned(),
        met: most <= 1 && rate < 1.0,
        kind: Kind::Count,
    });
    report.add(Row {
        id: "T3",
        quantity: format!("cloud writes, over {} s", span.as_secs()),
        measured: calls.writes().len().to_string(),
        target: "0".to_owned(),
        met: calls.writes().is_empty(),
        kind: Kind::Count,
    });
    report.add(Row {
        id: "T7",
        quantity: format!(
            "API server writes by both programs but for central's own Lease, over {} s",
            span.as_secs()
        ),
        measured: writes.first().map_or("0".to_owned(), |first| {
            format!("{}, first {first}", writes.len())
        }),
        target: "0".to_owned(),
        met: writes.is_empty(),
        kind: Kind::Count,
    });
    programs(cluster, report, &used, &used_since, span)?;
    lists(cluster, report);
    connections(cluster, report, WaitLimit::None).await
}

/// Of central, then of each daemon that is a program.
fn processor_times(cluster: &Cluster) -> Result<Vec<Duration>> {
    let daemons = cluster
        .programs
        .iter()
        .map(mooring_test_support::process::Process::pid);
    let pids = std::iter::once(cluster.central.process.pid()).chain(daemons);
    pids.map(processor_time).collect()
}

fn programs(
    cluster: &Cluster,
    report: &mut Report,
    before: &[Duration],
    after: &[Duration],
    span: Duration,
) -> Result<()> {
    let used: Vec<f64> = before
        .iter()
        .zip(after)
        .map(|(before, after)| 1000.0 * (*after - *before).as_secs_f64() / span.as_secs_f64())
        .collect();
    let resident = memory_kib(cluster.central.process.pid(), "VmRSS")? as f64 / MIB;
    report.add(Row {
        id: "T11",
        quantity: "central: resident memory, steady".to_owned(),
        measured: format!("{resident:.0} MiB, {:.1} millicores", used[0]),
        target: "< 100 MiB".to_owned(),
        met: resident < 100.0,
        kind: Kind::Measure,
    });
    let count = cluster.programs.len();
    if count == 0 {
        return Ok(());
    }
    let mut memories = Vec::with_capacity(count);
    for daemon in &cluster.programs {
        memories.push(memory_kib(daemon.pid(), "VmRSS")? as f64 / MIB);
    }
    let most = memories.iter().copied().fold(0.0, f64::max);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (memory, processor) = (mean(&memories), mean(&used[1..]));
    report.add(Row {
        id: "T12",
        quantity: format!("daemon: resident memory and processor time, of {count} programs"),
        measured: format!(
            "{memory:.1} MiB on average, {most:.1} MiB at most; {processor:.2} millicores on average"
        ),
        target: "< 12 MiB, < 1 millicore".to_owned(),
        met: most < 12.0 && processor < 1.0,
        kind: Kind::Measure,
    });
    Ok(())
}

fn lists(cluster: &Cluster, report: &mut Report) {
    let daemons = |entry: &&Entry| entry.who == Who::Daemon;
    let entries = || cluster.audit.entries().iter().filter(daemons);
    let unbounded: BTreeSet<&str> = entries()
        .filter(|entry| entry.is_unbounded_list())
        .map(|entry| entry.resource.as_str())
        .collect();
    let lists = entries().filter(|entry| entry.verb == "list").count();
    let leases = entries().filter(|entry| entry.resource == "leases" && entry.is_write());
    let leases = leases.count();
    report.add(Row {
        id: "T15",
        quantity: "lists by daemons that are neither of one object nor in pages".to_owned(),
        measured: format!("{} of {lists} {unbounded:?}", unbounded.len()),
        target: "0".to_owned(),
        met: unbounded.is_empty(),
        kind: Kind::Count,
    });
    report.add(Row {
        id: "T15",
        quantity: "Leases written by daemons, of which none is on a segment".to_owned(),
        measured: leases.to_string(),
        target: "0".to_owned(),
        met: leases == 0,
        kind: Kind::Count,
    });
}

/// How many connections there are when those of the start have closed. For a moment a daemon has one
/// more whenever a watch is renewed, every 5 minutes: so before the first of these, if it can be. Says
/// whether it could.
pub(super) async fn connections(
    cluster: &Cluster,
    report: &mut Report,
    patience: WaitLimit,
) -> Result<bool> {
    let count = |way| connections_to(cluster.entrance.by(way));
    let tasks = cluster.tasks.len();
    let programs = cluster.programs.len();
    let have_closed = || {
        count(TASKS_WAY).is_ok_and(|open| open <= tasks)
            && count(PROGRAMS_WAY).is_ok_and(|open| open <= programs * WATCHES)
    };
    match patience {
        WaitLimit::None if !have_closed() => return Ok(false),
        WaitLimit::None => {}
        WaitLimit::UntilIdleOnesEnd => {
            // Whether it came to that is in the report.
            let _ = try_eventually(IDLE_CONNECTIONS_END, async || have_closed()).await;
        }
    }
    let open = count(TASKS_WAY)?;
    report.add(Row {
        id: "T15",
        quantity: format!(
            "connections to the API server of {tasks} daemons that only report (tasks)"
        ),
        measured: open.to_string(),
        target: "1 each".to_owned(),
        met: open <= tasks,
        kind: Kind::Count,
    });
    let open = count(PROGRAMS_WAY)?;
    let each = open as f64 / programs.max(1) as f64;
    report.add(Row {
        id: "T15",
        quantity: format!(
            "connections to the API server of {programs} daemons that also announce (programs)"
        ),
        measured: format!("{open}, {each:.1} each"),
        target: "1 each".to_owned(),
        met: open <= programs,
        kind: Kind::Count,
    });
    Ok(true)
}
