//! `--enable-token-health-checker`: is the token valid?
//!
//! At the start a refusal ends the program. Later it ends it only if the token is in a variable: whoever
//! starts the container anew reads the Secret anew. A file may be given another token meanwhile, so until
//! then this replica is not ready, and everything else goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Linode, api};
use crate::cloud_api::{CloudError, ErrorKind};

/// How often it is asked.
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// How often while the token is refused.
const AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct TokenCheck {
    linode: Arc<Linode>,
    /// The last word on it, if that was a refusal.
    refusal: Mutex<Option<String>>,
}

impl TokenCheck {
    /// Asks for the first time.
    ///
    /// # Errors
    /// [`CloudError`] if the token is refused. Whatever else goes wrong says nothing about it.
    pub(super) async fn start(linode: Arc<Linode>) -> Result<Arc<Self>, CloudError> {
        let check = Self {
            linode,
            refusal: Mutex::default(),
        };
        match check.look().await {
            Some(refusal) => Err(refusal),
            None => Ok(Arc::new(check)),
        }
    }

    /// Asks again and again. Ends with a refusal after which only a restart brings another token.
    pub(super) async fn watch(&self) -> CloudError {
        loop {
            let wait = if self.obstacle().is_some() {
                AGAIN
            } else {
                PERIOD
            };
            tokio::time::sleep(wait).await;
            if let Some(refusal) = self.look().await
                && !self.linode.client.token_may_change()
            {
                return refusal;
            }
        }
    }

    /// Why this replica is not ready.
    pub(super) fn obstacle(&self) -> Option<String> {
        let refusal = self.refusal.lock();
        refusal.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look(&self) -> Option<CloudError> {
        let answer = self.linode.client.call(&api::profile()).await;
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(()) if refusal.take().is_some() => tracing::info!("Linode takes the token again"),
            Ok(()) => {}
            Err(error) if error.kind == ErrorKind::Unauthorized => {
                if refusal.is_none() {
                    tracing::error!(%error, "the linode api token is invalid");
                }
                *refusal = Some(format!("the linode api token is invalid: {error}"));
                return Some(error);
            }
            Err(error) => tracing::warn!(%error, "the linode api token cannot be checked"),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{linode, linode_with};
    use super::*;
    use crate::cloud_api::testing::{Cloud, Reply, connection, credentials};
    use crate::clouds::linode::Flags;

    fn refused() -> Reply {
        Reply::json(r#"{"errors": [{"reason": "Invalid Token"}]}"#).status(401)
    }

    #[tokio::test]
    async fn refusal_at_start_is_an_error_and_nothing_else_is() {
        let cloud = Cloud::start(|_, _| refused()).await;
        let error = TokenCheck::start(linode(&cloud.base, Flags::default())).await;
        assert_eq!(error.unwrap_err().kind, ErrorKind::Unauthorized);
        assert_eq!(cloud.lines(), ["GET /v4/profile"]);
        let cloud = Cloud::start(|_, _| Reply::html().status(502)).await;
        let check = TokenCheck::start(linode(&cloud.base, Flags::default())).await;
        assert_eq!(check.unwrap().obstacle(), None);
    }

    /// Only the clock of the waits is stopped: it goes on by itself when all wait.
    #[tokio::test]
    async fn refused_variable_ends_the_program() {
        let cloud = Cloud::start(|_, before| match before {
            0 => Reply::json("{}"),
            _ => refused(),
        })
        .await;
        let check = TokenCheck::start(linode(&cloud.base, Flags::default())).await;
        let check = check.unwrap();
        let waits = tokio::spawn(async move { check.watch().await });
        tokio::task::yield_now().await;
        tokio::time::pause();
        tokio::time::advance(PERIOD).await;
        tokio::time::resume();
        let error = waits.await.unwrap();
        assert_eq!(error.kind, ErrorKind::Unauthorized);
        assert_eq!(cloud.lines().len(), 2);
    }

    #[tokio::test]
    async fn refused_file_may_get_another_token() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old").unwrap();
        let cloud = Cloud::start(|seen, before| match seen.header("authorization") {
            Some("Bearer new") => Reply::json("{}"),
            _ if before == 0 => Reply::json("{}"),
            _ => refused(),
        })
        .await;
        let mut connection = connection(&cloud.base.join("v4/").unwrap());
        connection.credentials = Arc::new(credentials(Some(file.path())));
        let linode = linode_with(connection, Flags::default());
        let check = TokenCheck::start(linode.clone()).await.unwrap();
        assert!(linode.client.token_may_change());
        assert!(check.look().await.is_some());
        let obstacle = check.obstacle().unwrap();
        for part in [
            "the linode api token is invalid",
            "Invalid Token",
            "put a valid token into",
        ] {
            assert!(obstacle.contains(part), "{part}: {obstacle}");
        }
        std::fs::write(file.path(), "new").unwrap();
        assert!(check.look().await.is_none());
        assert_eq!(check.obstacle(), None);
    }
}
