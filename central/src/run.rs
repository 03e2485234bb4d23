//! Puts the program together, and takes it apart in the right order.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use kube::runtime::watcher;
use kube::{Api, Client};
use mooring_common::k8s::{Cache, Change, ClientOptions, client};
use mooring_common::node_init::calls_for_a_look;
use mooring_common::node_view::NodeView;
use mooring_common::program::{self, Threads};
use mooring_common::shutdown;
use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clouds::{ForeignPool, Instances, cloudlycke};
use crate::controllers::address_pool::{self, Allocations, NetworkView};
use crate::controllers::service;
use crate::controllers::{Bearers, Context, canonical, node_init, node_lifecycle};
use crate::election::{Elector, Leadership};
use crate::flags::{Flags, Surroundings, TABLE};
use crate::providers::{self, Opened};
use crate::server::{self, Health};
use crate::service_view::ServiceView;

/// The whole program, from the name that it was started by and its arguments to the exit code: 0 after SIGTERM, 1 after a failure or
/// the loss of the leader's lease, 2 for a command line that cannot be read.
#[must_use]
pub fn main(program: &str, arguments: Vec<String>) -> ExitCode {
    let env = |variable: &str| std::env::var(variable).ok();
    let env = &env;
    let logging = |flags: &Flags| (flags.verbosity, flags.log_format);
    program::main(
        &TABLE,
        arguments,
        |values| Flags::read(values, Surroundings { program, env }),
        logging,
        Threads::PerCore,
        |flags| async { run(flags).await.map_err(|error| format!("{error:#}")) },
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
    client: Client,
    identity: String,
    stop: CancellationToken,
    registry: Registry,
    watched: Watched,
}

/// The caches, warm on the leader and on those that stand by, and the queues that they feed.
#[derive(Clone)]
struct Watched {
    nodes: Arc<Cache<NodeView>>,
    bearers: Arc<Bearers>,
    services: Arc<Cache<ServiceView>>,
    networks: Arc<Cache<NetworkView>>,
    allocations: Arc<Allocations>,
    node_queue: Arc<node_init::Queue>,
    lifecycle_queue: Arc<node_lifecycle::Queue>,
    service_queue: Arc<service::Queue>,
    network_queue: Arc<address_pool::Queue>,
}

impl Watched {
    fn new() -> Self {
        Self {
            nodes: Arc::default(),
            bearers: Arc::default(),
            services: Arc::default(),
            networks: Arc::default(),
            allocations: Arc::default(),
            node_queue: node_init::queue(),
            lifecycle_queue: node_lifecycle::queue(),
            service_queue: service::queue(),
            network_queue: address_pool::queue(),
        }
    }

    fn node_changed(&self, change: &Change<NodeView>, instances: &dyn Instances) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let name = &change.key.name;
        if let Some(delay) = calls_for_a_look(old, new) {
            self.node_queue.add_after(name.clone(), delay);
        }
        let id = |node: Option<&NodeView>| {
            let id = node?.provider_id.as_deref()?;
            Some(canonical(instances, id))
        };
        // Another Node may have been refused because this one had its machine.
        let others = self
            .bearers
            .changed(name, id(old).as_deref(), id(new).as_deref());
        for other in others {
            self.node_queue.add(other);
        }
        if node_lifecycle::concerns(old, new) {
            // Together with what else changes meanwhile: a pass looks at all Nodes.
            self.lifecycle_queue
                .add_after(node_lifecycle::AllNodes, node_lifecycle::SOON);
        }
    }

    async fn follow(self, client: Client, instances: Arc<dyn Instances>, with_services: bool) {
        let config = watcher::Config::default;
        let nodes = self
            .nodes
            .follow(Api::all(client.clone()), config(), |change| {
                self.node_changed(&change, &*instances);
            });
        if !with_services {
            return nodes.await;
        }
        let services = self
            .services
            .follow(Api::all(client.clone()), config(), |change| {
                self.service_queue.add(change.key);
            });
        let networks = self.networks.follow(Api::all(client), config(), |_| {
            self.network_queue.add(address_pool::AllNetworks);
        });
        tokio::join!(nodes, services, networks);
    }

    async fn synced(&self, with_services: bool) {
        self.nodes.synced().await;
        if with_services {
            self.services.synced().await;
            self.networks.synced().await;
        }
    }
}

impl Program {
    async fn new(flags: Flags, stop: CancellationToken) -> anyhow::Result<Self> {
        let mut registry = Registry::default();
        let opened = providers::open(&flags, &mut registry).await?;
        let client = client(&ClientOptions {
            kubeconfig: flags.kubeconfig.clone(),
            master: flags.master.clone(),
            user_agent: "cloud-controller-manager".to_owned(),
        })
        .await?;
        let host = hostname();
        Ok(Self {
            identity: format!("{host}_{}", uuid::Uuid::new_v4()),
            registry,
            watched: Watched::new(),
            flags,
            opened,
            client,
            stop,
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let mut tasks = JoinSet::new();
        let health = Arc::new(Health::default());
        let node_metrics = node_init::Metrics::register(&mut self.registry);
        let lifecycle_metrics = node_lifecycle::Metrics::register(&mut self.registry);
        if let Some(machines) = self.opened.machines.clone() {
            let metrics = cloudlycke::Metrics::register(&mut self.registry);
            let stop = self.stop.clone();
            tasks.spawn(never_ends(
                async move { machines.watch(metrics, stop).await },
            ));
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
        if let Some(linode) = self.opened.token_checked.clone() {
            tasks.spawn(Opened::until_token_is_refused(linode));
        }
        let with_services = self.with_services();
        tasks.spawn(never_ends(self.watched.clone().follow(
            self.client.clone(),
            self.opened.clouds.clone(),
            with_services,
        )));
        let watched = self.watched.clone();
        tasks.spawn(never_ends(async move {
            watched.synced(with_services).await;
            health.set_ready();
        }));
        let ended = tokio::select! {
            ended = failure_of(&mut tasks) => ended,
            ended = self.lead(node_metrics, lifecycle_metrics) => ended,
        };
        tasks.shutdown().await;
        ended
    }

    /// The clouds of this version have no load balancers of their own; what L2Networks need is there
    /// for machines that a file describes.
    fn with_services(&self) -> bool {
        self.flags.controllers.service && self.opened.machines.is_some()
    }

    /// Waits for the caches and for leadership, then works until stopped or deposed. The lease is
    /// given back when the controllers have ended.
    async fn lead(
        &self,
        node_metrics: node_init::Metrics,
        lifecycle_metrics: node_lifecycle::Metrics,
    ) -> anyhow::Result<()> {
        // Nodes are looked after also where the L2Networks' CRD is missing.
        let synced = self.watched.nodes.synced();
        let Some(flags) = self.flags.leader.clone() else {
            if self.stop.run_until_cancelled(synced).await.is_some() {
                self.control(Leadership::always(), node_metrics, lifecycle_metrics)
                    .await;
            }
            return Ok(());
        };
        let mut elector = Elector::new(self.client.clone(), flags, self.identity.clone());
        let leadership = elector.leadership();
        let leading = async {
            synced.await;
            elector.acquire().await;
        };
        if self.stop.run_until_cancelled(leading).await.is_some() {
            let controllers = self.control(leadership, node_metrics, lifecycle_metrics);
            tokio::select! {
                () = controllers => {}
                loss = elector.hold() => return Err(loss).context("not the leader any more"),
            }
        }
        elector.release().await;
        Ok(())
    }

    /// Runs the controllers until stopped.
    async fn control(
        &self,
        leadership: Leadership,
        node_metrics: node_init::Metrics,
        lifecycle_metrics: node_lifecycle::Metrics,
    ) {
        let context = Context {
            client: self.client.clone(),
            leadership,
            instances: self.opened.clouds.clone(),
            nodes: self.watched.nodes.clone(),
            bearers: self.watched.bearers.clone(),
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
                node_metrics,
                queue,
                stop,
            ));
        }
        if chosen.node_lifecycle {
            let (queue, stop) = (watched.lifecycle_queue.clone(), self.stop.clone());
            let metrics = lifecycle_metrics;
            controllers.spawn(node_lifecycle::run(
                context.clone(),
                nodes,
                metrics,
                queue,
                stop,
            ));
        }
        if let Some(machines) = self.opened.machines.as_ref().filter(|_| chosen.service) {
            self.control_services(&mut controllers, &context, machines.foreign_pool());
        } else if chosen.service {
            tracing::info!(
                "this version has no load balancers of these clouds, Services are left alone"
            );
        }
        let (clouds, interval) = (self.opened.clouds.clone(), nodes.address_period);
        controllers.spawn(async move { clouds.keep_fresh(interval).await });
        self.stop.cancelled().await;
        controllers.shutdown().await;
    }

    fn control_services(
        &self,
        controllers: &mut JoinSet<()>,
        context: &Context,
        foreign: ForeignPool,
    ) {
        let watched = self.watched.clone();
        let all_services = {
            let (services, queue) = (watched.services.clone(), watched.service_queue.clone());
            move || {
                for (key, _) in services.all() {
                    queue.add(key);
                }
            }
        };
        controllers.spawn(address_pool::run(
            context.clone(),
            watched.networks,
            foreign,
            watched.allocations.clone(),
            watched.network_queue.clone(),
            all_services,
            self.stop.clone(),
        ));
        let network_queue = watched.network_queue;
        controllers.spawn(service::run(
            context.clone(),
            self.flags.concurrent_service_syncs,
            watched.services,
            watched.allocations,
            watched.service_queue,
            move || network_queue.add(address_pool::AllNetworks),
            self.stop.clone(),
        ));
    }
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
