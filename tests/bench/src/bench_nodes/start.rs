//! Nodes register at a steady rate. Each daemon starts when its Node is there, as its DaemonSet
//! would start it, and its metadata can be read from the beginning.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{MissedTickBehavior, interval};

use super::audit::Who;
use super::cluster::{Cluster, LIMIT, about_one};
use super::daemons::{run_task, start_program};
use super::report::{Report, Row};
use crate::bench::Kind;

/// How often it is looked how far the Nodes are.
const LOOK: Duration = Duration::from_secs(5);

pub(super) async fn run(cluster: &mut Cluster, report: &mut Report) -> Result<()> {
    let from = cluster.cp.now();
    register_all(cluster).await?;
    all_initialised(cluster).await?;
    cluster.audit.settle(&cluster.admin).await?;
    times(cluster, report)?;
    writes(cluster, report, from);
    let about_one = about_one(&cluster.linode.calls());
    report.add(Row {
        id: "T1",
        quantity: "requests to the cloud that name one machine, at the start".to_owned(),
        measured: about_one.len().to_string(),
        target: "0".to_owned(),
        met: about_one.is_empty(),
        kind: Kind::Count,
    });
    Ok(())
}

async fn register_all(cluster: &mut Cluster) -> Result<()> {
    let mut turns = interval(Duration::from_secs(1) / cluster.scale.per_second);
    turns.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut registrations = tokio::task::JoinSet::new();
    for index in 0..cluster.names.len() {
        turns.tick().await;
        let kubelets = cluster.kubelets.clone();
        registrations.spawn(async move {
            kubelets.register(index).await?;
            anyhow::Ok(index)
        });
        while let Some(registered) = registrations.try_join_next() {
            start_daemon(cluster, registered??)?;
        }
    }
    while let Some(registered) = registrations.join_next().await {
        start_daemon(cluster, registered??)?;
    }
    cluster.tell("all Nodes have registered");
    Ok(())
}

fn start_daemon(cluster: &mut Cluster, index: usize) -> Result<()> {
    let name = cluster.names[index].clone();
    let metadata = cluster.metadata.endpoint(&name);
    let kubeconfig = cluster.kubeconfigs[index].clone();
    if cluster.is_program(index) {
        let program = start_program(&name, cluster.cp.folder(), &kubeconfig, &metadata)?;
        cluster.programs.push(program);
    } else {
        cluster.tasks.spawn(run_task(name, kubeconfig, metadata));
    }
    let kubelets = cluster.kubelets.clone();
    tokio::spawn(async move {
        // One that is not heard posts again with its next heartbeat.
        let _ = kubelets.get_ready(index).await;
    });
    Ok(())
}

async fn all_initialised(cluster: &mut Cluster) -> Result<()> {
    let (deadline, all) = (Instant::now() + LIMIT, cluster.names.len());
    let mut looks = interval(LOOK);
    loop {
        looks.tick().await;
        cluster.audit.read_on()?;
        let done = cluster.audit.initialised();
        if done == all {
            cluster.tell("all Nodes are initialised");
            return Ok(());
        }
        cluster.tell(&format!("{done} Nodes are initialised"));
        ensure!(
            cluster.central.process.is_running(),
            "central has ended, as it does where the API server is away for 10 s; is the machine busy with other \
             work?\n{}",
            cluster.central.process.log_tail()
        );
        ensure!(
            Instant::now() < deadline,
            "{done} of {all} Nodes are initialised after {LIMIT:?}"
        );
    }
}

fn times(cluster: &Cluster, report: &mut Report) -> Result<()> {
    let spans = cluster.audit.spans();
    let mut taken: Vec<SignedDuration> = Vec::new();
    let (mut first, mut last) = (Timestamp::MAX, Timestamp::MIN);
    for (registered, untainted) in spans.values() {
        let Some(untainted) = untainted else { continue };
        taken.push(untainted.duration_since(*registered));
        first = first.min(*registered);
        last = last.max(*untainted);
    }
    taken.sort();
    let at = |percent: usize| taken.get((taken.len() * percent).div_ceil(100).saturating_sub(1));
    let (p50, p99, most) = (at(50), at(99), taken.last());
    let (p50, p99, most) = p50
        .zip(p99)
        .zip(most)
        .map(|((p50, p99), most)| (p50.as_millis(), p99.as_millis(), most.as_millis()))
        .context("no Node was initialised")?;
    let all = last.duration_since(first).as_secs_f64();
    report.add(Row {
        id: "T5",
        quantity: "from the registration of a Node, its metadata readable, until its taint is gone"
            .to_owned(),
        measured: format!("p50 {p50} ms, p99 {p99} ms, longest {most} ms"),
        target: "p99 < 1 s".to_owned(),
        met: p99 < 1000,
        kind: Kind::Measure,
    });
    report.add(Row {
        id: "T5",
        quantity: format!(
            "from the first registration until all {} Nodes are initialised, {} registering each \
             second",
            cluster.names.len(),
            cluster.scale.per_second
        ),
        measured: format!("{all:.0} s"),
        target: "< 120 s".to_owned(),
        met: all < 120.0,
        kind: Kind::Measure,
    });
    Ok(())
}

fn writes(cluster: &Cluster, report: &mut Report, from: Timestamp) {
    let (mut patches, mut events) = (HashMap::<&str, u32>::new(), HashMap::<&str, u32>::new());
    let mut centrals = 0;
    for entry in cluster.audit.since(from).filter(|entry| entry.is_write()) {
        match (entry.who, entry.resource.as_str()) {
            (Who::Daemon, "events") => *events.entry(&entry.token_of).or_default() += 1,
            (Who::Daemon, _) => *patches.entry(&entry.token_of).or_default() += 1,
            (Who::Central, "leases") | (Who::Other, _) => {}
            (Who::Central, _) => centrals += 1,
        }
    }
    let most = |counts: &HashMap<&str, u32>| counts.values().copied().max().unwrap_or(0);
    let (most_patches, most_events) = (most(&patches), most(&events));
    let nodes = cluster.names.len();
    let mut measured = format!(
        "at most {most_patches} patches and {most_events} event; {centrals} by central for all \
         {nodes} Nodes"
    );
    // What is too much, so that nobody has to look for it in the log.
    let beyond = patches.iter().find(|(_, count)| **count > 2);
    if let Some((node, _)) = beyond {
        let mut written = vec![measured];
        let entries = cluster.audit.since(from).filter(|entry| entry.is_write());
        let mine = entries.filter(|entry| entry.who == Who::Daemon && entry.token_of == **node);
        written.extend(mine.map(|entry| format!("{} {}", entry.uri, entry.code)));
        measured = written.join("; ");
    }
    report.add(Row {
        id: "T6",
        quantity: "API server writes per initialisation".to_owned(),
        measured,
        target: "2 patches, 1 event".to_owned(),
        met: most_patches <= 2 && most_events <= 1 && centrals == 0 && patches.len() == nodes,
        kind: Kind::Count,
    });
}
