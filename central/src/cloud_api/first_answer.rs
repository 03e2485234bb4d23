//! Has the cloud answered since the start? A replica is not ready before it has.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Client, Request};

/// How often it is asked, if nobody else has asked meanwhile.
const PERIOD: Duration = Duration::from_secs(5);

/// Waits for the first answer of a cloud.
#[derive(Debug)]
pub struct FirstAnswer<C> {
    cloud: Arc<C>,
    /// What anybody may ask whose credentials are valid.
    question: Request,
    /// Why there was none, as far as that was asked.
    failure: Mutex<Option<String>>,
}

impl<C: AsRef<Client>> FirstAnswer<C> {
    /// Asks nobody yet.
    pub fn new(cloud: Arc<C>, question: Request) -> Self {
        Self {
            cloud,
            question,
            failure: Mutex::default(),
        }
    }

    fn client(&self) -> &Client {
        (*self.cloud).as_ref()
    }

    /// Why this replica is not ready.
    pub fn obstacle(&self) -> Option<String> {
        let client = self.client();
        if client.has_answered() {
            return None;
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let why = failure.as_deref().map(|why| format!(": {why}"));
        let why = why.unwrap_or_default();
        Some(format!("{} has not answered yet{why}", client.provider()))
    }

    /// Asks until there was an answer, to this question or to any other.
    pub async fn wait(&self) {
        loop {
            tokio::time::sleep(PERIOD).await;
            if self.client().has_answered() {
                return;
            }
            if let Err(error) = self.client().call(&self.question).await {
                tracing::warn!(%error, "the cloud does not answer yet");
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                *failure = Some(error.to_string());
            }
        }
    }
}
