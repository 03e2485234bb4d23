//! The Secret with which the node daemons sign their heartbeats.
//!
//! **Flow.** It is looked for when this process begins to lead, and every half a minute from then on.
//! Where it is missing, it is made, with one random key.
//!
//! **Guarantees.** A Secret that is there is never changed, whatever is in it, and its keys are not
//! read. No key is logged.
//!
//! **Assumptions.** Daemons that have a key go on with it while there is none, and for some minutes
//! beside a new one: so it does no harm to make a Secret again that somebody has deleted.

mod apply;
mod failure;
mod observe;
mod plan;

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use mooring_common::errors::with_causes;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::election::Leadership;
use crate::flags::SecretName;
use failure::Failure;

/// How often it is looked for.
const LOOK: Duration = Duration::from_secs(30);
/// How soon again after a failure: new daemons wait for it.
const RETRY: Duration = Duration::from_secs(5);

struct Controller {
    secrets: Api<Secret>,
    name: SecretName,
    leadership: Leadership,
}

/// Looks for the Secret until stopped, and makes it where it is missing.
pub async fn run(context: Context, name: SecretName, stop: CancellationToken) {
    let controller = Controller::new(context.client, name, context.leadership);
    stop.run_until_cancelled(controller.keep()).await;
}

impl Controller {
    fn new(client: Client, name: SecretName, leadership: Leadership) -> Self {
        Self {
            secrets: Api::namespaced(client, &name.namespace),
            name,
            leadership,
        }
    }

    async fn keep(&self) {
        let mut told = None;
        loop {
            let after = match self.pass().await {
                Ok(()) => {
                    told = None;
                    LOOK
                }
                Err(failure) => {
                    let error = with_causes(&failure);
                    if told.as_ref() != Some(&error) {
                        tracing::warn!(secret = %self.name, error, "daemons may lack a key");
                        told = Some(error);
                    }
                    RETRY
                }
            };
            sleep(after).await;
        }
    }

    async fn pass(&self) -> Result<(), Failure> {
        let observed = self.observe().await?;
        self.apply(plan::plan(&observed)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_secret_with_namespace() {
        let name: SecretName = "mooring-system/mooring-heartbeat".parse().unwrap();
        assert_eq!(name.namespace, "mooring-system");
        assert_eq!(name.to_string(), "mooring-system/mooring-heartbeat");
        for wrong in ["mooring-heartbeat", "/a", "a/", "a/b/c", ""] {
            assert_eq!(wrong.parse::<SecretName>(), Err(()), "{wrong}");
        }
    }
}
