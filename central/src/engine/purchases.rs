//! The right to buy: one purchase at a time in a cluster, whoever believes to lead.
//!
//! Whoever is about to buy writes so into the cluster, by compare-and-swap, and looks once more for what
//! there is before it buys. It takes the claim away when a listing shows what was bought, whether or not
//! its answer was heard, or when the cloud has refused. Where the cloud only wants to be asked less, it
//! keeps the claim, and renews it by one swap before it buys: nobody comes in between. A claim that stays,
//! since its process has died, counts until whatever was sent must have arrived and be shown:
//! `--creation-settle-time` after it was first seen.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cluster::{Claim, Cluster, ClusterError};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};

/// How soon after its claim a purchase is sent, or the claim is renewed before.
const FRESH: Duration = Duration::from_secs(5);
/// For how much longer than the cloud wants to be left alone a claim is kept.
const GRACE: Duration = Duration::from_secs(10);
/// When to ask again a cloud that does not say so.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// The purchases of a cluster. `K`: for whom something is bought, as its marks say.
pub struct Purchases<K> {
    identity: String,
    settle_time: Duration,
    cluster: Arc<dyn Cluster>,
    /// The right to buy, while this process has it and has not used it.
    claim: Option<Ours>,
    /// The purchase that was sent last, until what was bought is listed.
    pub sent: Option<Sent<K>>,
    /// A claim that stood in the cluster, and since when that is known.
    seen: Option<(String, Instant)>,
    /// Claims that this process has written, or may have, and under which nothing is on its way.
    unused: BTreeSet<String>,
}

/// Who may buy.
#[derive(Debug)]
pub enum Permission {
    /// This process, now.
    Ours(Ours),
    /// This process, once a listing that is begun now shows that it must: what was bought before the claim
    /// is in it.
    Claimed,
    /// Another, or it did and has not said how it went.
    Others,
}

/// The right to buy.
#[derive(Clone, Debug)]
pub struct Ours {
    claim: Claim,
    made: Instant,
    /// Until when it is kept for a later pass, which is to renew it. `None`: it is for this pass.
    kept_until: Option<Instant>,
}

/// A purchase that was sent, until a listing shows what was bought.
#[derive(Clone, Debug)]
pub struct Sent<K> {
    ours: Ours,
    /// When.
    pub at: Instant,
    /// For whom.
    buyer: K,
    /// What there was before, by id.
    before: BTreeSet<String>,
    /// Whether the cloud has said which one it is.
    pub is_heard: bool,
}

impl Ours {
    /// Whether a purchase may still be sent.
    fn is_fresh(&self) -> bool {
        self.kept_until.is_none() && self.made.elapsed() < FRESH
    }

    /// Whether nobody is about to come back to it.
    fn is_idle(&self) -> bool {
        self.kept_until.is_none_or(|until| Instant::now() >= until)
    }
}

impl<K: PartialEq> Sent<K> {
    /// Whether something of this id and for this buyer must be what was bought: nobody else may have bought
    /// anything meanwhile.
    pub fn is(&self, id: &str, buyer: &K) -> bool {
        *buyer == self.buyer && !self.before.contains(id)
    }
}

impl<K> Purchases<K> {
    /// `identity` is this process' name; `settle_time`: for how long a claim that stays keeps others from
    /// buying.
    pub fn new(cluster: Arc<dyn Cluster>, identity: String, settle_time: Duration) -> Self {
        Self {
            identity,
            settle_time,
            cluster,
            claim: None,
            sent: None,
            seen: None,
            unused: BTreeSet::new(),
        }
    }

    /// For how long what was bought may not show.
    #[must_use]
    pub const fn settle_time(&self) -> Duration {
        self.settle_time
    }

    /// Whether this process has the right to buy.
    #[must_use]
    pub const fn is_claimed(&self) -> bool {
        self.claim.is_some()
    }

    /// Begins a purchase, which is to follow at once.
    ///
    /// # Errors
    /// [`ReconcileError`] if it must not be made, or the right cannot be asked for.
    pub async fn begin(
        &mut self,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Permission, ReconcileError> {
        let ours = match self.claim.take() {
            Some(ours) if ours.is_fresh() => ours,
            Some(kept) => match self.renew(kept, purpose, guard).await? {
                Some(ours) => ours,
                None => return Ok(Permission::Others),
            },
            None => {
                before_creation(guard).await?;
                self.claim = self.claim(purpose).await?;
                return Ok(match self.claim {
                    Some(_) => Permission::Claimed,
                    None => Permission::Others,
                });
            }
        };
        if let Err(stop) = guard.before_write() {
            self.settle(ours).await;
            return Err(stop.into());
        }
        Ok(Permission::Ours(ours))
    }

    /// A listing shows what this purchase has bought: hands its claim on to the next. Whether it was still
    /// this process'.
    ///
    /// # Errors
    /// [`ReconcileError`] if the next must not be made, or the right cannot be asked for.
    pub async fn hand_on(
        &mut self,
        sent: Sent<K>,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<bool, ReconcileError> {
        self.claim = self.renew(sent.ours, purpose, guard).await?;
        Ok(self.claim.is_some())
    }

    /// Whether so much time has passed since a purchase was sent that it must have shown.
    #[must_use]
    pub fn is_over(&self, sent: &Sent<K>) -> bool {
        sent.ours.made.elapsed() >= self.settle_time
    }

    /// A purchase is about to be sent. Noted before, since a pass may be dropped at any time. `before`: the
    /// ids of what there is.
    pub fn sends(&mut self, ours: Ours, buyer: K, before: BTreeSet<String>) {
        self.unused.clear();
        self.sent = Some(Sent {
            ours,
            at: Instant::now(),
            buyer,
            before,
            is_heard: false,
        });
    }

    /// The cloud has not made the purchase that was sent. Where it only wants to be asked less, the right
    /// stays.
    pub async fn refused(&mut self, error: &CloudError) {
        let Some(sent) = self.sent.take() else { return };
        if error.kind == ErrorKind::RateLimited {
            self.claim = Some(sent.ours);
        } else {
            self.settle(sent.ours).await;
        }
    }

    /// A listing shows what was bought: the next may buy.
    pub async fn shown(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.settle(sent.ours).await;
        }
    }

    /// A claim under which nothing was bought goes at the end of a pass; unless all that hinders the
    /// purchase is that the cloud wants to be asked less.
    pub async fn settle_unused(&mut self, error: Option<&ReconcileError>) {
        if let Some(wait) = error.and_then(held_back)
            && let Some(ours) = &mut self.claim
        {
            ours.kept_until = Some(Instant::now() + wait + GRACE);
            return;
        }
        if let Some(unused) = self.claim.take_if(|ours| ours.is_idle()) {
            self.settle(unused).await;
        }
    }

    /// This process ends: whoever leads next may buy at once.
    pub async fn give_up(&mut self) {
        if let Some(unused) = self.claim.take() {
            self.settle(unused).await;
        }
    }

    /// Claims the right to buy. `None`: another has it.
    async fn claim(&mut self, purpose: &str) -> Result<Option<Ours>, ClusterError> {
        let before = self.cluster.claim().await?;
        if let Some(who) = before.text.as_ref().filter(|text| !self.is_settled(text)) {
            tracing::info!(who, "another purchase is under way");
            return Ok(None);
        }
        self.write(&before, purpose).await
    }

    /// Makes a claim count from now on. `None`: it is lost, since another has waited for long enough to
    /// take it over.
    async fn renew(
        &mut self,
        ours: Ours,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Option<Ours>, ReconcileError> {
        if let Err(stop) = before_creation(guard).await {
            self.settle(ours).await;
            return Err(stop);
        }
        let old = ours.claim;
        self.unused.extend(old.text.clone());
        if let Some(ours) = self.write(&old, purpose).await? {
            return Ok(Some(ours));
        }
        // Somebody may have changed something else about the Service with the claim.
        let now = self.cluster.claim().await?;
        if now.text != old.text {
            return Ok(None);
        }
        Ok(self.write(&now, purpose).await?)
    }

    /// The next may buy. If that cannot be written, the next of other processes waits a while.
    async fn settle(&mut self, ours: Ours) {
        self.unused.extend(ours.claim.text.clone());
        let cleared = async {
            if self.cluster.swap_claim(&ours.claim, None).await?.is_some() {
                return Ok(true);
            }
            // Somebody has changed something else about the Service with the claim.
            let now = self.cluster.claim().await?;
            if now.text == ours.claim.text {
                self.cluster.swap_claim(&now, None).await?;
            }
            Ok::<_, ClusterError>(false)
        };
        match cleared.await {
            Ok(true) => {
                self.seen = None;
                self.unused.clear();
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "a claim to buy stays for a while"),
        }
    }

    async fn write(&mut self, before: &Claim, purpose: &str) -> Result<Option<Ours>, ClusterError> {
        let text = format!("{} {} {purpose}", self.identity, uuid::Uuid::new_v4());
        let made = Instant::now();
        // Noted before it is written: this process may be told to stop at any time, and the answer may
        // get lost.
        self.seen = Some((text.clone(), made));
        self.unused.insert(text.clone());
        let written = self.cluster.swap_claim(before, Some(text)).await?;
        if written.is_none() {
            self.seen = None;
        }
        Ok(written.map(|claim| Ours {
            claim,
            made,
            kept_until: None,
        }))
    }

    /// Whether nothing can be on its way any more under the claim that stands there.
    fn is_settled(&mut self, text: &str) -> bool {
        if self.unused.contains(text) {
            return true;
        }
        match &self.seen {
            Some((known, since)) if known == text => since.elapsed() >= self.settle_time,
            _ => {
                self.seen = Some((text.to_owned(), Instant::now()));
                false
            }
        }
    }
}

async fn before_creation(guard: &dyn WriteGuard) -> Result<(), ReconcileError> {
    guard.before_write()?;
    guard.before_creation().await?;
    Ok(())
}

/// For how long the cloud wants to be left alone, if that is all that is wrong.
fn held_back(error: &ReconcileError) -> Option<Duration> {
    match error {
        ReconcileError::Cloud(error) if error.kind == ErrorKind::RateLimited => {
            Some(error.retry_after.unwrap_or(ASK_AGAIN))
        }
        _ => None,
    }
}
