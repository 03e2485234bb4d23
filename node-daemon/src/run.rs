//! Puts the daemon together, and takes it apart in the right order.

mod control_plane;
mod events;
pub mod flags;
mod metrics;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use kube::{Api, Client};
use mooring_common::errors::with_causes;
use mooring_common::k8s::{ClientOptions, Events, client};
use mooring_common::machines::MachinesFile;
use mooring_common::metrics::register_program;
use mooring_common::names::components;
use mooring_common::node_init::Writer;
use mooring_common::program::{self, Threads};
use mooring_common::shutdown;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::events::QueuedEvents;
use self::flags::{Flags, ReportFlags, TABLE};
use crate::announce::control_plane::manifest;
use crate::announce::{self, Announcer, Settings};
use crate::cluster::snapshot::Snapshot;
use crate::fence::{self, WritePermit};
use crate::report::metadata::{self, Selected};
use crate::report::{self, OwnNode, Reporter};
use crate::wire::keys::{KeyRing, KeysError};
use crate::{livez, responder, vlan};

/// How often the machines file is looked at for a change.
const POLL: Duration = Duration::from_secs(2);

/// The whole program, from the command line to the exit code: 0 after SIGTERM, 1 after a failure,
/// 2 for a command line that cannot be read. With `control-plane` in front, it announces the address of the
/// control plane and nothing else; with `control-plane-manifest`, it prints the static Pod for that.
#[must_use]
pub fn main(mut arguments: Vec<String>) -> ExitCode {
    match arguments.first().map(String::as_str) {
        Some("control-plane") => return control_plane::main(arguments.split_off(1)),
        Some("control-plane-manifest") => {
            return manifest::main(arguments.split_off(1));
        }
        _ => {}
    }
    let logging = |flags: &Flags| (flags.verbosity, flags.log_format);
    program::main(&TABLE, arguments, Flags::read, logging, Threads::One, run)
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    if flags.clean_up {
        return clean_up().await;
    }
    let stop = shutdown::on_signal().context("cannot listen to signals")?;
    let client = client(&ClientOptions {
        kubeconfig: flags.kubeconfig.clone(),
        master: flags.master.clone(),
        user_agent: "mooring-node".to_owned(),
        ..ClientOptions::default()
    })
    .await?;
    let events = Events::new(client.clone(), components::NODE_DAEMON, &flags.node_name);
    let mut registry = Registry::default();
    register_program(&mut registry, "mooring-node");
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let permit = start_fence(&mut tasks, &client, &flags, &mut registry);
    if let Some(report) = flags.report {
        let events = Events::new(client.clone(), components::NODE, &flags.node_name);
        start_report(
            &mut tasks,
            &client,
            flags.node_name.clone(),
            events,
            report,
            permit.clone(),
            &stop,
        )
        .await?;
    }
    let snapshot: Arc<ArcSwap<Snapshot>> = Arc::default();
    let in_charge = CancellationToken::new();
    let mut livez = match flags.livez {
        Some(livez) => Some(livez::Server::start(livez::Options {
            bound: livez::Bound::new(livez.address)?,
            probes: livez.probes.map(livez::Bound::new).transpose()?,
            detail: livez::DetailNetworks::new(livez.detail),
            health_check_node_ports: livez.health_check_node_ports,
            snapshot: Arc::clone(&snapshot),
            in_charge: in_charge.clone(),
            metrics: livez::Metrics::register(&mut registry),
        })?),
        None => None,
    };
    let mut announcing = JoinSet::new();
    if let Some(announce) = flags.announce {
        let (events, write_events) = QueuedEvents::new(events);
        tasks.spawn(async move {
            write_events.await;
            Ok(())
        });
        announcing.spawn(announce::run(Announcer {
            client: client.clone(),
            node_name: flags.node_name,
            secrets: read_secrets(&announce)?,
            settings: announce,
            events,
            metrics: responder::metrics::Metrics::register(&mut registry),
            vlan_metrics: vlan::Metrics::register(&mut registry),
            snapshot,
            permit,
            in_charge,
            cancel: stop.clone(),
        }));
    }
    let registry = Arc::new(registry);
    if let Some(address) = flags.metrics {
        start_metrics(&mut tasks, address, registry.clone())?;
    }
    if let Some(address) = flags.secure_metrics {
        start_secure_metrics(&mut tasks, address, client, registry)?;
    }
    let ended = tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = failure_of(&mut tasks) => ended,
        error = failure_of_livez(&mut livez) => Err(error.into()),
    };
    stop.cancel();
    while announcing.join_next().await.is_some() {}
    // Health checks are answered until the very end: the Node goes on.
    if let Some(livez) = livez {
        livez.finish().await;
    }
    tasks.shutdown().await;
    ended
}

/// Takes away what the daemon has made on this machine.
async fn clean_up() -> anyhow::Result<()> {
    let done = vlan::clean_up::clean_up().await?;
    announce::forwarding::keeper::clean_up().await?;
    for step in &done {
        tracing::info!(%step, "clean-up");
    }
    tracing::info!(
        steps = done.len(),
        "nothing of Mooring's is left on this node"
    );
    Ok(())
}

/// Reads the secrets of heartbeats. Where there are none yet, they are waited for, which is usual on a new
/// installation; where there are some that cannot be used, that is a mistake.
fn read_secrets(settings: &Settings) -> anyhow::Result<KeyRing> {
    let until = if settings.allow_unsigned {
        "heartbeats are not signed, so that any machine on a segment can have a say in who speaks there"
    } else {
        "taking part in no segment until there is a secret to sign heartbeats with"
    };
    let Some(path) = &settings.heartbeat_keys else {
        tracing::warn!("{until}; name one with --heartbeat-key-file");
        return Ok(KeyRing::default());
    };
    match KeyRing::read(path) {
        Ok(ring) => Ok(ring),
        Err(error) if error.is_none_there() && !settings.allow_unsigned => {
            let error = with_causes(&error);
            tracing::info!(error, "{until}");
            Ok(KeyRing::default())
        }
        Err(error @ (KeysError::Unreadable { .. } | KeysError::Empty { .. })) => {
            let error = with_causes(&error);
            tracing::warn!(error, "{until}");
            Ok(KeyRing::default())
        }
        Err(error) => Err(error.into()),
    }
}

/// Finds out whether the daemon may write.
fn start_fence(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    client: &Client,
    flags: &Flags,
    registry: &mut Registry,
) -> WritePermit {
    let metrics = fence::Metrics::register(registry);
    let (granter, permit) = WritePermit::withheld();
    if flags.allow_unfenced {
        fence::waive(&metrics, &granter);
        return permit;
    }
    let test = fence::Test {
        client: client.clone(),
        node_name: flags.node_name.clone(),
        lease_namespace: flags
            .announce
            .as_ref()
            .map(|announce| announce.namespace.clone()),
        events: Events::new(client.clone(), components::NODE_DAEMON, &flags.node_name),
        metrics,
    };
    tasks.spawn(async move {
        test.run(granter).await;
        Ok(())
    });
    permit
}

fn start_metrics(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    address: SocketAddr,
    registry: Arc<Registry>,
) -> anyhow::Result<()> {
    let listener = livez::listen(address).with_context(|| {
        format!("cannot listen on {address}; choose another --metrics-bind-address")
    })?;
    tasks.spawn(async move { metrics::serve(listener, registry).await.map_err(Into::into) });
    Ok(())
}

fn start_secure_metrics(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    address: SocketAddr,
    client: Client,
    registry: Arc<Registry>,
) -> anyhow::Result<()> {
    let listener = livez::listen(address).with_context(|| {
        format!("cannot listen on {address}; choose another --metrics-secure-bind-address")
    })?;
    let certificate = metrics::certificate().context("cannot serve metrics by HTTPS")?;
    tasks.spawn(async move {
        metrics::serve_secure(listener, certificate, client, registry).await;
        Ok(())
    });
    Ok(())
}

async fn start_report(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    client: &Client,
    node_name: String,
    events: Events,
    flags: ReportFlags,
    permit: WritePermit,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let (changed, facts_changed) = watch::channel(0);
    let machines = match flags.machines {
        Some(path) => Some(MachinesFile::open(Some(path)).await?),
        None => None,
    };
    let Selected { source, search } = metadata::select(flags.metadata, machines.clone())?;
    if let Some(search) = search {
        let stop = stop.clone();
        tasks.spawn(async move {
            search.run(changed, stop).await;
            Ok(())
        });
    } else if let Some(file) = machines {
        let stop = stop.clone();
        tasks.spawn(async move {
            let mut reloads = file.changes();
            let told = async {
                while reloads.changed().await.is_ok() {
                    changed.send_modify(|generation| *generation += 1);
                }
            };
            tokio::join!(file.watch(POLL, stop), told);
            Ok(())
        });
    } else {
        tasks.spawn(async move {
            changed.closed().await;
            Ok(())
        });
    }
    let node = Arc::new(OwnNode::new(node_name));
    let reporter = Reporter {
        node: node.clone(),
        source,
        writer: Writer::new(client.clone(), events),
        period: flags.period,
    };
    let nodes = Api::all(client.clone());
    tasks.spawn(async move {
        node.follow(nodes).await;
        Ok(())
    });
    let stop = stop.clone();
    tasks.spawn(async move {
        permit.granted().await;
        report::run(reporter, facts_changed, stop).await;
        Ok(())
    });
    Ok(())
}

async fn failure_of_livez(livez: &mut Option<livez::Server>) -> livez::ServeError {
    match livez {
        Some(livez) => livez.failed().await,
        None => std::future::pending().await,
    }
}

/// The first failure of what runs beside the announcer.
async fn failure_of(tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task panicked")??;
    }
    std::future::pending().await
}
