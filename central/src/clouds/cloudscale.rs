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

use crate::cloud_api::{Client, CloudError, Limits, Metrics};
use crate::cloud_provider::load_balancers::LoadBalancers;
use crate::engine::inventory::Inventory;
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

impl AsRef<Client> for Cloudscale {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

#[cfg(test)]
mod tests;
