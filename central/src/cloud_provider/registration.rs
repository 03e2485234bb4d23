//! What a cloud registers: `crate::clouds::CLOUDS` lists all that do.
//!
//! ```text
//!   flags ──► read ──► Configure ──► configure: environment, file ──► OpenCloud ──► Cloud
//! ```
//!
//! The flags of all clouds are read whichever is chosen, and the environment of all that are chosen
//! before any is opened, so that everything wrong with them is told at once.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mooring_common::flags::{Flag, Reader};
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::annotations::Annotation;
use super::load_balancers::LoadBalancers;
use super::pod_network::PodNetwork;
use super::{ForeignPool, Instances};
use crate::cloud_api::{Client, Fault, FirstAnswer, LimitFlags, Limits, Metrics, TokenCheck};

/// What a cloud registers.
pub struct Registration {
    /// Its name for `--cloud-provider`: `linode`.
    pub name: &'static str,
    /// The file name of its Go controller: whoever starts this program by it means this cloud.
    pub program: Option<&'static str>,
    /// The variables whose presence means this cloud, if no flag and no name does.
    pub credentials: &'static [&'static str],
    /// How often it is asked if the flags do not say. `None`: it is not asked.
    pub limits: Option<Limits>,
    /// What `--cloud-config` is to it.
    pub config_file: ConfigFile,
    /// Its annotations.
    pub annotations: &'static [&'static Annotation],
    /// Its own flags, by which [`Registration::read`] goes.
    pub flags: &'static [Flag],
    /// Reads them; faults stay with the reader.
    pub read: fn(&mut Reader<'_>) -> Arc<dyn Configure>,
}

/// What `--cloud-config` is to a cloud. The text says what it is, for the flag's help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFile {
    /// Nothing: it reads its environment alone.
    None,
    /// Its configuration, unless the file is another's own.
    Shared(&'static str),
    /// Its own, whatever else is configured by a file.
    Own(&'static str),
}

/// A cloud whose flags have been read.
pub trait Configure: fmt::Debug + Send + Sync {
    /// Reads its variables, and the files that they name. Connects to nobody.
    ///
    /// # Errors
    /// Every [`Fault`] there is.
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>>;
}

/// Reads the configuration of a cloud out of the environment, which is asked by the names of variables.
pub type ReadEnvironment<C> = fn(&dyn Fn(&str) -> Option<String>) -> Result<C, Vec<Fault>>;

/// A cloud that is configured by its environment and these flags alone, and opened at once.
#[derive(Debug)]
pub struct FromEnvironment<F, C> {
    /// Its own flags.
    pub flags: F,
    /// Reads its variables.
    pub read: ReadEnvironment<C>,
    /// Opens it.
    pub open: fn(C, F, OpenContext<'_>) -> anyhow::Result<Cloud>,
}

impl<F, C> Configure for FromEnvironment<F, C>
where
    F: Clone + fmt::Debug + Send + Sync + 'static,
    C: fmt::Debug + Send + 'static,
{
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let (config, flags, open) = ((self.read)(source.env)?, self.flags.clone(), self.open);
        Ok(Box::new(move |context| {
            async move { open(config, flags, context) }.boxed()
        }))
    }
}

/// Where a cloud's configuration is.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// Reads a variable of the environment.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// `--cloud-config`, if it is this cloud's.
    pub file: Option<&'a Path>,
}

/// Opens a cloud; fails with whatever keeps it from being used, and what to do about that.
pub type OpenCloud =
    Box<dyn for<'a> FnOnce(OpenContext<'a>) -> BoxFuture<'a, anyhow::Result<Cloud>> + Send>;

/// What a cloud is opened with.
pub struct OpenContext<'a> {
    /// How often it is asked, as far as the flags say.
    pub limits: LimitFlags,
    /// Where requests to it are counted.
    pub requests: Metrics,
    /// Where it registers what it counts besides.
    pub registry: &'a mut Registry,
}

/// A cloud that was opened.
pub struct Cloud {
    /// Its machines.
    pub instances: Arc<dyn Instances>,
    /// Makes its load balancers, if it has any.
    pub load_balancers: Option<MakeLoadBalancers>,
    /// If node daemons announce addresses on L2Networks: the pool that something else announces.
    pub networks: Option<Networks>,
    /// What it has for the Pods of Nodes.
    pub pod_network: PodNetwork,
    /// What runs beside the controllers, on each replica.
    pub background: Option<Background>,
    /// What may keep this replica from being ready.
    pub obstacle: Option<Obstacle>,
}

impl Cloud {
    /// One that has nothing but these machines.
    #[must_use]
    pub fn of(instances: Arc<dyn Instances>) -> Self {
        Self {
            instances,
            load_balancers: None,
            networks: None,
            pod_network: PodNetwork::default(),
            background: None,
            obstacle: None,
        }
    }

    /// The replica is not ready before the cloud has answered.
    pub fn awaits<C>(&mut self, first: FirstAnswer<C>)
    where
        C: AsRef<Client> + Send + Sync + 'static,
    {
        let first = Arc::new(first);
        let awaited = first.clone();
        self.obstacle = Some(Box::new(move || first.obstacle()));
        self.background = Some(Box::new(|_| {
            async move {
                awaited.wait().await;
                std::future::pending().await
            }
            .boxed()
        }));
    }

    /// The replica is not ready while the token is refused, and ends if it is for good. `invalid` says so.
    pub fn watch<C>(&mut self, check: &Arc<TokenCheck<C>>, invalid: &'static str)
    where
        C: AsRef<Client> + Send + Sync + 'static,
    {
        let (watched, asked) = (check.clone(), check.clone());
        self.background = Some(Box::new(move |_| {
            let refused = async move { watched.watch().await };
            refused
                .map(move |refusal| anyhow::Error::new(refusal).context(invalid))
                .boxed()
        }));
        self.obstacle = Some(Box::new(move || asked.obstacle()));
    }
}

/// What keeps this replica from being ready now, for a person. `None`: nothing does.
pub type Obstacle = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// The pool that something else announces, as it is now.
pub type Networks = Arc<dyn Fn() -> ForeignPool + Send + Sync>;

/// Makes a cloud's load balancers, which may be partly in the cluster. The text is this process' name.
pub type MakeLoadBalancers =
    Box<dyn FnOnce(&kube::Client, &str) -> Arc<dyn LoadBalancers> + Send + Sync>;

/// Runs until the token is cancelled; gives only what the process is to end with.
pub type Background =
    Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, anyhow::Error> + Send + Sync>;

impl PartialEq for Registration {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Registration {}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
