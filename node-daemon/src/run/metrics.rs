//! `/metrics`, by HTTP, on this machine only unless asked otherwise.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;

/// Serves until the future is dropped.
///
/// # Errors
/// If the listener fails.
pub(super) async fn serve(listener: TcpListener, registry: Registry) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .with_state(Arc::new(registry));
    axum::serve(listener, router).await
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
