//! Brightbox.
//!
//! Servers are told apart by identifiers like `srv-gdqms`, which are their default host names too. Nodes are
//! found by either.

pub mod annotations;
mod api;
mod config;
mod facts;
mod load_balancers;
mod registration;

use std::sync::Arc;

use crate::cloud_api::{Client, CloudError, Limits, Metrics};
pub use config::Config;
pub use registration::REGISTRATION;

/// The provider's name, and the scheme of its IDs.
pub const NAME: &str = "brightbox";

/// How often it is asked if the flags do not say. It documents no limit.
pub const LIMITS: Limits = Limits {
    qps: 10.0,
    burst: 20,
};

/// The provider.
#[derive(Debug)]
pub struct Brightbox {
    client: Client,
}

impl Brightbox {
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
        let client = client.naming("account_id", config.account);
        Ok(Arc::new(Self { client }))
    }
}

impl AsRef<Client> for Brightbox {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

#[cfg(test)]
mod tests;
