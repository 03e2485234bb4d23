//! Why a cloud did not do what it was asked.

use std::time::Duration;

/// Why a cloud did not do what it was asked. No credentials are in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {message}")]
pub struct CloudError {
    /// Which cloud.
    pub provider: &'static str,
    /// What was asked, what came back, and what to do about it.
    pub message: String,
    /// How long the cloud wants to be left alone.
    pub retry_after: Option<Duration>,
}
