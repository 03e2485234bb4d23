//! TLS: a certificate from files, or one made in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Connections served at once; more wait. Probes and one scraper need a handful.
const CONNECTIONS: usize = 64;
/// How long a client may take for its handshake, and for the head of each request.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a client may hold a connection.
const CONNECTION: Duration = Duration::from_secs(60);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read as PEM.
    #[error("cannot read {}; check --tls-cert-file and --tls-private-key-file", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// Certificate and key do not fit.
    #[error("the certificate cannot be used; check that key and certificate belong together")]
    Unusable(#[from] rustls::Error),
    /// A certificate cannot be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
}

pub(super) fn acceptor(files: Option<&(PathBuf, PathBuf)>) -> Result<TlsAcceptor, TlsError> {
    let (chain, key) = match files {
        Some((certificate, key)) => from_files(certificate, key)?,
        None => made()?,
    };
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn from_files(certificate: &Path, key: &Path) -> Result<ChainAndKey, TlsError> {
    let error = |path: &Path| {
        let path = path.to_owned();
        |source| TlsError::File { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(error(certificate))?;
    Ok((
        chain,
        PrivateKeyDer::from_pem_file(key).map_err(error(key))?,
    ))
}

fn made() -> Result<ChainAndKey, TlsError> {
    let made = rcgen::generate_simple_self_signed(["mooring-central".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

pub(super) async fn serve(listener: TcpListener, acceptor: TlsAcceptor, router: Router) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await
            else {
                return;
            };
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HANDSHAKE)
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
            let _ = tokio::time::timeout(CONNECTION, connection).await;
        });
    }
}
