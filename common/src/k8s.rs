//! How both programs talk to the Kubernetes API: one client, watches that keep only what is
//! looked at, and Events.

mod cache;
mod client;
mod connection;
mod events;
mod watching;

pub use cache::{Cache, Change, ObjectKey, Slim};
pub use client::{ClientError, ClientOptions, client, loopback};
pub use connection::Connections;
pub use events::{EventKind, Events};
pub use watching::watch;

/// What an error of the API server means for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiFailure {
    /// The object is not there (any more).
    NotFound,
    /// Somebody else changed the object meanwhile: read it again.
    Conflict,
    /// It is refused for good: by validation, by admission, or for want of permission.
    Refused,
    /// It may work later.
    Transient,
}

/// Classifies an error of the API server. A failed `test` of a JSON patch (RFC 6902, 4.6) is a
/// conflict: the API server reports it as 422 without causes, whereas a refusal by validation or
/// by an admission policy has causes.
#[must_use]
pub fn classify(error: &kube::Error) -> ApiFailure {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => ApiFailure::NotFound,
            409 => ApiFailure::Conflict,
            422 if status.details.as_ref().is_none_or(|d| d.causes.is_empty()) => {
                ApiFailure::Conflict
            }
            400 | 401 | 403 | 405 | 422 => ApiFailure::Refused,
            _ => ApiFailure::Transient,
        },
        _ => ApiFailure::Transient,
    }
}
