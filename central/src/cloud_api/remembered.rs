//! What is asked for again only after a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::CloudError;

/// What was answered, by what was asked.
#[derive(Debug)]
pub struct Remembered<K, V> {
    lasts: Duration,
    known: Mutex<HashMap<K, (V, Instant)>>,
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    /// Each answer lasts so long.
    #[must_use]
    pub fn new(lasts: Duration) -> Self {
        Self {
            lasts,
            known: Mutex::default(),
        }
    }

    /// What is remembered of this, else what `ask` gives. One question is asked at a time.
    ///
    /// # Errors
    /// That of `ask`, which is not remembered.
    pub async fn get(
        &self,
        key: K,
        ask: impl Future<Output = Result<V, CloudError>>,
    ) -> Result<V, CloudError> {
        let mut known = self.known.lock().await;
        known.retain(|_, (_, at)| at.elapsed() < self.lasts);
        if let Some((value, _)) = known.get(&key) {
            return Ok(value.clone());
        }
        let value = ask.await?;
        known.insert(key, (value.clone(), Instant::now()));
        Ok(value)
    }

    /// Asks for everything anew.
    pub async fn forget(&self) {
        self.known.lock().await.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud_api::ErrorKind;

    #[tokio::test(start_paused = true)]
    async fn answers_last_and_errors_do_not() {
        let remembered = Remembered::new(Duration::from_secs(10));
        let fails = async { Err(CloudError::new("cloud", ErrorKind::Server, "down")) };
        assert!(remembered.get("a", fails).await.is_err());
        assert_eq!(remembered.get("a", async { Ok(1) }).await.unwrap(), 1);
        assert_eq!(remembered.get("a", async { Ok(2) }).await.unwrap(), 1);
        assert_eq!(remembered.get("b", async { Ok(3) }).await.unwrap(), 3);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(remembered.get("a", async { Ok(4) }).await.unwrap(), 4);
        remembered.forget().await;
        assert_eq!(remembered.get("a", async { Ok(5) }).await.unwrap(), 5);
    }
}
