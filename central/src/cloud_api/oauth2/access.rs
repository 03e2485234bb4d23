//! How a cloud is reached that takes tokens of an authorization server.

use std::time::Duration;

use reqwest::Url;

use super::super::{CloudError, Connection, Metrics, Proxies, Transport};
use super::{Settings, TokenSource};

/// How a cloud is reached, and how it gives tokens.
#[derive(Clone, Debug)]
pub struct Access {
    /// What every path is joined to; ends with a slash.
    pub base: Url,
    /// Where tokens come from, and for whom.
    pub tokens: Settings,
    /// For a whole request, its answer included.
    pub timeout: Duration,
    /// The variable that sets the timeout, for messages.
    pub timeout_variable: &'static str,
    /// The proxies in between.
    pub proxies: Proxies,
}

impl Access {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the proxies cannot be used.
    pub fn connection(self, metrics: Metrics) -> Result<Connection, CloudError> {
        let transport = Transport {
            timeout: self.timeout,
            proxies: &self.proxies,
            authorities: None,
        };
        Ok(Connection {
            credentials: TokenSource::new(self.tokens, &transport, metrics)?,
            base: self.base,
            timeout: self.timeout,
            timeout_variable: self.timeout_variable,
            proxies: self.proxies,
            authorities: None,
        })
    }
}
