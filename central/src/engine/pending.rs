//! What a cloud has taken and may do later: until it shows, nothing follows from what it shows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::resource_step::ResourceStep;

/// Changes that a cloud has taken, by the identifier of what they are about.
#[derive(Debug)]
pub struct Pending<T> {
    /// For how long the cloud may take.
    lasts: Duration,
    taken: Mutex<HashMap<String, (T, Instant)>>,
}

impl<T> Pending<T> {
    /// None yet; the cloud may take so long for one.
    #[must_use]
    pub fn new(lasts: Duration) -> Self {
        Self {
            lasts,
            taken: Mutex::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, (T, Instant)>> {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, (_, at)| at.elapsed() < self.lasts);
        all
    }

    /// The cloud has taken one: this is how it is to be.
    pub fn takes(&self, id: &str, wanted: T) {
        self.all().insert(id.to_owned(), (wanted, Instant::now()));
    }

    /// Whether something is still on its way. Once it is as it was wanted, it is at rest, whatever becomes of it
    /// later.
    pub fn is_open(&self, id: &str, is_done: impl Fn(&T) -> bool) -> bool {
        let mut all = self.all();
        if all.get(id).is_some_and(|(wanted, _)| is_done(wanted)) {
            all.remove(id);
        }
        all.contains_key(id)
    }
}

/// Of resources that are to lead to others, or nowhere.
impl Pending<Option<String>> {
    /// The cloud has taken a step, and may do it later. `planned`: what this plan had made before.
    pub fn takes_step(&self, step: &ResourceStep, planned: &[String]) {
        if let Some((id, target)) = step.awaited(planned) {
            self.takes(&id, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn change_is_open_until_it_shows_or_takes_too_long() {
        let pending = Pending::new(Duration::from_secs(10));
        pending.takes("a", 1);
        assert!(pending.is_open("a", |wanted| *wanted == 2));
        assert!(!pending.is_open("a", |wanted| *wanted == 1));
        assert!(
            !pending.is_open("a", |wanted| *wanted == 2),
            "it is at rest"
        );
        pending.takes("b", 1);
        assert!(pending.is_open("b", |_| false));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!pending.is_open("b", |_| false));
    }
}
