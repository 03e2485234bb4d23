//! Which Events were written, so that the same one is counted and not written anew.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::EventKind;

/// Nothing is remembered for longer without being said again: by then API servers have let the
/// Event go, too, unless they are told otherwise (`--event-ttl`).
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Beyond this the longest unsaid is forgotten, and would be written anew. As many as client-go
/// remembers.
const CAPACITY: usize = 4096;
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What is said of which object, in whatever version.
#[derive(Clone, Debug)]
pub(super) struct EventKey {
    pub(super) about: ObjectReference,
    pub(super) kind: EventKind,
    pub(super) reason: String,
    pub(super) note: String,
}

/// An attempt may write on the object before it fails, and is the same as the one before all the same.
impl PartialEq for EventKey {
    fn eq(&self, other: &Self) -> bool {
        let object = |key: &Self| {
            let about = key.about.clone();
            ObjectReference {
                resource_version: None,
                ..about
            }
        };
        object(self) == object(other)
            && (self.kind, &self.reason, &self.note) == (other.kind, &other.reason, &other.note)
    }
}

impl Eq for EventKey {}

impl Hash for EventKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.about.uid.hash(state);
        self.about.name.hash(state);
        self.kind.hash(state);
        self.reason.hash(state);
        self.note.hash(state);
    }
}

/// The Event that says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Its name.
    pub(super) name: String,
    /// When it was said first.
    pub(super) first: Timestamp,
    /// How often it has been said.
    pub(super) count: i32,
    last: Instant,
}

/// What was written.
#[derive(Debug, Default)]
pub(super) struct EventCache {
    written: HashMap<EventKey, Written>,
    last_stamp: i128,
}

impl EventCache {
    /// Counts that it is said, and gives the Event that says it.
    pub(super) fn once_more(&mut self, told: &EventKey, now: Timestamp) -> Written {
        let last = Instant::now();
        self.written
            .retain(|_, written| last.duration_since(written.last) < LONGEST);
        if let Some(written) = self.written.get_mut(told) {
            written.count = written.count.saturating_add(1);
            written.last = last;
            return written.clone();
        }
        if self.written.len() >= CAPACITY {
            self.forget_one();
        }
        let written = Written {
            name: self.new_name(told, now),
            first: now,
            count: 1,
            last,
        };
        self.written.insert(told.clone(), written.clone());
        written
    }

    fn forget_one(&mut self) {
        let oldest = self.written.iter().min_by_key(|(_, written)| written.last);
        if let Some(told) = oldest.map(|(told, _)| told.clone()) {
            self.written.remove(&told);
        }
    }

    /// The object's name and a time that no other Event of this cache has.
    fn new_name(&mut self, told: &EventKey, now: Timestamp) -> String {
        self.last_stamp = now.as_nanosecond().max(self.last_stamp + 1);
        let stamp = format!(".{:x}", self.last_stamp);
        let mut name = told.about.name.clone().unwrap_or_default();
        name.truncate(LONGEST_NAME - stamp.len());
        // Each part of a name ends with a letter or a digit.
        let whole = name.trim_end_matches(['.', '-']).len();
        name.truncate(whole);
        name + &stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, note: &str) -> EventKey {
        EventKey {
            about: ObjectReference {
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            kind: EventKind::Normal,
            reason: "Because".to_owned(),
            note: note.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn forgets_events_after_an_hour() {
        let mut cache = EventCache::default();
        let now = Timestamp::UNIX_EPOCH;
        let first = cache.once_more(&told("a", "x"), now);
        assert_eq!(first.count, 1);
        tokio::time::advance(LONGEST - Duration::from_secs(1)).await;
        let again = cache.once_more(&told("a", "x"), now);
        assert_eq!((again.count, &again.name), (2, &first.name));
        tokio::time::advance(LONGEST).await;
        let anew = cache.once_more(&told("a", "x"), now);
        assert_eq!(anew.count, 1);
        assert_ne!(anew.name, first.name, "the first may still be there");
        assert_eq!(cache.written.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn evicts_least_recently_reported() {
        let mut cache = EventCache::default();
        for n in 0..CAPACITY {
            cache.once_more(&told("a", &n.to_string()), Timestamp::UNIX_EPOCH);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let mut count = |note: &str| {
            cache
                .once_more(&told("a", note), Timestamp::UNIX_EPOCH)
                .count
        };
        assert_eq!(count("0"), 2, "said again, no more the oldest");
        assert_eq!(count("one more"), 1);
        assert_eq!(count("0"), 3);
        assert_eq!(count("1"), 1, "this was the oldest");
        assert_eq!(cache.written.len(), CAPACITY);
    }

    #[tokio::test]
    async fn event_names_are_unique_and_valid() {
        let mut cache = EventCache::default();
        let now = Timestamp::UNIX_EPOCH;
        let long = format!("{}.b", "a".repeat(250));
        let mut name = |about: &str, note: &str| cache.once_more(&told(about, note), now).name;
        assert_ne!(name("a", "x"), name("a", "y"), "at the same instant");
        for about in [&*long, &"a.".repeat(126), "a"] {
            let name = name(about, "z");
            assert!(name.len() <= LONGEST_NAME, "{name}");
            assert!(!name.contains("..") && !name.contains("-."), "{name}");
        }
    }
}
