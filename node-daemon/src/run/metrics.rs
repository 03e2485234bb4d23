//! `/metrics`: by HTTP on this machine only unless asked otherwise, and by HTTPS for whom the API server permits.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Router, middleware};
use kube::Client;
use mooring_common::serving::{self, Access, Certificate, ConnectionLimits, TlsError};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

/// How many connections are served at once by HTTPS: there are few scrapers, and each connection takes memory on
/// every node of the cluster.
const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    remote: 6,
    loopback: 2,
};

/// Serves until the future is dropped.
///
/// # Errors
/// If the listener fails.
pub(super) async fn serve(listener: TcpListener, registry: Arc<Registry>) -> std::io::Result<()> {
    axum::serve(listener, router(registry)).await
}

/// One that is made in memory.
pub(super) fn certificate() -> Result<Certificate, TlsError> {
    Certificate::new(None, "mooring-node", serving::Metrics::default())
}

/// Serves by HTTPS until the future is dropped.
pub(super) async fn serve_secure(
    listener: TcpListener,
    certificate: Certificate,
    client: Client,
    registry: Arc<Registry>,
) {
    let access = Arc::new(Access::new(client, HashSet::new()));
    // Not of paths that there are not: nobody is asked about these.
    let router =
        router(registry).route_layer(middleware::from_fn_with_state(access, serving::check));
    serving::serve(listener, &certificate, CONNECTIONS, router).await;
}

fn router(registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(registry)
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    serving::metrics(&registry)
}
