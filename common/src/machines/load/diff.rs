//! What a reload changes, and how much of it is permitted.

use std::collections::{HashMap, HashSet};

use crate::machines::schema::{MachineState, Machines, NodeEntry, NodeMatch};
use crate::provider_id::ProviderId;

/// What differs between two contents of the file; machines are named as people call them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Machines that were not there.
    pub added: Vec<String>,
    /// Machines that are not there any more.
    pub removed: Vec<String>,
    /// Machines of which something else is said.
    pub changed: Vec<String>,
    /// Machines that existed and do so no longer: removed, or called terminated.
    pub lost: Vec<String>,
    /// How many machines existed.
    pub known: usize,
}

impl Diff {
    /// Compares two contents. A machine is the same one if its provider ID is, or if it had none
    /// and is known by the same keys. Where it stands in the file does not matter.
    #[must_use]
    pub fn between(old: &Machines, new: &Machines) -> Self {
        let successors = Successors::of(new);
        let mut kept: HashSet<*const NodeEntry> = HashSet::new();
        let mut diff = Self::default();
        for entry in old.nodes() {
            let existed = entry.state != MachineState::Terminated;
            diff.known += usize::from(existed);
            let successor = successors.find(entry);
            let exists = successor.is_some_and(|s| s.state != MachineState::Terminated);
            if existed && !exists {
                diff.lost.push(entry.to_string());
            }
            match successor {
                None => diff.removed.push(entry.to_string()),
                Some(successor) => {
                    kept.insert(std::ptr::from_ref(successor));
                    if successor != entry {
                        diff.changed.push(entry.to_string());
                    }
                }
            }
        }
        let fresh = |entry: &&NodeEntry| !kept.contains(&std::ptr::from_ref(*entry));
        diff.added = new
            .nodes()
            .iter()
            .filter(fresh)
            .map(ToString::to_string)
            .collect();
        diff
    }
}

/// The machines of a new content, by what makes them the same as an old one.
struct Successors<'a> {
    by_id: HashMap<&'a ProviderId, &'a NodeEntry>,
    by_match: HashMap<&'a NodeMatch, &'a NodeEntry>,
}

impl<'a> Successors<'a> {
    fn of(machines: &'a Machines) -> Self {
        let nodes = machines.nodes();
        Self {
            by_id: nodes
                .iter()
                .filter_map(|e| Some((e.provider_id()?, e)))
                .collect(),
            by_match: nodes.iter().map(|e| (&e.matching, e)).collect(),
        }
    }

    fn find(&self, old: &NodeEntry) -> Option<&'a NodeEntry> {
        match old.provider_id() {
            Some(id) => self.by_id.get(id).copied(),
            None => self.by_match.get(&old.matching).copied(),
        }
    }
}

/// How many of so many machines one reload may take away: the share, rounded down. One may always
/// go, lest small clusters never lose any, unless it is the last or the share is 0.
#[must_use]
pub(super) fn allowed(known: usize, percent: u8) -> usize {
    let share = known.saturating_mul(usize::from(percent)) / 100;
    let least = usize::from(percent > 0 && known > 1);
    share.max(least)
}

/// Names for a message, not too many.
#[must_use]
pub(super) fn short(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown: Vec<&str> = names.iter().take(MOST).map(String::as_str).collect();
    match names.len().checked_sub(MOST) {
        Some(rest) if rest > 0 => format!("{} and {rest} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_machine_may_go_but_not_the_last() {
        for (known, percent, expected) in [
            (0, 20, 0),
            (1, 20, 0),
            (1, 100, 1),
            (2, 20, 1),
            (5, 0, 0),
            (9, 20, 1),
            (10, 20, 2),
            (100, 20, 20),
        ] {
            assert_eq!(allowed(known, percent), expected, "{percent}% of {known}");
        }
    }

    #[test]
    fn messages_shorten_long_lists() {
        let names: Vec<String> = (0..22).map(|i| i.to_string()).collect();
        assert!(short(&names).ends_with("18, 19 and 2 more"));
        assert!(short(&names[..20]).ends_with("18, 19"));
        assert_eq!(short(&[]), "");
    }
}
