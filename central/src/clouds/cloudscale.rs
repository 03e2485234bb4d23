//! cloudscale.ch.
//!
//! Servers may be renamed at will and several may have one name; all of them are listed.

pub mod annotations;
mod api;
mod config;
mod facts;
mod load_balancers;
mod registration;

use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;

use crate::cloud_api::{Client, CloudError, ErrorKind, Limits, Metrics};
use crate::cloud_provider::load_balancers::LoadBalancers;
use crate::cloud_provider::{Machine, MachineSource, twice};
use crate::engine::inventory::Inventory;
use api::servers::{SERVERS, Server};
pub use config::Config;
pub use registration::REGISTRATION;

/// The provider's name, and the scheme of its IDs.
pub const NAME: &str = "cloudscale";

/// How often it is asked if the flags do not say. It documents no limit, and a change of many load
/// balancers is many requests.
pub const LIMITS: Limits = Limits {
    qps: 20.0,
    burst: 40,
};

/// The provider.
#[derive(Debug)]
pub struct Cloudscale {
    client: Client,
}

impl Cloudscale {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the configuration's proxies cannot be used.
    pub fn new(config: Config, limits: Limits, metrics: Metrics) -> Result<Arc<Self>, CloudError> {
        for notice in &config.notices {
            tracing::warn!("{notice}");
        }
        let client = Client::new(NAME, config.connection, &api::ErrorShape, limits, metrics)?;
        Ok(Arc::new(Self { client }))
    }

    /// The project's load balancers; `inventory`: its machines.
    #[must_use]
    pub fn load_balancers(self: &Arc<Self>, inventory: Arc<Inventory>) -> Arc<dyn LoadBalancers> {
        load_balancers::of_project(self.clone(), inventory)
    }
}

fn describe(server: &Server) -> Result<Machine, CloudError> {
    facts::machine(server).map_err(|problem| CloudError::new(NAME, ErrorKind::Malformed, problem))
}

#[async_trait]
impl MachineSource for Cloudscale {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        facts::parse_id(provider_id)
    }

    fn credentials(&self) -> u64 {
        self.client.credentials()
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let request = SERVERS.list(&[]);
        let servers: Vec<Server> = self.client.fetch(&request).await?;
        let machines: Vec<Machine> = servers.iter().map(describe).collect::<Result<_, _>>()?;
        let mut ids: Vec<&ProviderId> = machines.iter().map(|machine| &machine.id).collect();
        match twice(&mut ids) {
            Some(id) => {
                let problem = format!("two servers have the UUID {}", id.instance());
                Err(self.client.malformed(&request, &problem))
            }
            None => Ok(machines),
        }
    }

    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        let request = SERVERS.get(&[], id.instance());
        match self.client.fetch(&request).await {
            Ok(server) => match describe(&server)? {
                machine if machine.id == *id => Ok(Some(machine)),
                _ => Err(self.client.malformed(&request, "another server was given")),
            },
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
