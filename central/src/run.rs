//! Puts the program together, and takes it apart in the right order.

mod cluster_metrics;
pub mod import;
pub mod inspect;
mod manifest;
pub mod plan_command;
mod pod_networks;
pub mod server;
mod watched;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use mooring_common::k8s::{ClientOptions, Connections, client};
use mooring_common::metrics::register_program;
use mooring_common::program::{self, Threads};
use mooring_common::shutdown;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cloud_provider::load_balancers::LoadBalancers;
use crate::cloud_provider::{ForeignPool, Instances as _};
use crate::controllers::{
    Context, address_pool, heartbeat_secret, node_init, node_ipam, node_lifecycle, routes, service,
};
use crate::election::{Elector, Leadership};
use crate::flags::{Flags, ProcessEnv, TABLE};
use crate::providers::{self, Opened};
use cluster_metrics::ClusterMetrics;
use pod_networks::PodNetworks;
use server::Health;
use watched::{Follows, Watched};

/// The whole program, from the name that it was started by and its arguments to the exit code: 0
/// after SIGTERM, 1 after a failure or the loss of the leader's lease, 2 for a command line that
/// cannot be read. With `plan` in front, it shows what it would do, and does not do it. With `import`, it shows
/// what another implementation is configured to do, as L2Networks; with a command of `kubectl mooring`, what there is
/// in the cluster.
#[must_use]
pub fn main(program: &str, mut arguments: Vec<String>) -> ExitCode {
    let env = |variable: &str| std::env::var(variable).ok();
    let env = &env;
    if arguments.first().is_some_and(|first| first == "plan") {
        return plan_command::main(ProcessEnv { program, env }, arguments.split_off(1));
    }
    if arguments.first().is_some_and(|first| first == "import") {
        return import::main(arguments.split_off(1));
    }
    if let Some(ended) = inspect::of_central(&arguments) {
        return ended;
    }
    let logging = |flags: &Flags| (flags.verbosity, flags.log_format);
    program::main(
        &TABLE,
        arguments,
        |values| Flags::read(values, ProcessEnv { program, env }),
        logging,
        Threads::PerCore,
        run,
    )
}

async fn run(flags: Flags) -> anyhow::Result<()> {
    if !flags.without_effect.is_empty() {
        tracing::warn!(
            flags = flags.without_effect.join(" "),
            "flags without effect here"
        );
    }
    let stop = shutdown::on_signal().context("cannot listen to signals")?;
    let program = Program::new(flags, stop).await?;
    program.run().await
}

struct Program {
    flags: Flags,
    opened: Opened,
    load_balancers: Vec<Arc<dyn LoadBalancers>>,
    pod_networks: PodNetworks,
    client: Client,
    /// For the leader's lease alone: its requests are given up before a dead connection is noticed.
    election_client: Client,
    identity: String,
    stop: CancellationToken,
    registry: Registry,
    watched: Watched,
    /// Set once it is known who may lead.
    leadership: Arc<OnceLock<Leadership>>,
}

/// What the controllers count.
struct Metrics {
    nodes: node_init::Metrics,
    lifecycle: node_lifecycle::Metrics,
    services: service::Metrics,
    routes: routes::Metrics,
}

impl Program {
    async fn new(flags: Flags, stop: CancellationToken) -> anyhow::Result<Self> {
        let mut registry = Registry::default();
        let mut opened = providers::open(&flags, &mut registry).await?;
        let pod_networks = PodNetworks::new(&flags, &opened.pod_networks)?;
        let mut options = ClientOptions {
            kubeconfig: flags.kubeconfig.clone(),
            master: flags.master.clone(),
            user_agent: "cloud-controller-manager".to_owned(),
            connections: Connections::Shared,
            ..ClientOptions::default()
        };
        let all_others = client(&options).await?;
        options.connections = Connections::PerRequest;
        let election_client = client(&options).await?;
        register_program(&mut registry, "mooring-central");
        let identity = format!("{}_{}", hostname(), uuid::Uuid::new_v4());
        let load_balancers = opened.make_load_balancers(&all_others, &identity);
        Ok(Self {
            identity,
            registry,
            watched: Watched::new(),
            leadership: Arc::default(),
            flags,
            opened,
            load_balancers,
            pod_networks,
            client: all_others,
            election_client,
            stop,
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let mut tasks = JoinSet::new();
        let health = Arc::new(Health::new(std::mem::take(&mut self.opened.obstacles)));
        let metrics = Metrics {
            nodes: node_init::Metrics::register(&mut self.registry),
            lifecycle: node_lifecycle::Metrics::register(&mut self.registry),
            services: service::Metrics::register(&mut self.registry),
            routes: routes::Metrics::register(&mut self.registry),
        };
        self.registry
            .register_collector(Box::new(self.watched.queues()));
        self.registry
            .register_collector(Box::new(self.cluster_metrics()));
        for run in std::mem::take(&mut self.opened.background) {
            let failed = run(self.stop.clone());
            tasks.spawn(async { Err(failed.await) });
        }
        if let Some(serving) = self.flags.serving.clone() {
            let (client, health) = (self.client.clone(), health.clone());
            let registry = std::mem::take(&mut self.registry);
            tasks.spawn(async move {
                server::serve(&serving, client, health, registry)
                    .await
                    .map_err(Into::into)
            });
        }
        let follows = self.follows();
        tasks.spawn(never_ends(self.watched.clone().follow(
            self.client.clone(),
            self.opened.clouds.clone(),
            follows,
        )));
        let watched = self.watched.clone();
        tasks.spawn(never_ends(async move {
            watched.synced(follows).await;
            health.set_synced();
        }));
        let ended = tokio::select! {
            ended = failure_of(&mut tasks) => ended,
            ended = self.lead(metrics) => ended,
        };
        tasks.shutdown().await;
        ended
    }

    /// Services are followed if anybody serves them; L2Networks, if there are machines that a file
    /// describes; EndpointSlices, if that is asked for and makes a difference.
    fn follows(&self) -> Follows {
        let serves = self.flags.controllers.service;
        let networks = serves && self.has_networks();
        let clouds = self.load_balancers.iter().filter(|_| serves);
        let can_follow = clouds.clone().any(|cloud| cloud.follows_endpoints());
        Follows {
            services: networks || clouds.count() > 0,
            networks,
            endpoints: can_follow && self.flags.services.follows_endpoints,
            routes: self.pod_networks.routes.is_some(),
            pod_cidrs: self.pod_networks.ipam.is_some(),
        }
    }

    /// Whether there may be L2Networks.
    fn has_networks(&self) -> bool {
        !self.opened.networks.is_empty()
    }

    fn cluster_metrics(&self) -> ClusterMetrics {
        let leader = self.flags.leader.as_ref();
        ClusterMetrics {
            leadership: self.leadership.clone(),
            lease: leader.map_or_else(|| "none".to_owned(), |flags| flags.name.clone()),
            networks: self.watched.networks.clone(),
        }
    }

    /// Waits for the caches and for leadership, then works until stopped or deposed. The lease is
    /// given back when the controllers have ended; if they do not in time, it runs out instead, so that
    /// the next leader does not meet what is still on its way.
    async fn lead(&self, metrics: Metrics) -> anyhow::Result<()> {
        // Nodes are looked after also where the L2Networks' CRD is missing.
        let synced = self.watched.nodes.synced();
        let Some(flags) = self.flags.leader.clone() else {
            if self.stop.run_until_cancelled(synced).await.is_some() {
                let leadership = Leadership::always(self.stop.clone());
                let _ = self.leadership.set(leadership.clone());
                self.control(leadership, metrics).await;
            }
            return Ok(());
        };
        let mut elector = Elector::new(
            self.election_client.clone(),
            flags,
            self.identity.clone(),
            self.stop.clone(),
        );
        let leadership = elector.leadership();
        let _ = self.leadership.set(leadership.clone());
        let leading = async {
            synced.await;
            elector.acquire().await;
        };
        if self.stop.run_until_cancelled(leading).await.is_some() {
            let controllers = self.control(leadership, metrics);
            let drained = tokio::select! {
                drained = controllers => drained,
                loss = elector.hold() => return Err(loss).context("not the leader any more"),
            };
            if drained == Drained::CutOff {
                return Ok(());
            }
        }
        elector.release().await;
        Ok(())
    }

    /// Runs the controllers until stopped, and waits for what is under way then.
    async fn control(&self, leadership: Leadership, metrics: Metrics) -> Drained {
        let context = Context {
            client: self.client.clone(),
            leadership,
            instances: self.opened.clouds.clone(),
            nodes: self.watched.nodes.clone(),
            provider_ids: self.watched.provider_ids.clone(),
            identity: self.identity.clone(),
        };
        let chosen = self.flags.controllers;
        let nodes = self.flags.nodes;
        let watched = self.watched.clone();
        let mut controllers = JoinSet::new();
        if chosen.node {
            let (queue, stop) = (watched.node_queue.clone(), self.stop.clone());
            controllers.spawn(node_init::run(
                context.clone(),
                nodes,
                metrics.nodes,
                queue,
                stop,
            ));
        }
        if chosen.node_lifecycle {
            let (queue, stop) = (watched.lifecycle_queue.clone(), self.stop.clone());
            controllers.spawn(node_lifecycle::run(
                context.clone(),
                nodes,
                metrics.lifecycle,
                queue,
                stop,
            ));
        }
        if self.follows().services {
            self.control_services(&mut controllers, &context, &metrics.services);
        } else if chosen.service {
            tracing::info!(
                "this version has no load balancers of these clouds, Services are left alone"
            );
        }
        self.control_pod_networks(&mut controllers, &context, &metrics.routes);
        if let Some(name) = self.flags.heartbeat_secret.clone() {
            let (context, stop) = (context.clone(), self.stop.clone());
            controllers.spawn(heartbeat_secret::run(context, name, stop));
        }
        let (clouds, interval) = (self.opened.clouds.clone(), nodes.address_period);
        let stop = self.stop.clone();
        controllers.spawn(async move {
            stop.run_until_cancelled(clouds.keep_fresh(interval)).await;
        });
        let (stop, limit) = (self.stop.clone(), self.flags.shutdown_timeout);
        let drained = drain(&mut controllers, stop, limit).await;
        controllers.shutdown().await;
        drained
    }

    fn control_pod_networks(
        &self,
        controllers: &mut JoinSet<()>,
        context: &Context,
        metrics: &routes::Metrics,
    ) {
        let watched = &self.watched;
        if let Some((ipam, cluster_cidr)) = self.pod_networks.ipam.clone() {
            let (queue, stop) = (watched.ipam_queue.clone(), self.stop.clone());
            controllers.spawn(node_ipam::run(
                context.clone(),
                ipam,
                cluster_cidr,
                queue,
                stop,
            ));
        }
        if let Some((cloud, options)) = self.pod_networks.routes.clone() {
            let fed = (watched.route_history.clone(), watched.route_queue.clone());
            let (context, metrics, stop) = (context.clone(), metrics.clone(), self.stop.clone());
            controllers.spawn(routes::run(context, cloud, options, metrics, fed, stop));
        }
    }

    fn control_services(
        &self,
        controllers: &mut JoinSet<()>,
        context: &Context,
        metrics: &service::Metrics,
    ) {
        let watched = &self.watched;
        let flags = &self.flags.services;
        let l2 = self.has_networks().then(|| {
            let pools = self.opened.networks.iter().flat_map(|pool| pool().ranges);
            let foreign = ForeignPool {
                ranges: pools.collect(),
            };
            self.control_networks(controllers, context, foreign);
            let queue = watched.network_queue.clone();
            service::L2 {
                allocations: watched.allocations.clone(),
                namespaces: watched.namespaces.clone(),
                changed: Box::new(move || queue.add(address_pool::AllNetworks)),
                without_address: metrics.without_address.clone(),
            }
        });
        let endpoints = self.follows().endpoints;
        if flags.follows_endpoints && !endpoints {
            tracing::warn!(
                "--endpoint-aware-members has no effect: no cloud here can stop sending traffic to a \
                 member without cutting connections"
            );
        }
        let cloud = |load_balancers: &Arc<dyn LoadBalancers>| service::Cloud {
            endpoints: (endpoints && load_balancers.follows_endpoints())
                .then(|| watched.endpoint_changes.clone()),
            load_balancers: load_balancers.clone(),
            options: service::Options {
                resync: flags.resync_period,
                delete_orphans: flags.delete_orphans,
                health: flags.health,
                take_over: flags.take_over.clone(),
                settle_time: flags.settle_time,
            },
            node_changes: watched.node_changes.clone(),
            metrics: metrics.clone(),
        };
        let clouds = self.load_balancers.iter().map(cloud).collect();
        let work = service::Work {
            concurrency: flags.concurrent_syncs,
            services: watched.services.clone(),
            queue: watched.service_queue.clone(),
            own_classes: flags.own_classes.clone(),
            serves_classless: flags.serves_classless,
            without_address: metrics.without_address.clone(),
        };
        let stop = self.stop.clone();
        controllers.spawn(service::run(context.clone(), work, l2, clouds, stop));
    }

    fn control_networks(
        &self,
        controllers: &mut JoinSet<()>,
        context: &Context,
        foreign: ForeignPool,
    ) {
        let watched = self.watched.clone();
        let all_services = move || {
            for (key, _) in watched.services.all() {
                watched.service_queue.add(key);
            }
        };
        controllers.spawn(address_pool::run(
            context.clone(),
            self.watched.networks.clone(),
            foreign,
            self.watched.allocations.clone(),
            self.watched.network_queue.clone(),
            all_services,
            self.stop.clone(),
        ));
    }
}

/// How the controllers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    /// With an answer to all that they had asked for.
    All,
    /// Something was still on its way after `--shutdown-timeout`.
    CutOff,
}

/// Once stopped, waits for what is under way.
async fn drain(controllers: &mut JoinSet<()>, stop: CancellationToken, limit: Duration) -> Drained {
    stop.cancelled().await;
    let ended = async { while controllers.join_next().await.is_some() {} };
    if tokio::time::timeout(limit, ended).await.is_ok() {
        return Drained::All;
    }
    tracing::warn!(
        seconds = limit.as_secs(),
        "requests are not answered yet: ending without releasing the lease; a longer \
         --shutdown-timeout, below the Pod's terminationGracePeriodSeconds, waits for them"
    );
    Drained::CutOff
}

/// For what is to run as long as the program.
async fn never_ends(task: impl Future<Output = ()>) -> anyhow::Result<()> {
    task.await;
    std::future::pending().await
}

/// The first failure of what runs beside the controllers.
async fn failure_of(tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task panicked")??;
    }
    std::future::pending().await
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .unwrap_or_else(|_| "unknown".to_owned())
}
