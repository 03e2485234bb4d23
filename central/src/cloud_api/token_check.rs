//! Is the token valid?
//!
//! At the start a refusal ends the program. Later it ends it only if the token is in a variable: whoever
//! starts the container anew reads the Secret anew. A file may be given another token meanwhile, so until
//! then this replica is not ready, and everything else goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Client, CloudError, ErrorKind, Request};

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How often while the token is refused.
const AGAIN: Duration = Duration::from_secs(30);

/// Asks whether a cloud takes the token.
#[derive(Debug)]
pub struct TokenCheck<C> {
    cloud: Arc<C>,
    /// What anybody may ask whose token is valid.
    question: Request,
    /// The last word on it, if that was a refusal.
    refusal: Mutex<Option<String>>,
}

impl<C: AsRef<Client>> TokenCheck<C> {
    /// Asks for the first time.
    ///
    /// # Errors
    /// [`CloudError`] if the token is refused. Whatever else goes wrong says nothing about it.
    pub async fn start(cloud: Arc<C>, question: Request) -> Result<Arc<Self>, CloudError> {
        let check = Self {
            cloud,
            question,
            refusal: Mutex::default(),
        };
        match check.look().await {
            Some(refusal) => Err(refusal),
            None => Ok(Arc::new(check)),
        }
    }

    /// Asks again and again. Ends with a refusal after which only a restart brings another token.
    pub async fn watch(&self) -> CloudError {
        loop {
            let wait = if self.obstacle().is_some() {
                AGAIN
            } else {
                PERIOD
            };
            tokio::time::sleep(wait).await;
            if let Some(refusal) = self.look().await
                && !self.client().token_may_change()
            {
                return refusal;
            }
        }
    }

    fn client(&self) -> &Client {
        (*self.cloud).as_ref()
    }

    /// Why this replica is not ready.
    pub fn obstacle(&self) -> Option<String> {
        let refusal = self.refusal.lock();
        refusal.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn look(&self) -> Option<CloudError> {
        let answer = self.client().call(&self.question).await;
        let provider = self.client().provider();
        let invalid = format!("the {provider} api token is invalid");
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(()) if refusal.take().is_some() => {
                tracing::info!(provider, "the token is taken again");
            }
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Unauthorized => {
                if refusal.is_none() {
                    tracing::error!(%error, "{invalid}");
                }
                *refusal = Some(format!("{invalid}: {error}"));
                return Some(error);
            }
            Err(error) => tracing::warn!(%error, "the {provider} api token cannot be checked"),
        }
        None
    }
}
