//! Which Nodes bear which provider ID, and which wait for one: no machine is two Nodes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of the Nodes that bear each provider ID, kept as Nodes come, change and go.
#[derive(Debug, Default)]
pub struct ProviderIdIndex {
    nodes: Mutex<Nodes>,
}

#[derive(Debug, Default)]
struct Nodes {
    by_id: HashMap<String, BTreeSet<String>>,
    /// Those that are not initialised and bear no ID.
    waiting: BTreeSet<String>,
}

impl ProviderIdIndex {
    /// The Node of this name bore the ID `old`, and bears `new` now; `waits`: it bears none yet, and is
    /// not initialised. Returns the other Nodes that this concerns: those that bear either, and where
    /// one is given up, those that wait for theirs.
    pub fn changed(
        &self,
        name: &str,
        old: Option<&str>,
        new: Option<&str>,
        waits: bool,
    ) -> Vec<String> {
        let mut nodes = self.lock();
        let Nodes { by_id, waiting } = &mut *nodes;
        if waits {
            waiting.insert(name.to_owned());
        } else {
            waiting.remove(name);
        }
        if old == new {
            return Vec::new();
        }
        if let Some(old) = old
            && let Some(names) = by_id.get_mut(old)
        {
            names.remove(name);
            if names.is_empty() {
                by_id.remove(old);
            }
        }
        if let Some(new) = new {
            let names = by_id.entry(new.to_owned()).or_default();
            names.insert(name.to_owned());
        }
        let concerned = [old, new].into_iter().flatten();
        let bearing = concerned.filter_map(|id| by_id.get(id)).flatten();
        let waiting = old.map(|_| &*waiting).into_iter().flatten();
        let names = bearing.chain(waiting).filter(|other| *other != name);
        names.cloned().collect()
    }

    /// The Nodes that bear this ID, except the one of this name.
    #[must_use]
    pub fn others(&self, id: &str, name: &str) -> Vec<String> {
        let nodes = self.lock();
        let names = nodes.by_id.get(id).into_iter().flatten();
        names.filter(|other| *other != name).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_sharing_an_id_hear_of_each_other() {
        let provider_ids = ProviderIdIndex::default();
        let changed = |name, old, new| provider_ids.changed(name, old, new, false);
        assert!(changed("a", None, Some("x")).is_empty());
        assert_eq!(changed("b", None, Some("x")), ["a"]);
        assert_eq!(provider_ids.others("x", "a"), ["b"]);
        assert!(changed("b", Some("x"), Some("x")).is_empty());
        assert_eq!(changed("b", Some("x"), None), ["a"]);
        assert!(provider_ids.others("x", "a").is_empty());
        assert!(changed("a", Some("x"), None).is_empty());
        let nodes = provider_ids.lock();
        assert!(nodes.by_id.is_empty(), "nothing is kept of what is gone");
    }

    /// Which machine a Node without an ID is, is not known here: any that is given up may be its own.
    #[test]
    fn waiting_nodes_hear_when_an_id_is_given_up() {
        let provider_ids = ProviderIdIndex::default();
        assert!(provider_ids.changed("new", None, None, true).is_empty());
        let old = provider_ids.changed("old", None, Some("x"), false);
        assert!(old.is_empty());
        let gone = provider_ids.changed("old", Some("x"), None, false);
        assert_eq!(gone, ["new"]);
        provider_ids.changed("new", None, Some("x"), false);
        assert!(provider_ids.lock().waiting.is_empty());
    }
}
