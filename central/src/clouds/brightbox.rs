//! Brightbox.
//!
//! Servers are told apart by identifiers like `srv-gdqms`, which are their default host names too. Nodes are
//! found by either.

pub mod annotations;
mod api;
mod config;
mod facts;
mod flags;
mod load_balancers;
mod registration;

use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;

use crate::cloud_api::oauth2::TokenSource;
use crate::cloud_api::{
    Client, CloudError, Connection, ErrorKind, Limits, Metrics, Request, Transport,
};
use crate::cloud_provider::{Machine, MachineSource};
use api::servers::{self, Server};
pub use config::Config;
pub use flags::Flags;
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
        let transport = Transport {
            timeout: config.timeout,
            proxies: &config.proxies,
            authorities: None,
        };
        let connection = Connection {
            base: config.base,
            credentials: TokenSource::new(config.tokens, &transport, metrics.clone())?,
            timeout: config.timeout,
            timeout_variable: config::TIMEOUT,
            proxies: config.proxies.clone(),
            authorities: None,
        };
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

fn describe(servers: &[Server]) -> Result<Vec<Machine>, CloudError> {
    facts::machines(servers).map_err(|what| CloudError::new(NAME, ErrorKind::Malformed, what))
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
        let request = self.of_account(servers::all());
        let servers: Vec<Server> = self.client.fetch(&request).await?;
        describe(&servers)
    }

    /// A server that was deleted is shown for a while, and is none any more.
    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        let request = self.of_account(servers::one(id.instance()));
        match self.client.fetch::<Server>(&request).await {
            Ok(server) if server.id == id.instance() => Ok(describe(&[server])?.pop()),
            Ok(_) => Err(self.client.malformed(&request, "another server was given")),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
