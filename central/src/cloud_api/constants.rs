//! What never changes about a resource, and is asked for once.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use super::CloudError;

/// What was answered about resources, by ID.
#[derive(Debug)]
pub struct Constants<V>(Mutex<HashMap<String, V>>);

impl<V> Default for Constants<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> Constants<V> {
    /// What is known of this resource, else what `ask` gives.
    ///
    /// # Errors
    /// That of `ask`, which is not remembered.
    pub async fn get(
        &self,
        id: &str,
        ask: impl Future<Output = Result<V, CloudError>>,
    ) -> Result<V, CloudError> {
        if let Some(known) = self.with(|known| known.get(id).cloned()) {
            return Ok(known);
        }
        let value = ask.await?;
        self.with(|known| known.insert(id.to_owned(), value.clone()));
        Ok(value)
    }

    /// Forgets all but these.
    pub fn keep<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        let ids: BTreeSet<&str> = ids.collect();
        self.with(|known| known.retain(|id, _| ids.contains(&**id)));
    }

    fn with<T>(&self, change: impl FnOnce(&mut HashMap<String, V>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud_api::ErrorKind;

    #[tokio::test]
    async fn answers_last_as_long_as_their_resource() {
        let constants = Constants::default();
        let fails = async { Err(CloudError::new("cloud", ErrorKind::Server, "down")) };
        assert!(constants.get("a", fails).await.is_err());
        assert_eq!(constants.get("a", async { Ok(1) }).await.unwrap(), 1);
        assert_eq!(constants.get("b", async { Ok(2) }).await.unwrap(), 2);
        constants.keep(["b", "c"].into_iter());
        assert_eq!(constants.get("a", async { Ok(3) }).await.unwrap(), 3);
        assert_eq!(constants.get("b", async { Ok(4) }).await.unwrap(), 2);
    }
}
