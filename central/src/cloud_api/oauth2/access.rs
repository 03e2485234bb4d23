//! How a cloud is reached that takes tokens of an authorization server.

use std::time::Duration;

use reqwest::Url;

use super::super::{CloudError, Connection, Environment, Metrics, Proxies, Transport};
use super::{ClientSource, Grant, Remedies, Settings, TokenSource};

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

/// What a cloud says of that itself.
#[derive(Clone, Copy, Debug)]
pub struct AccessVariables {
    /// The cloud, for errors and metrics.
    pub provider: &'static str,
    /// [`Settings::scope`].
    pub scope: Option<&'static str>,
    /// What to do about refusals.
    pub remedies: Remedies,
    /// For how long a request is waited for, and how long if there is no such variable.
    pub timeout: (&'static str, Duration),
}

impl Access {
    /// Reads the rest of how a cloud is reached. `client`: who asks, by what; `urls`: where the API is, and where
    /// tokens come from. None: one of them is missing, which is a fault.
    pub fn read(
        env: &mut Environment<'_>,
        variables: AccessVariables,
        client: Option<(ClientSource, Grant)>,
        urls: Option<(Url, Url)>,
    ) -> Option<Self> {
        let (timeout_variable, default) = variables.timeout;
        let timeout = env.timeout(timeout_variable, default);
        let proxies = Proxies::read(env);
        let ((client, grant), (base, token_url)) = client.zip(urls)?;
        let tokens = Settings {
            provider: variables.provider,
            token_url,
            client,
            grant,
            scope: variables.scope,
            remedies: variables.remedies,
        };
        Some(Self {
            base,
            tokens,
            timeout,
            timeout_variable,
            proxies,
        })
    }

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
