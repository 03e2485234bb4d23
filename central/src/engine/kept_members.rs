//! Machines of which the cloud does not say the addresses now: their members stay as they are, and all others go on.

use std::collections::BTreeSet;

use super::pool::Member;
use super::provider::{Desired, Observed};

/// Lets the members at these addresses stay as they are: each is wanted in the pools of its node port.
pub(super) fn keep<O: Observed, D: Desired<Member = O::Member>>(
    desired: &mut D,
    unread: &BTreeSet<String>,
    observed: Option<&O>,
) {
    for pool in desired.pools() {
        let Some((_, port)) = pool.first().map(Member::target) else {
            continue;
        };
        for (_, member) in observed.into_iter().flat_map(Observed::members) {
            let target = member.spec.target();
            let is_unread = target.1 == port && unread.contains(target.0);
            if is_unread && pool.iter().all(|wanted| wanted.target() != target) {
                pool.push(member.spec.clone());
            }
        }
    }
}
