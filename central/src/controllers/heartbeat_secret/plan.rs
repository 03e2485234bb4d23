//! What to do about the Secret. Pure.

use std::fmt;

use mooring_common::engine::{self, Plan};

use super::observe::Observed;

/// There is one thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Make it, with a random key.
    Create,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("make the Secret with a random key")
    }
}

impl engine::Step for Step {}

/// A Secret that is there is left alone, even one without a key: whoever has made it knows why.
pub(super) fn plan(observed: &Observed) -> Plan<Step> {
    (!observed.exists)
        .then_some(Step::Create)
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creates_missing_secret_only() {
        let made = plan(&Observed { exists: false });
        assert_eq!(made.steps(), [Step::Create]);
        assert!(plan(&Observed { exists: true }).is_empty());
    }
}
