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

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;

use crate::cloud_api::{Client, CloudError, ErrorKind, Limits, Metrics, Request};
use crate::cloud_provider::{Machine, MachineSource};
use api::SERVERS;
use api::servers::Server;
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
    /// The account that every request names, as a user's token needs it.
    account: Option<String>,
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
        Ok(Arc::new(Self {
            client: Client::new(NAME, connection, &api::ErrorShape, limits, metrics)?,
            account: config.account,
        }))
    }

    /// What anybody may ask whose token is valid.
    fn accounts(&self) -> Request {
        self.of_account(Request::get("list_accounts", "accounts"))
    }

    /// A request that names the account, if it has to.
    fn of_account(&self, request: Request) -> Request {
        match &self.account {
            Some(account) => request.query("account_id", account),
            None => request,
        }
    }
}

impl AsRef<Client> for Brightbox {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

/// The error of what makes no sense.
fn malformed(problem: impl Into<String>) -> CloudError {
    CloudError::new(NAME, ErrorKind::Malformed, problem)
}

#[async_trait]
impl MachineSource for Brightbox {
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
        let request = self.of_account(SERVERS.list(&[]));
        let servers: Vec<Server> = self.client.fetch(&request).await?;
        facts::machines(&servers).map_err(malformed)
    }

    /// A server that was deleted is shown for a while, and is none any more.
    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        let request = self.of_account(SERVERS.get(&[], id.instance()));
        let found = self.client.find::<Server>(&request).await?;
        if found.iter().any(|server| server.id != id.instance()) {
            return Err(self.client.malformed(&request, "another server was given"));
        }
        let machines = facts::machines(found.as_slice());
        machines.map(|mut all| all.pop()).map_err(malformed)
    }
}

#[cfg(test)]
mod tests;
