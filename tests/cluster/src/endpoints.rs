//! What `mooring-central` serves by HTTPS, asked as a kubelet or Prometheus would.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use http::{Request, header};
use http_body_util::BodyExt as _;

use crate::control_plane::free_port;

/// The endpoints on one port of this machine. The certificate is not checked, since central makes
/// its own.
#[derive(Clone)]
pub struct Endpoints {
    client: kube::Client,
    port: u16,
}

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoints(127.0.0.1:{})", self.port)
    }
}

impl Endpoints {
    /// Those on this port, asked by connections of their own.
    ///
    /// # Errors
    /// If the client cannot be made.
    pub fn new(port: u16) -> Result<Self> {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
        config.accept_invalid_certs = true;
        // A 503 is an answer.
        config.default_retry = false;
        Ok(Self {
            client: kube::Client::try_from(config)?,
            port,
        })
    }

    /// A port that nobody listens on yet, for a program to serve on.
    ///
    /// # Errors
    /// If there is none.
    pub fn on_free_port() -> Result<Self> {
        Self::new(free_port(Ipv4Addr::LOCALHOST.into())?)
    }

    /// On which port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The status code and the body, asked with a bearer token or without credentials.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Result<(u16, String)> {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = self
            .client
            .send(request.body(kube::client::Body::empty())?)
            .await
            .with_context(|| format!("GET {path}"))?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// The status code alone, asked without credentials; `None` if nobody answers.
    pub async fn status(&self, path: &str) -> Option<u16> {
        self.get(path, None).await.ok().map(|(status, _)| status)
    }
}
