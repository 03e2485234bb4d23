//! A block is bought.

use std::time::Duration;

use tokio::time::Instant;

use super::Shared;
use super::apply::Taken;
use super::cloud::Order;
use super::ownership::{self, Owned, Owner};
use super::purchase::{Claimed, Ours, Sent};
use super::state::{POLL, State};
use super::step::Step;
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};

impl Shared {
    /// Buys, if the cloud still shows no such block once nobody else may buy.
    pub(super) async fn buy(
        &self,
        state: &mut State,
        step: &Step,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        let Step::Buy {
            location,
            prefix,
            owner,
        } = step
        else {
            return Ok(Taken::LookAgain);
        };
        let purpose = step.to_string();
        if let Some(sent) = state.sent.take() {
            return self.after_last(state, sent, &purpose, guard).await;
        }
        let ours = match state.claim.take() {
            Some(ours) if ours.is_fresh() => ours,
            Some(kept) => match self.renew(kept, &purpose, guard).await? {
                Some(ours) => ours,
                None => return Ok(lost(state)),
            },
            None => return self.claim(state, &purpose, guard).await,
        };
        if let Err(stop) = guard.before_write() {
            self.purchases.settle(&*self.cluster, ours).await;
            return Err(stop.into());
        }
        let cluster = self.cluster.id().await?;
        let order = Order {
            location: location.clone(),
            prefix: *prefix,
            tags: ownership::of_new(&cluster, owner),
        };
        self.send(state, ours, owner, &order, guard).await
    }

    /// Nothing is bought before a listing has shown what was bought last. The claim goes on to the next
    /// purchase then, and that listing was begun under it.
    async fn after_last(
        &self,
        state: &mut State,
        sent: Sent,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        if self.purchases.is_over(&sent) {
            return Ok(Taken::LookAgain);
        }
        let now = Instant::now();
        let recent = now.checked_sub(POLL).unwrap_or(now).max(sent.at);
        let listed = self.list(state, recent).await;
        if listed.is_err() || !state.shows(&sent) {
            state.sent = Some(sent);
            listed?;
            let what = "the cloud does not show yet what was bought last".to_owned();
            return Ok(Taken::Later(POLL, what));
        }
        match self.renew(sent.ours, purpose, guard).await? {
            Some(ours) => state.claim = Some(ours),
            None => return Ok(lost(state)),
        }
        Ok(Taken::LookAgain)
    }

    async fn renew(
        &self,
        ours: Ours,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Option<Ours>, ReconcileError> {
        if let Err(stop) = before_creation(guard).await {
            self.purchases.settle(&*self.cluster, ours).await;
            return Err(stop);
        }
        let renewed = self.purchases.renew(&*self.cluster, ours, purpose).await;
        Ok(renewed?)
    }

    async fn claim(
        &self,
        state: &mut State,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        before_creation(guard).await?;
        match self.purchases.claim(&*self.cluster, purpose).await? {
            Claimed::Ours(ours) => {
                // What was bought before this claim shows in a listing that is begun now.
                state.claim = Some(ours);
                state.blocks = None;
                Ok(Taken::LookAgain)
            }
            Claimed::Others(who) => {
                tracing::info!(who, "another purchase is under way");
                Ok(lost(state))
            }
        }
    }

    async fn send(
        &self,
        state: &mut State,
        ours: Ours,
        owner: &Owner,
        order: &Order,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        let cluster = self.cluster.id().await?;
        let there = state.blocks.as_ref().map_or(&[][..], |(blocks, _)| blocks);
        // Noted before it is sent: this pass may be dropped at any time.
        state.sent = Some(Sent::now(ours.clone(), owner.clone(), there));
        self.purchases.sends();
        match self.cloud.buy(order).await {
            Ok(block) => {
                guard.written();
                tracing::info!(id = block.id, cidr = %block.cidr, "bought an IP block");
                // Whoever leads next must not buy before a listing shows it.
                match (Owned::of(block, &cluster), &mut state.sent) {
                    (Some(owned), Some(sent)) => {
                        sent.is_heard = true;
                        state.bought(owned);
                    }
                    _ => state.expires(),
                }
                Ok(Taken::Done)
            }
            Err(mut error) => {
                state.doubts_tags(&error);
                if error.may_have_been_done() {
                    // It is looked for at once: whoever waits for it does not wait for long.
                    state.expires();
                    error.retry_after.get_or_insert(POLL);
                    return Err(error.into());
                }
                state.sent = None;
                if error.kind == ErrorKind::RateLimited {
                    state.claim = Some(ours);
                    return Err(error.into());
                }
                state.expires();
                self.purchases.settle(&*self.cluster, ours).await;
                if error.kind == ErrorKind::Busy {
                    return Ok(Taken::Later(POLL, "the cloud is busy".to_owned()));
                }
                Err(error.into())
            }
        }
    }

    /// A claim under which nothing was bought goes; unless all that hinders the purchase is that the cloud
    /// wants to be asked less.
    pub(super) async fn settle_unused(&self, state: &mut State, error: Option<&ReconcileError>) {
        if let Some(wait) = error.and_then(held_back)
            && let Some(ours) = &mut state.claim
        {
            return ours.keep(wait);
        }
        if let Some(unused) = state.claim.take_if(|ours| ours.is_idle()) {
            self.purchases.settle(&*self.cluster, unused).await;
        }
    }

    /// This process ends: whoever leads next may buy at once.
    pub(super) async fn give_up_claim(&self) {
        if let Some(unused) = self.state().await.claim.take() {
            self.purchases.settle(&*self.cluster, unused).await;
        }
    }
}

/// Another process buys: what is known of the blocks will soon be out of date.
fn lost(state: &mut State) -> Taken {
    state.expires_unless_recent();
    Taken::Later(POLL, "another purchase is under way".to_owned())
}

async fn before_creation(guard: &dyn WriteGuard) -> Result<(), ReconcileError> {
    guard.before_write()?;
    guard.before_creation().await?;
    Ok(())
}

/// For how long the cloud wants to be left alone, if that is all that is wrong.
fn held_back(error: &ReconcileError) -> Option<Duration> {
    let is_limit = |error: &&CloudError| error.kind == ErrorKind::RateLimited;
    match error {
        ReconcileError::Cloud(error) => {
            let limited = Some(error).filter(is_limit)?;
            Some(limited.retry_after.unwrap_or(POLL))
        }
        _ => None,
    }
}
