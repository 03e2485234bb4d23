//! The right to buy: one block at a time in a cluster, whoever believes to lead.
//!
//! Whoever is about to buy writes so into the cluster, by compare-and-swap, and looks for blocks once
//! more before it buys. It takes the claim away when a listing shows what was bought, whether or not its
//! answer was heard, or when the cloud has refused. Where the cloud only wants to be asked less, it keeps
//! the claim, and renews it by one swap before it buys: nobody comes in between. A claim that stays, since
//! its process has died, counts until whatever was sent must have arrived and be shown:
//! `--creation-settle-time` after it was first seen.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::cluster::{Claim, Cluster, ClusterError};
use super::ownership::{Owned, Owner};

/// How soon after its claim a purchase is sent, or the claim is renewed before.
const FRESH: Duration = Duration::from_secs(5);
/// For how much longer than the cloud wants to be left alone a claim is kept.
const GRACE: Duration = Duration::from_secs(10);

/// The claims that this process has seen and made.
#[derive(Debug)]
pub(super) struct Purchases {
    identity: String,
    /// For how long a claim that stays keeps others from buying.
    settle_time: Duration,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// One that stood there, and since when that is known.
    claim: Option<(String, Instant)>,
    /// Claims that this process has written, or may have, and under which nothing is on its way.
    unused: BTreeSet<String>,
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
    /// Until when it is kept for a later pass, which is to renew it. `None`: it is for this pass.
    kept_until: Option<Instant>,
}

/// A purchase that was sent, until a listing shows what was bought.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) ours: Ours,
    pub(super) at: Instant,
    /// Whose the block is, by its tags.
    owner: Owner,
    /// The blocks that there were before, by id.
    before: BTreeSet<String>,
    /// Whether the cloud has said which block it is.
    pub(super) is_heard: bool,
}

impl Ours {
    /// Whether a purchase may still be sent.
    pub(super) fn is_fresh(&self) -> bool {
        self.kept_until.is_none() && self.made.elapsed() < FRESH
    }

    /// The cloud wants to be left alone for so long, and is asked again then.
    pub(super) fn keep(&mut self, wait: Duration) {
        self.kept_until = Some(Instant::now() + wait + GRACE);
    }

    /// Whether nobody is about to come back to it.
    pub(super) fn is_idle(&self) -> bool {
        self.kept_until.is_none_or(|until| Instant::now() >= until)
    }
}

impl Sent {
    /// One that is sent now, for whom the block is to be, by what is observed.
    pub(super) fn now(ours: Ours, owner: Owner, there: &[Owned]) -> Self {
        Self {
            ours,
            at: Instant::now(),
            owner,
            before: there.iter().map(|owned| owned.block.id.clone()).collect(),
            is_heard: false,
        }
    }

    /// Whether one of these blocks must be what was bought: nobody else may have bought one meanwhile.
    pub(super) fn is_among(&self, blocks: &[Owned]) -> bool {
        let is_new = |owned: &Owned| !self.before.contains(&owned.block.id);
        let mut blocks = blocks.iter();
        blocks.any(|owned| owned.owner == self.owner && is_new(owned))
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
        Ok(match self.write(cluster, &before, purpose).await? {
            Some(ours) => Claimed::Ours(ours),
            None => Claimed::Others("somebody who was quicker".to_owned()),
        })
    }

    /// Makes a claim count from now on, or hands it on to the next purchase. `None`: it is lost, since
    /// another has waited for long enough to take it over.
    ///
    /// # Errors
    /// [`ClusterError`] if that cannot be written.
    pub(super) async fn renew(
        &self,
        cluster: &dyn Cluster,
        ours: Ours,
        purpose: &str,
    ) -> Result<Option<Ours>, ClusterError> {
        let old = ours.claim;
        self.seen().unused.extend(old.text.clone());
        if let Some(ours) = self.write(cluster, &old, purpose).await? {
            return Ok(Some(ours));
        }
        // Somebody may have changed something else about the bearer.
        let now = cluster.claim().await?;
        if now.text != old.text {
            return Ok(None);
        }
        self.write(cluster, &now, purpose).await
    }

    /// The cloud has refused, or shows what was bought: the next may buy. If that cannot be written, the
    /// next of other processes waits a while.
    pub(super) async fn settle(&self, cluster: &dyn Cluster, ours: Ours) {
        self.seen().unused.extend(ours.claim.text.clone());
        match cluster.swap_claim(&ours.claim, None).await {
            Ok(Some(_)) => return self.forget(),
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

    /// A purchase is about to be sent under the last claim.
    pub(super) fn sends(&self) {
        self.seen().unused.clear();
    }

    /// Whether so much time has passed since a purchase was sent that it must have shown.
    pub(super) fn is_over(&self, sent: &Sent) -> bool {
        sent.ours.made.elapsed() >= self.settle_time
    }

    async fn write(
        &self,
        cluster: &dyn Cluster,
        before: &Claim,
        purpose: &str,
    ) -> Result<Option<Ours>, ClusterError> {
        let text = format!("{} {} {purpose}", self.identity, uuid::Uuid::new_v4());
        let made = Instant::now();
        {
            // Noted before it is written: this process may be told to stop at any time, and the answer
            // may get lost.
            let mut seen = self.seen();
            seen.claim = Some((text.clone(), made));
            seen.unused.insert(text.clone());
        }
        let written = cluster.swap_claim(before, Some(text)).await?;
        if written.is_none() {
            self.seen().claim = None;
        }
        Ok(written.map(|claim| Ours {
            claim,
            made,
            kept_until: None,
        }))
    }

    /// Whether nothing can be on its way any more under the claim that stands there.
    fn is_settled(&self, text: &str) -> bool {
        let mut seen = self.seen();
        if seen.unused.contains(text) {
            return true;
        }
        match &seen.claim {
            Some((known, since)) if known == text => since.elapsed() >= self.settle_time,
            _ => {
                seen.claim = Some((text.to_owned(), Instant::now()));
                false
            }
        }
    }

    fn forget(&self) {
        *self.seen() = Seen::default();
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
