//! How long a cloud has been at work on things, as far as this process has seen it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// What is on its way from one state to another, by id: what the cloud says of it, and since when.
#[derive(Debug)]
pub struct Transitions<S>(HashMap<String, (S, Instant)>);

impl<S> Default for Transitions<S> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<S: PartialEq> Transitions<S> {
    /// A complete listing, begun then, has these things on their way.
    pub fn listed<'a>(&mut self, all: impl Iterator<Item = (&'a str, S)>, begun: Instant) {
        let mut before = std::mem::take(&mut self.0);
        for (id, state) in all {
            let same = before.remove(id).filter(|(known, _)| *known == state);
            let since = same.map_or(begun, |(_, since)| since);
            self.0.insert(id.to_owned(), (state, since));
        }
    }

    /// Whether something has been in this state for so long.
    #[must_use]
    pub fn lasts(&self, id: &str, state: &S, least: Duration) -> bool {
        let seen = self.0.get(id);
        seen.is_some_and(|(known, since)| known == state && since.elapsed() >= least)
    }
}
