//! Errors as a person reads them.

use std::error::Error;
use std::fmt::Write as _;

use kube::core::Status;
use kube::runtime::watcher;

/// The error with all its causes, the outermost first, joined by colons. A cause that its error has
/// repeated already is not told twice.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = words(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = words(error);
        if !text.ends_with(&words) {
            let _ = write!(text, ": {words}");
        }
        cause = error.source();
    }
    text
}

/// What an error says of itself. A refusal of the API server is told in the API server's own words:
/// kube's would show all fields of its `Status`.
#[must_use]
pub fn words(error: &(dyn Error + 'static)) -> String {
    if let Some(status) = status_of(error) {
        return status_words(status);
    }
    match error.downcast_ref() {
        Some(watcher::Error::InitialListFailed(_)) => "the list cannot be had".to_owned(),
        Some(watcher::Error::WatchStartFailed(_)) => "no watch can be started".to_owned(),
        Some(watcher::Error::WatchFailed(_)) => "the watch broke off".to_owned(),
        _ => error.to_string(),
    }
}

/// What the API server has answered, where the error is that.
fn status_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    if let Some(kube::Error::Api(status)) = error.downcast_ref() {
        return Some(status);
    }
    if let Some(watcher::Error::WatchError(status)) = error.downcast_ref() {
        return Some(status);
    }
    let boxed = error.downcast_ref::<Box<Status>>().map(AsRef::as_ref);
    boxed.or_else(|| error.downcast_ref())
}

fn status_words(status: &Status) -> String {
    if status.message.is_empty() {
        format!("{} ({})", status.reason, status.code)
    } else {
        status.message.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn error_chain_is_printed() {
        let error = Outer(std::io::Error::other("the disk is full"));
        assert_eq!(with_causes(&error), "cannot write: the disk is full");
    }

    #[test]
    fn api_server_refusal_keeps_its_words() {
        let refusal = || {
            let status = Status::failure("nodes is forbidden", "Forbidden").with_code(403);
            kube::Error::Api(status.boxed())
        };
        assert_eq!(with_causes(&refusal()), "nodes is forbidden");
        let watch = watcher::Error::WatchStartFailed(refusal());
        assert_eq!(
            with_causes(&watch),
            "no watch can be started: nodes is forbidden"
        );
    }
}
