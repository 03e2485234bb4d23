//! HTTPS for those whom the API server permits: `/metrics` of both programs, and central's health checks.
//!
//! ```text
//!   connection ──► tls: handshake, slots ──► access: TokenReview, SubjectAccessReview ──► the program's router
//!                   └ certificate: from files, or made in memory
//! ```

mod access;
mod bucket;
mod certificate;
mod tls;
mod validity;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use prometheus_client::registry::Registry;

pub use access::{Access, check};
pub use certificate::{Certificate, Metrics, TlsError};
pub use tls::{ConnectionLimits, serve};

/// What the registry counts, as an answer in the OpenMetrics format.
#[must_use]
pub fn metrics(registry: &Registry) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
