//! PhoenixNAP.
//!
//! Servers have no names of their own: a host name may be changed in the portal, and several may
//! have the same. Of those only one that runs is found by it. What the cloud refuses to show with
//! 403 may be there or not.

pub mod annotations;
pub mod api;
mod config;
mod facts;
mod flags;
mod ip_blocks;
mod registration;
pub mod setting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;
use tokio::time::timeout;

use crate::cloud_api::{Client, CloudError, Entries, ErrorKind, Limits, Metrics};
use crate::cloud_provider::{Machine, MachineSource};
use api::blocks::BlockCloud as _;
use api::servers::Server;
use api::{Api, malformed, may_not_exist};
pub use config::Config;
pub use flags::Flags;
pub use registration::REGISTRATION;
use setting::Settings;

/// The provider's name, and the scheme of its IDs.
pub const NAME: &str = "phoenixnap";

/// How often it is asked if the flags do not say. It documents no limit.
pub const LIMITS: Limits = Limits {
    qps: 5.0,
    burst: 20,
};

/// The provider.
#[derive(Debug)]
pub struct PhoenixNap {
    api: Arc<Api>,
    services: Option<Settings>,
}

/// What keeps Services from getting addresses although the cloud can be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NetworkFault(String);

/// The start does not wait for longer.
const START_TIMEOUT: Duration = Duration::from_secs(10);

impl PhoenixNap {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the configuration's proxies cannot be used.
    pub fn new(config: Config, limits: Limits, metrics: Metrics) -> Result<Arc<Self>, CloudError> {
        for notice in &config.notices {
            tracing::warn!("{notice}");
        }
        let connection = config.access.connection(metrics.clone())?;
        let client = Client::new(NAME, connection, &api::ErrorShape, limits, metrics)?;
        Ok(Arc::new(Self {
            api: Arc::new(Api::new(client)),
            services: config.services,
        }))
    }

    /// Looks whether the public network is there that addresses are to be on, with one request. If
    /// the cloud cannot be asked, nothing follows, for it will be asked again.
    ///
    /// # Errors
    /// [`NetworkFault`] if the cloud's own answer says that it cannot be used.
    pub async fn check(&self) -> Result<(), NetworkFault> {
        let Some(services) = &self.services else {
            return Ok(());
        };
        let setting = &services.setting;
        let Some(id) = setting.network() else {
            return Ok(());
        };
        let slow = CloudError::new(NAME, ErrorKind::Timeout, "the cloud is slow");
        let looked = timeout(START_TIMEOUT, self.api.network(id)).await;
        let network = match looked.unwrap_or(Err(slow)) {
            Ok(network) => network,
            Err(answer) if may_not_exist(&answer) && answer.words.is_some() => {
                return Err(NetworkFault(format!(
                    "PNAP_LOAD_BALANCER={setting}: there is no such public network, or the client may not \
                     see it ({answer}); copy the identifier of the network from the portal, and give the \
                     client the scope bmc.read"
                )));
            }
            Err(error) => {
                tracing::warn!(%error, "the public network cannot be looked at yet");
                return Ok(());
            }
        };
        let (location, vlan) = (&network.location, network.vlan);
        tracing::info!(id, location, vlan, "the public network is there");
        let fault = services.misplaced(&network).map(NetworkFault);
        fault.map_or(Ok(()), Err)
    }
}

/// The machines that are there, and what is wrong with servers that cannot be read.
fn readable(servers: Entries<Server>) -> (Vec<Machine>, Vec<String>) {
    let (machines, unread) = facts::machines(&servers.read);
    (machines, [servers.unread, unread].concat())
}

/// What follows for all machines, or for one that is looked for among them, unless some cannot be read.
fn complete<T>(what: T, unread: &[String]) -> Result<T, CloudError> {
    match unread {
        [] => Ok(what),
        unread => Err(malformed(unread.join("; "))),
    }
}

#[async_trait]
impl MachineSource for PhoenixNap {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn claims(&self, provider_id: &str) -> bool {
        facts::is_ours(provider_id)
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        facts::parse_id(provider_id)
    }

    fn credentials(&self) -> u64 {
        self.api.credentials()
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let (machines, unread) = readable(self.api.servers().await?);
        complete(machines, &unread)
    }

    async fn readable(&self) -> Result<(Vec<Machine>, Vec<String>), CloudError> {
        Ok(readable(self.api.servers().await?))
    }

    /// A server that may not be seen looks like one that does not exist. So only a second complete
    /// listing without it proves that it is gone, and one without any server proves nothing.
    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        let find = |servers| {
            let (machines, unread) = readable(servers);
            match machines.into_iter().find(|machine| machine.id == *id) {
                None => complete(None, &unread),
                found => Ok(found),
            }
        };
        match self.api.server(id.instance()).await {
            Ok(server) => {
                let (read, unread) = (vec![server], Vec::new());
                return find(Entries { read, unread });
            }
            Err(error) if may_not_exist(&error) => {}
            Err(error) => return Err(error),
        }
        let servers = self.api.servers().await?;
        if servers.read.is_empty() && servers.unread.is_empty() {
            let problem = "no server at all is listed, which proves nothing: does the credential \
                           belong to the account of this cluster?";
            return Err(malformed(problem));
        }
        find(servers)
    }
}

#[cfg(test)]
mod tests;
