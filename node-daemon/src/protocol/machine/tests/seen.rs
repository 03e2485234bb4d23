//! What is seen of a [`World`].

use super::*;

impl World {
    /// Who may speak for a key now. Never more than one.
    pub(super) fn speaker(&self, key: Key) -> Option<u64> {
        let speakers: Vec<u64> = self
            .hosts
            .iter()
            .filter(|(_, host)| host.machine.permits(key, self.now))
            .map(|(node, _)| *node)
            .collect();
        assert!(speakers.len() <= 1, "{speakers:?} speak at {:?}", self.now);
        speakers.first().copied()
    }

    pub(super) fn forget_gaps(&mut self) {
        self.longest_gap.clear();
        self.log.clear();
    }

    pub(super) fn gap(&self) -> Duration {
        self.longest_gap.values().copied().max().unwrap_or_default()
    }

    pub(super) fn speakers(&self) -> BTreeMap<Key, u64> {
        self.keys
            .keys()
            .filter_map(|key| Some((*key, self.speaker(*key)?)))
            .collect()
    }

    pub(super) fn expect_all_spoken(&self) {
        let speakers = self.speakers();
        assert_eq!(speakers.len(), self.keys.len(), "{speakers:?}");
        for host in self.hosts.values() {
            let held: BTreeSet<Key> = host.machine.speaking().collect();
            assert_eq!(held, host.spoken);
        }
    }

    pub(super) fn keys_of(&self, node: u64) -> BTreeSet<Key> {
        self.speakers()
            .into_iter()
            .filter(|(_, speaker)| *speaker == node)
            .map(|(key, _)| key)
            .collect()
    }

    pub(super) fn count(&self, node: u64, what: Transition) -> usize {
        self.log
            .iter()
            .filter(|(_, by, decision)| *by == node && *decision == Decision::Note(what))
            .count()
    }

    /// How a node began to speak, with the causes.
    pub(super) fn begun(&self, node: u64) -> BTreeSet<(bool, Cause)> {
        self.log
            .iter()
            .filter(|(_, by, _)| *by == node)
            .filter_map(|(_, _, decision)| match decision {
                Decision::Begin { mode, cause, .. } => {
                    Some((*mode == AnnounceMode::Unsolicited, *cause))
                }
                _ => None,
            })
            .collect()
    }

    pub(super) fn bursts(&self, node: u64) -> usize {
        self.log
            .iter()
            .filter(|(_, by, decision)| *by == node && matches!(decision, Decision::Burst { .. }))
            .count()
    }
}
