//! What was bought and given back, and what missed its aim.

use std::time::{Duration, Instant};

use serde_json::Value;

/// A block that was bought.
#[derive(Clone, Debug)]
pub struct Purchase {
    /// The block as it was then.
    pub block: Value,
    /// Whether it has been given back through the API.
    pub released: bool,
    /// For how long it has been held, up to now or until it was given back.
    pub held: Duration,
}

struct Entry {
    id: String,
    block: Value,
    bought: Instant,
    released: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
    released: Vec<String>,
    /// What was asked for that no good client asks for, in words.
    pub(super) misdirected: Vec<String>,
}

impl Ledger {
    pub(super) fn bought(&mut self, id: &str, block: &Value, now: Instant) {
        self.entries.push(Entry {
            id: id.to_owned(),
            block: block.clone(),
            bought: now,
            released: None,
        });
    }

    pub(super) fn released(&mut self, id: &str, now: Instant) {
        self.released.push(id.to_owned());
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        if let Some(entry) = entry {
            entry.released = Some(now);
        }
    }

    /// The blocks that were given back, in order.
    pub(super) fn releases(&self) -> Vec<String> {
        self.released.clone()
    }

    /// Those that were given back, as they were when they were bought, by id.
    pub(super) fn returned(&self) -> impl Iterator<Item = (&str, &Value)> {
        let returned = self.entries.iter().filter(|it| it.released.is_some());
        returned.map(|entry| (entry.id.as_str(), &entry.block))
    }

    pub(super) fn purchases(&self, now: Instant) -> Vec<Purchase> {
        let entries = self.entries.iter().map(|entry| Purchase {
            block: entry.block.clone(),
            released: entry.released.is_some(),
            held: entry.released.unwrap_or(now).duration_since(entry.bought),
        });
        entries.collect()
    }
}
