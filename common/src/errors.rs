//! Errors as a person reads them.

use std::error::Error;
use std::fmt::Write as _;

/// The error with all its causes, the outermost first, joined by colons. A cause that its error has
/// repeated already is not told twice.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            let _ = write!(text, ": {words}");
        }
        cause = error.source();
    }
    text
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
