//! Why a cloud did not do what it was asked.

use std::time::Duration;

/// Why a cloud did not do what it was asked. No credentials are in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {message}")]
pub struct CloudError {
    /// Which cloud.
    pub provider: &'static str,
    /// What is to be thought of it.
    pub kind: ErrorKind,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The cloud's own words, where it found any.
    pub words: Option<String>,
    /// What was asked, what came back, and what to do about it.
    pub message: String,
    /// How long the cloud wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// What is to be thought of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The cloud itself says that there is no such thing. A 404 of somebody in between is
    /// [`Self::Malformed`].
    NotFound,
    /// The token is not known (any more).
    Unauthorized,
    /// The token may not do this.
    Forbidden,
    /// Too many requests: the cloud says so, or our own limit does.
    RateLimited,
    /// Another change is under way; the same request may do later.
    Busy,
    /// The request is refused as it is.
    Invalid,
    /// The cloud is out of order, or under maintenance.
    Server,
    /// The answer is not one of this cloud: HTML, cut off, a redirect, an error body with status
    /// 200, pages that do not fit together.
    Malformed,
    /// No connection, or one that broke.
    Transport,
    /// No answer in time.
    Timeout,
}

impl ErrorKind {
    /// Each of them.
    pub const ALL: [Self; 10] = [
        Self::NotFound,
        Self::Unauthorized,
        Self::Forbidden,
        Self::RateLimited,
        Self::Busy,
        Self::Invalid,
        Self::Server,
        Self::Malformed,
        Self::Transport,
        Self::Timeout,
    ];

    /// A word for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::RateLimited => "rate_limited",
            Self::Busy => "busy",
            Self::Invalid => "invalid",
            Self::Server => "server",
            Self::Malformed => "malformed",
            Self::Transport => "transport",
            Self::Timeout => "timeout",
        }
    }
}

impl CloudError {
    /// A failure without an answer, or one that several answers amount to.
    #[must_use]
    pub fn new(provider: &'static str, kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            provider,
            kind,
            status: None,
            words: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Whether the cloud itself says that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Whether the same request may do later although nobody changes anything.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self.kind {
            ErrorKind::RateLimited
            | ErrorKind::Busy
            | ErrorKind::Server
            | ErrorKind::Malformed
            | ErrorKind::Transport
            | ErrorKind::Timeout => true,
            ErrorKind::NotFound
            | ErrorKind::Unauthorized
            | ErrorKind::Forbidden
            | ErrorKind::Invalid => false,
        }
    }

    /// Whether a change that was asked for may have been made nevertheless, so that one must look
    /// before one asks again.
    #[must_use]
    pub const fn may_have_been_done(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Server | ErrorKind::Malformed | ErrorKind::Transport | ErrorKind::Timeout
        )
    }
}

/// An answer. `None`: the token may not ask for that.
///
/// # Errors
/// Any other error.
pub fn permitted<T>(answer: Result<T, CloudError>) -> Result<Option<T>, CloudError> {
    match answer {
        Err(error) if error.kind == ErrorKind::Forbidden => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusal_proves_that_nothing_was_done() {
        let may = |kind| CloudError::new("x", kind, "").may_have_been_done();
        assert!(may(ErrorKind::Timeout) && may(ErrorKind::Transport) && may(ErrorKind::Server));
        assert!(!may(ErrorKind::RateLimited) && !may(ErrorKind::Invalid) && !may(ErrorKind::Busy));
    }
}
