//! What the daemon remembers between two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::observe::Observed;
use super::step::Subject;
use super::wanted::Wanted;
use super::{ALIAS, GROUP};
use crate::wire::links::Link;

/// How long an interface stays that nothing needs any more: an L2Network may be made anew.
pub const GRACE: Duration = Duration::from_secs(60);

/// What was known before this look.
#[derive(Debug, Default)]
pub struct ReconcileState {
    /// Interfaces that have borne our mark in the life of this process, by number.
    pub ours: BTreeSet<u32>,
    /// Interfaces of ours that nothing needs, and since when.
    pub unwanted: BTreeMap<u32, Instant>,
    /// What has been as it should be.
    pub settled: BTreeSet<Subject>,
    /// Whether `/proc/sys/net` has refused to be written.
    pub sysctl_refused: bool,
}

/// Whether an interface is a VLAN's and bears the mark of this or another daemon of Mooring. The life
/// of that one may have ended between making the interface and naming it.
#[must_use]
pub fn is_marked(link: &Link) -> bool {
    let stack = &link.stack;
    let is_new = stack.alias.is_empty() && stack.group == GROUP;
    stack.vlan.is_some() && (stack.alias == ALIAS || is_new)
}

impl ReconcileState {
    /// Notes which interfaces are ours, and which of them are not needed.
    pub fn note(&mut self, wanted: &Wanted, observed: &Observed, now: Instant) {
        let is_there = |index: u32| observed.links.iter().any(|link| link.index == index);
        self.ours.retain(|index| is_there(*index));
        let marked = observed.links.iter().filter(|link| is_marked(link));
        self.ours.extend(marked.map(|link| link.index));
        let mut unwanted = BTreeMap::new();
        for link in &observed.links {
            let needed = link
                .stack
                .vlan
                .is_some_and(|vlan| wanted.vlans.contains_key(&vlan));
            if self.ours.contains(&link.index) && !needed {
                let since = self.unwanted.get(&link.index).copied();
                unwanted.insert(link.index, since.unwrap_or(now));
            }
        }
        self.unwanted = unwanted;
    }

    /// When the next grace period ends.
    #[must_use]
    pub fn next_deletion(&self) -> Option<Instant> {
        self.unwanted.values().min().map(|since| *since + GRACE)
    }
}
