//! The endpoints of `mooring-central`, by HTTPS: `/healthz`, `/livez`, `/readyz`, `/metrics`.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use kube::Client;
use mooring_common::serving::{self, Access, Certificate, ConnectionLimits, TlsError};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

use crate::cloud_provider::registration::Obstacle;
use crate::flags::ServingFlags;

/// How many are served at once.
const CONNECTIONS: ConnectionLimits = ConnectionLimits {
    remote: 64,
    loopback: 16,
};

/// What the endpoints tell.
pub struct Health {
    synced: AtomicBool,
    obstacles: Vec<Obstacle>,
}

impl Health {
    /// Not ready yet.
    #[must_use]
    pub fn new(obstacles: Vec<Obstacle>) -> Self {
        Self {
            synced: AtomicBool::new(false),
            obstacles,
        }
    }

    /// The caches are filled: from now on `/readyz` answers 200 unless there is an obstacle.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), String> {
        if !self.synced.load(Ordering::Acquire) {
            return Err("the caches are not filled yet".to_owned());
        }
        let told = self.obstacles.iter().filter_map(|obstacle| obstacle());
        let told: Vec<String> = told.collect();
        if told.is_empty() {
            Ok(())
        } else {
            Err(told.join("\n"))
        }
    }
}

struct Told {
    health: Arc<Health>,
    registry: Registry,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken, or the address is not this machine's.
    #[error("cannot listen on {address}; choose another --bind-address or --secure-port")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Serves until the future is dropped.
///
/// # Errors
/// [`ServeError`] if it cannot begin.
pub async fn serve(
    flags: &ServingFlags,
    client: Client,
    health: Arc<Health>,
    mut registry: Registry,
) -> Result<(), ServeError> {
    let address = SocketAddr::new(flags.address, flags.port);
    let listener = TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Bind { address, source })?;
    let allowed: HashSet<String> = flags.always_allowed.iter().cloned().collect();
    let access = Arc::new(Access::new(client, allowed));
    let metrics_of_certificate = serving::Metrics::register(&mut registry);
    let router = Router::new()
        .route("/healthz", get(alive))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        // Not of paths that there are not: nobody is asked about these.
        .route_layer(middleware::from_fn_with_state(access, serving::check))
        .with_state(Arc::new(Told { health, registry }));
    let files = flags.certificate.as_ref();
    let certificate = Certificate::new(files, "mooring-central", metrics_of_certificate)?;
    tracing::info!(%address, "serving");
    tokio::select! {
        () = serving::serve(listener, &certificate, CONNECTIONS, router) => {}
        () = certificate.follow() => {}
    }
    Ok(())
}

async fn alive() -> &'static str {
    "ok"
}

async fn ready(State(told): State<Arc<Told>>) -> Response {
    match told.health.check() {
        Ok(()) => "ok".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

async fn metrics(State(told): State<Arc<Told>>) -> Response {
    serving::metrics(&told.registry)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn ready_means_synced_without_obstacle() {
        let told: Arc<Mutex<Option<String>>> = Arc::default();
        let shared = told.clone();
        let obstacle: Obstacle = Box::new(move || shared.lock().unwrap().clone());
        let health = Health::new(vec![obstacle, Box::new(|| None)]);
        assert!(health.check().unwrap_err().contains("caches"));
        health.set_synced();
        assert_eq!(health.check(), Ok(()));
        *told.lock().unwrap() = Some("no token".to_owned());
        assert_eq!(health.check(), Err("no token".to_owned()));
    }
}
