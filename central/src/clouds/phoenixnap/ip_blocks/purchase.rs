//! The right to buy: one block at a time in a cluster, whoever believes to lead.
//!
//! Whoever is about to buy writes so into the cluster, by compare-and-swap, and looks for blocks once
//! more before it buys. It takes the claim away when the cloud has shown in a listing what was bought, or
//! has refused. A claim that stays, since its process has died or had no answer, counts until whatever was
//! sent must have arrived and be shown: `--creation-settle-time` after it was first seen.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::cluster::{Claim, Cluster, ClusterError};

/// How soon after its claim a purchase is sent, or not at all.
const FRESH: Duration = Duration::from_secs(5);

/// The claims that this process has seen and made.
#[derive(Debug)]
pub(super) struct Purchases {
    identity: String,
    /// For how long a claim that stays keeps others from buying.
    settle_time: Duration,
    /// One that stood there, and since when that is known.
    seen: Mutex<Option<(String, Instant)>>,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub(super) enum Claimed {
    /// This process may buy.
    Ours(Ours),
    /// Another may, or did and has not said how it went.
    Others(String),
}

/// The right to buy.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    claim: Claim,
    made: Instant,
}

impl Ours {
    /// Whether a purchase may still be sent.
    pub(super) fn is_fresh(&self) -> bool {
        self.made.elapsed() < FRESH
    }
}

impl Purchases {
    /// `identity` is this process' name.
    pub(super) fn new(identity: String, settle_time: Duration) -> Self {
        Self {
            identity,
            settle_time,
            seen: Mutex::default(),
        }
    }

    /// Claims the right to buy.
    ///
    /// # Errors
    /// [`ClusterError`] if it cannot be asked for.
    pub(super) async fn claim(
        &self,
        cluster: &dyn Cluster,
        purpose: &str,
    ) -> Result<Claimed, ClusterError> {
        let before = cluster.claim().await?;
        if let Some(text) = before.text.as_ref().filter(|text| !self.is_settled(text)) {
            return Ok(Claimed::Others(text.clone()));
        }
        let text = format!("{} {} {purpose}", self.identity, uuid::Uuid::new_v4());
        let made = Instant::now();
        // Noted before it is written: this process may be told to stop at any time.
        self.note(Some((text.clone(), made)));
        match cluster.swap_claim(&before, Some(text)).await? {
            Some(claim) => Ok(Claimed::Ours(Ours { claim, made })),
            None => {
                self.note(None);
                Ok(Claimed::Others("somebody who was quicker".to_owned()))
            }
        }
    }

    /// The cloud has refused, or shows what was bought: the next may buy. If that cannot be written, the next waits a while.
    pub(super) async fn settle(&self, cluster: &dyn Cluster, ours: Ours) {
        match cluster.swap_claim(&ours.claim, None).await {
            Ok(Some(_)) => return self.note(None),
            Ok(None) => {}
            Err(error) => return tracing::warn!(%error, "a claim to buy stays for a while"),
        }
        // Somebody has changed something else about the bearer.
        let cleared = async {
            let now = cluster.claim().await?;
            if now.text == ours.claim.text {
                cluster.swap_claim(&now, None).await?;
            }
            Ok::<(), ClusterError>(())
        };
        if let Err(error) = cleared.await {
            tracing::warn!(%error, "a claim to buy stays for a while");
        }
    }

    fn is_settled(&self, text: &str) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seen {
            Some((known, since)) if known == text => since.elapsed() >= self.settle_time,
            _ => {
                *seen = Some((text.to_owned(), Instant::now()));
                false
            }
        }
    }

    fn note(&self, claim: Option<(String, Instant)>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = claim;
    }
}
