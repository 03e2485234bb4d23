//! TLS Secrets that load balancers present to clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A certificate with its key. Nothing shows them.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsSecret {
    certificate: String,
    key: String,
}

impl TlsSecret {
    /// The certificates, in PEM form.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The key, in PEM form.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsSecret(***)")
    }
}

/// What was read of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretState {
    /// It.
    Usable(Arc<TlsSecret>),
    /// There is no such Secret.
    #[default]
    Missing,
}

/// The Secrets of a Service, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, SecretState>);

impl Secrets {
    /// What was read of this one.
    #[must_use]
    pub fn get(&self, name: &str) -> SecretState {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

impl SecretState {
    /// It, if it can be presented.
    ///
    /// # Errors
    /// What is wrong with it, and what to do about that.
    pub fn usable(self) -> Result<Arc<TlsSecret>, String> {
        match self {
            Self::Usable(secret) => Ok(secret),
            Self::Missing => Err("is no Secret of this namespace".to_owned()),
        }
    }
}

#[cfg(test)]
impl TlsSecret {
    pub(crate) fn of(certificate: &str, key: &str) -> Self {
        Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        }
    }
}

#[cfg(test)]
impl FromIterator<(String, SecretState)> for Secrets {
    fn from_iter<I: IntoIterator<Item = (String, SecretState)>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}
