//! Clouds that speak TLS, for controllers whose endpoints are `https` and cannot be told otherwise.

use std::sync::Arc;

use anyhow::{Error, Result};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// A certificate that vouches for itself, and its key.
#[derive(Clone)]
pub struct Tls {
    pub(super) acceptor: TlsAcceptor,
    certificate: String,
}

impl Tls {
    /// A new one for these names and addresses.
    ///
    /// # Errors
    /// If one of them is none.
    pub fn of(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(Error::msg)?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)?;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate: cert.pem(),
        })
    }

    /// The certificate as PEM: what `SSL_CERT_FILE` of a client names.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }
}
