//! Machines described in a file: the provider `cloudlycke`.
//!
//! Without `--cloud-config` it knows the two machines of the original's teaching lab.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt as _;
use mooring_common::machines::load::{LoadError, MachinesFile, ReloadStatus};
use mooring_common::machines::schema::LoadBalancer;
use mooring_common::machines::{Machines, Resolution, presence_of, resolve};
use mooring_common::node_facts::Presence;
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cloud_api::Fault;
use crate::cloud_provider::pod_network::PodNetwork;
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, Configure, OpenCloud, OpenContext, Registration, Source,
};
use crate::cloud_provider::{ForeignPool, Instances, Lookup};

/// The provider's name.
const NAME: &str = "cloudlycke";

/// How often the file is looked at for a change.
const POLL: Duration = Duration::from_secs(1);

/// What is counted of the file.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    generation: Gauge,
    refused: Gauge,
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_machines_file_generation",
            "How many times the machines file was taken over since the start",
            metrics.generation.clone(),
        );
        registry.register(
            "mooring_machines_file_refused",
            "1 while the machines file is refused and older data is in use",
            metrics.refused.clone(),
        );
        metrics
    }

    fn record(&self, status: &ReloadStatus) {
        self.generation
            .set(i64::try_from(status.generation).unwrap_or(i64::MAX));
        self.refused.set(i64::from(status.failure.is_some()));
    }
}

/// What it registers.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: None,
    credentials: &[],
    limits: None,
    config_file: ConfigFile::Own("the machines file, absent: the machines that are built in"),
    annotations: &[],
    flags: &[],
    read: |_| Arc::new(AtHand),
};

/// Nothing is to be configured but the file.
#[derive(Debug)]
struct AtHand;

impl Configure for AtHand {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let path = source.file.map(Path::to_owned);
        Ok(Box::new(|context| open(path, context).boxed()))
    }
}

async fn open(path: Option<PathBuf>, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let machines = Arc::new(Cloudlycke::open(path).await?);
    let metrics = Metrics::register(context.registry);
    let (pool, watched) = (machines.clone(), machines.clone());
    Ok(Cloud {
        instances: machines,
        load_balancers: None,
        networks: Some(Arc::new(move || pool.foreign_pool())),
        pod_network: PodNetwork::default(),
        background: Some(Box::new(|stop| {
            let watch = async move { watched.watch(metrics, stop).await };
            watch.then(|()| std::future::pending()).boxed()
        })),
        obstacle: None,
    })
}

/// The provider.
pub struct Cloudlycke {
    file: Arc<MachinesFile>,
    changes: watch::Sender<u64>,
}

impl Cloudlycke {
    /// Reads the file.
    ///
    /// # Errors
    /// [`LoadError`] with every fault in it.
    pub async fn open(path: Option<PathBuf>) -> Result<Self, LoadError> {
        let file = MachinesFile::open(path).await?;
        Ok(Self {
            file,
            changes: watch::Sender::new(0),
        })
    }

    /// Keeps the file fresh, and its metrics, until cancelled.
    pub async fn watch(&self, metrics: Metrics, cancel: CancellationToken) {
        let mut reloads = self.file.changes();
        metrics.record(&self.file.status());
        let told = async {
            while reloads.changed().await.is_ok() {
                metrics.record(&self.file.status());
                self.changes.send_modify(|generation| *generation += 1);
            }
        };
        tokio::select! {
            () = self.file.watch(POLL, cancel) => {}
            () = told => {}
        }
    }

    /// A machine that is not listed is gone only if no entry could be it after all: one that does
    /// not name its ID might be.
    fn unlisted(&self, machines: &Machines, node: &NodeView) -> Presence {
        let id = node.provider_id.as_deref().and_then(|id| self.read_id(id));
        match id {
            Some(Ok(id)) => presence_of(machines, &id),
            _ => Presence::Unsure,
        }
    }

    /// The pool that the file declares.
    #[must_use]
    pub fn foreign_pool(&self) -> ForeignPool {
        match self.file.current().load_balancer() {
            LoadBalancer::None => ForeignPool::default(),
            LoadBalancer::Pool(ranges) => ForeignPool {
                ranges: ranges.clone(),
            },
        }
    }
}

#[async_trait]
impl Instances for Cloudlycke {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn read_id(&self, provider_id: &str) -> Option<Result<ProviderId, String>> {
        let machines = self.file.current();
        let scheme = machines.scheme();
        let instance = provider_id.strip_prefix(&format!("{scheme}://"))?;
        Some(ProviderId::new(scheme, instance).map_err(|error| error.to_string()))
    }

    /// The file is at hand, so that its age is always nought.
    async fn look_up(&self, node: &NodeView, _: Option<Instant>) -> Lookup {
        lookup(resolve(&self.file.current(), &node.machine))
    }

    /// A file that cannot be read (any more), or that is refused, proves nothing.
    async fn confirm(&self, node: &NodeView) -> Presence {
        match self.file.reload_now().await {
            Ok(machines) => match resolve(&machines, &node.machine) {
                Resolution::Missing => self.unlisted(&machines, node),
                resolution => resolution.presence(),
            },
            Err(error) => {
                tracing::warn!(%error, "the machines file cannot be read afresh");
                Presence::Unsure
            }
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// [`Cloudlycke::watch`] does, also on a replica that does not lead.
    async fn keep_fresh(&self, _: Duration) {
        std::future::pending::<()>().await;
    }
}

fn lookup(resolution: Resolution) -> Lookup {
    let why = resolution.explanation().unwrap_or_default();
    match resolution {
        Resolution::Found {
            facts, presence, ..
        } => Lookup::Known { facts, presence },
        Resolution::Derived { facts } => Lookup::Known {
            facts,
            presence: Presence::Unsure,
        },
        Resolution::Missing => Lookup::Missing,
        Resolution::Ambiguous { .. } => Lookup::Ambiguous(why),
        Resolution::Foreign { .. } | Resolution::Conflict { .. } => Lookup::Foreign(why),
        Resolution::Undecided { .. } => Lookup::Unsure(why),
        Resolution::Unknown => Lookup::Unlisted(why),
    }
}
