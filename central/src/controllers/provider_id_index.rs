//! Which Nodes bear which provider ID: no machine is two Nodes.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names of the Nodes that bear each provider ID, kept as Nodes come, change and go.
#[derive(Debug, Default)]
pub struct ProviderIdIndex {
    by_id: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl ProviderIdIndex {
    /// The Node of this name bore the ID `old`, and bears `new` now. Returns the other Nodes that
    /// this concerns: those that bear either.
    pub fn changed(&self, name: &str, old: Option<&str>, new: Option<&str>) -> Vec<String> {
        if old == new {
            return Vec::new();
        }
        let mut by_id = self.lock();
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
        let names = concerned.filter_map(|id| by_id.get(id)).flatten();
        names.filter(|other| *other != name).cloned().collect()
    }

    /// The Nodes that bear this ID, except the one of this name.
    #[must_use]
    pub fn others(&self, id: &str, name: &str) -> Vec<String> {
        let by_id = self.lock();
        let names = by_id.get(id).into_iter().flatten();
        names.filter(|other| *other != name).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeSet<String>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_sharing_an_id_hear_of_each_other() {
        let provider_ids = ProviderIdIndex::default();
        assert!(provider_ids.changed("a", None, Some("x")).is_empty());
        assert_eq!(provider_ids.changed("b", None, Some("x")), ["a"]);
        assert_eq!(provider_ids.others("x", "a"), ["b"]);
        assert!(provider_ids.changed("b", Some("x"), Some("x")).is_empty());
        assert_eq!(provider_ids.changed("b", Some("x"), None), ["a"]);
        assert!(provider_ids.others("x", "a").is_empty());
        assert!(provider_ids.changed("a", Some("x"), None).is_empty());
        assert!(
            provider_ids.lock().is_empty(),
            "nothing is kept of what is gone"
        );
    }
}
