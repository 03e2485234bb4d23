//! How requests reach the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client as HttpClient, Error as HttpError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use rustls_pki_types::ServerName;
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use super::first_alone::FirstAlone;
use crate::errors::with_causes;

/// How long a connection may be silent before it is asked for a sign of life (RFC 9113, section 6.7).
const PING_AFTER: Duration = Duration::from_secs(5);
/// How long that may take. Then the connection is closed, and what waits for it fails.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How many bytes of one answer may be on their way before they are read (RFC 9113, section 6.9.1).
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same of all answers together: watches that nobody reads for a while leave room for others.
const CONNECTION_WINDOW: u32 = 16 * STREAM_WINDOW;

/// How requests share connections to the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// All requests and watches share one connection (HTTP/2). A dead one is noticed within 10 seconds. An
    /// API server or a proxy before it that does not speak HTTP/2 gets a connection for each request that
    /// is in progress.
    #[default]
    Shared,
    /// Each request in progress has a connection (HTTP/1.1), which ends with it if it is given up: the next
    /// request need not wait until a dead connection is noticed.
    PerRequest,
}

/// Makes the client. Nothing is asked of the API server yet.
pub(super) fn connect(config: Config, connections: Connections) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // What proxies there can be, and what to say of others, is kube's.
        return Client::try_from(config);
    }
    let namespace = config.default_namespace.clone();
    let retry = config
        .default_retry
        .then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let reachable = Arc::new(Reachable::default());
    let server = config.cluster_url.clone();
    let http = http_client(&config, connections)?;
    let first_alone = (connections == Connections::Shared).then(|| Arc::new(FirstAlone::default()));
    let service = ServiceBuilder::new()
        .map_result(move |answer| reachable.tell(&server, answer))
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service_fn(move |request| send(http.clone(), first_alone.clone(), request));
    Ok(ClientBuilder::new(service, namespace).build())
}

async fn send(
    http: HttpClient<Connector, Body>,
    first_alone: Option<Arc<FirstAlone>>,
    request: Request<Body>,
) -> Result<Response<Incoming>, HttpError> {
    let answer = http.request(request);
    match first_alone {
        Some(first_alone) => first_alone.send(answer).await,
        None => answer.await,
    }
}

/// Logs once that the API server cannot be reached, however many requests and watches find that, and once
/// that it can again.
#[derive(Debug, Default)]
struct Reachable {
    missed: AtomicBool,
}

impl Reachable {
    fn tell<T>(&self, server: &Uri, answer: Result<T, BoxError>) -> Result<T, BoxError> {
        let missed = answer.is_err();
        let changed = self.missed.swap(missed, Ordering::Relaxed) != missed;
        match &answer {
            Ok(_) if changed => tracing::info!(%server, "the API server can be reached again"),
            Err(error) if changed => tracing::warn!(
                %server,
                error = with_causes(&**error),
                "the API server cannot be reached, will try again"
            ),
            _ => {}
        }
        answer
    }
}

type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

fn http_client(
    config: &Config,
    connections: Connections,
) -> Result<HttpClient<Connector, Body>, kube::Error> {
    let mut connector = TimeoutConnector::new(https(config, connections)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    Ok(Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector))
}

fn https(
    config: &Config,
    connections: Connections,
) -> Result<HttpsConnector<HttpConnector>, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = ServerName::try_from(name.clone())
            .map_err(|error| kube::Error::Service(Box::new(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let builder = builder.enable_http1();
    Ok(match connections {
        Connections::Shared => builder.enable_http2().wrap_connector(tcp),
        Connections::PerRequest => builder.wrap_connector(tcp),
    })
}
