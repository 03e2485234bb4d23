//! How a cloud is reached: address, credentials, proxies and authorities.

use std::sync::Arc;
use std::time::Duration;

use mooring_common::clear_text::is_exposed;
use mooring_common::errors::with_causes;
use reqwest::{Certificate, Url};

use crate::cloud_api::credentials::{Credentials, TokenVariables, Tokens};
use crate::cloud_api::{CloudError, Environment, ErrorKind, Proxies};

const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// How a cloud is reached.
#[derive(Debug)]
pub struct Connection {
    /// What every path is joined to; ends with a slash.
    pub base: Url,
    /// The token.
    pub credentials: Arc<dyn Tokens>,
    /// For a whole request, its answer included.
    pub timeout: Duration,
    /// The variable that sets the timeout, for messages.
    pub timeout_variable: &'static str,
    /// The proxies in between.
    pub proxies: Proxies,
    /// The authorities that are trusted, PEM. None: those of the system.
    pub authorities: Option<Vec<u8>>,
}

/// The variables that tell how a cloud is reached.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionVariables {
    /// Those of the token.
    pub token: TokenVariables,
    /// For how long a request is waited for, and how long if there is no such variable.
    pub timeout: (&'static str, Duration),
    /// The path of a file with the authorities that are trusted, if there can be one.
    pub authorities: Option<&'static str>,
}

impl Connection {
    /// Reads how a cloud is reached whose address `base` reads. None: something is missing, which is a fault.
    pub fn read(
        env: &mut Environment<'_>,
        variables: ConnectionVariables,
        base: fn(&mut Environment<'_>) -> Option<Url>,
    ) -> Option<Self> {
        let (timeout_variable, default) = variables.timeout;
        let credentials = Credentials::read(env, variables.token);
        let base = base(env);
        let authorities = variables.authorities;
        let authorities = authorities.and_then(|variable| env.authorities(variable));
        let timeout = env.timeout(timeout_variable, default);
        let proxies = Proxies::read(env);
        Some(Self {
            base: base?,
            credentials: Arc::new(credentials?),
            timeout,
            timeout_variable,
            proxies,
            authorities,
        })
    }

    pub(super) fn transport(&self) -> Transport<'_> {
        Transport {
            timeout: self.timeout,
            proxies: &self.proxies,
            authorities: self.authorities.as_deref(),
        }
    }
}

/// How something is reached by HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Transport<'a> {
    /// For a whole request, its answer included.
    pub timeout: Duration,
    /// The proxies in between.
    pub proxies: &'a Proxies,
    /// The authorities that are trusted, PEM. None: those of the system.
    pub authorities: Option<&'a [u8]>,
}

/// What speaks HTTP with this address. Connects to nobody yet.
///
/// Warns if credentials would be sent in clear text.
///
/// # Errors
/// [`CloudError`] if the proxies and authorities cannot be used.
pub fn http(
    provider: &'static str,
    address: &Url,
    transport: &Transport<'_>,
) -> Result<reqwest::Client, CloudError> {
    if is_exposed(address.scheme(), address.host_str().unwrap_or_default()) {
        // Without what else may be in a URL, such as a password.
        let url = address.origin().ascii_serialization();
        tracing::warn!(
            provider,
            url,
            "the cloud's API is reached by http: whoever is in between reads the credentials and can \
             answer in its place; write https in the provider's address"
        );
    }
    build(address, transport).map_err(|error| {
        CloudError::new(
            provider,
            ErrorKind::Invalid,
            format!(
                "no connection can be prepared: {}; correct the proxies and authorities in the \
                 environment",
                with_causes(&error)
            ),
        )
    })
}

fn build(address: &Url, transport: &Transport<'_>) -> reqwest::Result<reqwest::Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Whoever was quicker has installed the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let builder = reqwest::Client::builder()
        .user_agent(concat!("mooring-central/", env!("CARGO_PKG_VERSION")))
        .timeout(transport.timeout)
        .connect_timeout(transport.timeout.min(LONGEST_CONNECT))
        // Followed, a redirect would show the token to whoever it points to.
        .redirect(reqwest::redirect::Policy::none())
        .referer(false);
    let builder = match transport.authorities {
        Some(pem) => builder.tls_certs_only(Certificate::from_pem_bundle(pem)?),
        // Without TLS no authority is needed, not even there to be found.
        None if address.scheme() == "http" => builder.tls_certs_only([]),
        None => builder,
    };
    transport.proxies.apply(builder, address)?.build()
}
