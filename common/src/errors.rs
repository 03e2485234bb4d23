//! Errors as a person reads them.

use std::error::Error;
use std::fmt::Write as _;

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
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if !status.message.is_empty() => status.message.clone(),
        Some(kube::Error::Api(status)) => format!("{} ({})", status.reason, status.code),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn causes_are_told() {
        let error = Outer(std::io::Error::other("the disk is full"));
        assert_eq!(with_causes(&error), "cannot write: the disk is full");
    }
}
