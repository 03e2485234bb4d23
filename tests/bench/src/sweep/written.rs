//! What was written, by kind.

use std::collections::BTreeMap;

use crate::clouds::kind;
use mooring_cloud_sim::{Call, Calls};

/// How many writes of each kind there were, of those that count: `POST /v4/nodebalancers/*/configs`.
pub(super) fn by_kind(calls: &Calls, counts: impl Fn(&Call) -> bool) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for call in calls.writes().iter().filter(|call| counts(call)) {
        *found.entry(kind(call)).or_default() += 1;
    }
    found
}
