//! The certificate that is served: from files, as they are now, or one made in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::validity;
use crate::errors::with_causes;

/// How often the files are looked at. They are read, and not only their times: a kubelet exchanges a
/// Secret's files by a symbolic link, and whatever it leads to may be as old as what was there before.
const LOOK: Duration = Duration::from_secs(2);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("cannot read {}; check --tls-cert-file and --tls-private-key-file", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// Certificate and key do not fit.
    #[error("the certificate cannot be used; check that key and certificate belong together")]
    Unusable(#[from] rustls::Error),
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
}

/// How often the files have changed.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    reloads: Counter,
    failures: Counter,
    /// When the present one ends, in seconds since 1970; empty if it was made in memory.
    ends: Family<[(&'static str, &'static str); 0], Gauge>,
}

impl Metrics {
    /// Registers them.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "mooring_serving_certificate_reloads",
            "Certificates that were read from changed files and are served since",
            metrics.reloads.clone(),
        );
        registry.register(
            "mooring_serving_certificate_reload_failures",
            "Changes of the certificate's files that could not be used; the one before is still served",
            metrics.failures.clone(),
        );
        registry.register(
            "mooring_serving_certificate_expiry_timestamp_seconds",
            "When the certificate from files that is served expires, in seconds since 1970",
            metrics.ends.clone(),
        );
        metrics
    }
}

impl Metrics {
    fn serves_until(&self, ends: Option<i64>) {
        match ends {
            Some(ends) => {
                self.ends.get_or_create(&[]).set(ends);
            }
            None => self.ends.clear(),
        }
    }
}

/// The certificate that is served.
pub struct Certificate {
    config: ArcSwap<ServerConfig>,
    metrics: Metrics,
    /// Its files, and what was in them.
    files: Option<(Files, Contents)>,
}

/// `--tls-cert-file` and `--tls-private-key-file`.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// What is in the files; the kind of error where one cannot be read.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    certificate: Result<Vec<u8>, std::io::ErrorKind>,
    key: Result<Vec<u8>, std::io::ErrorKind>,
}

impl Certificate {
    /// From files for certificate and key, or made in memory for this name.
    ///
    /// # Errors
    /// [`TlsError`] if there is none.
    pub fn new(
        files: Option<&(PathBuf, PathBuf)>,
        name: &str,
        metrics: Metrics,
    ) -> Result<Self, TlsError> {
        let Some((certificate, key)) = files.cloned() else {
            return Ok(Self {
                config: ArcSwap::from(made(name)?),
                metrics,
                files: None,
            });
        };
        let files = Files { certificate, key };
        let contents = files.read();
        let (config, ends) = files.parse(&contents)?;
        metrics.serves_until(ends);
        Ok(Self {
            config: ArcSwap::from(config),
            metrics,
            files: Some((files, contents)),
        })
    }

    /// What to accept the next connection with.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }

    /// Follows the files for as long as it is polled. What cannot be used is told once, and the
    /// certificate before it stays.
    pub async fn follow(&self) {
        let Some((files, mut seen)) = self.files.clone() else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(LOOK).await;
            let reader = files.clone();
            let Ok(contents) = tokio::task::spawn_blocking(move || reader.read()).await else {
                continue;
            };
            if contents == seen {
                continue;
            }
            match files.parse(&contents) {
                Ok((config, ends)) => {
                    self.config.store(config);
                    self.metrics.serves_until(ends);
                    self.metrics.reloads.inc();
                    let path = files.certificate.display();
                    tracing::info!(%path, "the certificate has changed; the new one is served");
                }
                Err(error) => {
                    self.metrics.failures.inc();
                    let error = with_causes(&error);
                    tracing::warn!(error, "the certificate has changed; the old one is served");
                }
            }
            seen = contents;
        }
    }
}

impl Files {
    fn read(&self) -> Contents {
        let read = |path: &Path| std::fs::read(path).map_err(|error| error.kind());
        Contents {
            certificate: read(&self.certificate),
            key: read(&self.key),
        }
    }

    /// What to serve with, and when it ends.
    fn parse(&self, contents: &Contents) -> Result<(Arc<ServerConfig>, Option<i64>), TlsError> {
        let fault = |path: &Path, source| TlsError::File {
            path: path.to_owned(),
            source,
        };
        let chain = bytes(&contents.certificate)
            .and_then(|pem| CertificateDer::pem_slice_iter(pem).collect())
            .map_err(|source| fault(&self.certificate, source))?;
        let chain: Vec<CertificateDer<'static>> = chain;
        let ends = chain.first().and_then(|first| validity::not_after(first));
        let key = bytes(&contents.key)
            .and_then(PrivateKeyDer::from_pem_slice)
            .map_err(|source| fault(&self.key, source))?;
        Ok((config(chain, key)?, ends))
    }
}

fn bytes(read: &Result<Vec<u8>, std::io::ErrorKind>) -> Result<&[u8], pem::Error> {
    match read {
        Ok(bytes) => Ok(bytes),
        Err(kind) => Err(pem::Error::Io((*kind).into())),
    }
}

fn made(name: &str) -> Result<Arc<ServerConfig>, TlsError> {
    let made = rcgen::generate_simple_self_signed([name.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    config(vec![made.cert.der().clone()], key.into())
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_that_of_the_files_and_absent_without() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        let text = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        // Whoever was quicker has installed the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Certificate::new(None, "made", metrics.clone()).unwrap();
        let name = "mooring_serving_certificate_expiry_timestamp_seconds";
        let value = |text: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.rsplit_once(' ')?.1.to_owned())
        };
        assert_eq!(value(&text()), None);
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(["web".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2027, 3, 1);
        let certificate = parameters.self_signed(&key).unwrap();
        let files = [
            ("tls.crt", certificate.pem()),
            ("tls.key", key.serialize_pem()),
        ];
        let files = files.map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        });
        let [certificate, key] = files;
        Certificate::new(Some(&(certificate, key)), "made", metrics.clone()).unwrap();
        assert_eq!(value(&text()).as_deref(), Some("1803859200"), "{}", text());
    }
}
