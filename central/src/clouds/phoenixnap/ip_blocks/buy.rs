//! A block is bought.

use super::super::api::blocks::Order;
use super::POLL;
use super::apply::Taken;
use super::ownership::{self, Owned, Owner};
use super::state::{Blocks, since};
use crate::cloud_api::ErrorKind;
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};
use crate::engine::purchases::Permission;

impl Blocks {
    /// Buys, if the cloud still shows no such block once nobody else may buy. Nothing is bought before a
    /// listing has shown what was bought last; that listing was begun under the claim of the next purchase
    /// then.
    pub(super) async fn buy(
        &mut self,
        location: &str,
        prefix: u8,
        owner: &Owner,
        purpose: &str,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError> {
        if let Some(sent) = self.purchases.sent.take() {
            if self.purchases.is_over(&sent) {
                return Ok(Taken::LookAgain);
            }
            let listed = self.list(since(POLL, sent.at)).await;
            if listed.is_err() || !self.shows(&sent) {
                self.purchases.sent = Some(sent);
                listed?;
                let what = "the cloud does not show yet what was bought last".to_owned();
                return Ok(Taken::Later(POLL, what));
            }
            return Ok(match self.purchases.hand_on(sent, purpose, guard).await? {
                true => Taken::LookAgain,
                false => self.another_buys(),
            });
        }
        let ours = match self.purchases.begin(purpose, guard).await? {
            Permission::Ours(ours) => ours,
            Permission::Claimed => {
                self.as_of = None;
                return Ok(Taken::LookAgain);
            }
            Permission::Others => return Ok(self.another_buys()),
        };
        let cluster = self.cluster.id().await?;
        let order = Order {
            location: location.to_owned(),
            prefix,
            tags: ownership::of_new(&cluster, owner),
        };
        let there = self.blocks.iter().map(|owned| owned.block.id.clone());
        self.purchases.sends(ours, owner.clone(), there.collect());
        match self.cloud.buy(&order).await {
            Ok(block) => {
                guard.written();
                tracing::info!(id = block.id, cidr = %block.cidr, "bought an IP block");
                // Whoever leads next must not buy before a listing shows it.
                match (Owned::of(block, &cluster), &mut self.purchases.sent) {
                    (Some(owned), Some(sent)) => {
                        sent.is_heard = true;
                        self.bought(owned);
                    }
                    _ => self.expires(),
                }
                Ok(Taken::Done)
            }
            Err(mut error) => {
                self.doubts_tags(&error);
                if error.may_have_been_done() {
                    // It is looked for at once: whoever waits for it does not wait for long.
                    self.expires();
                    error.retry_after.get_or_insert(POLL);
                    return Err(error.into());
                }
                self.purchases.refused(&error).await;
                if error.kind != ErrorKind::RateLimited {
                    self.expires();
                }
                match error.kind {
                    ErrorKind::Busy => Ok(Taken::Later(POLL, "the cloud is busy".to_owned())),
                    _ => Err(error.into()),
                }
            }
        }
    }

    /// Another process buys: what is known of the blocks will soon be out of date.
    fn another_buys(&mut self) -> Taken {
        // Passes that wait share what is listed for one.
        self.fresh_since = self.recent();
        Taken::Later(POLL, "another purchase is under way".to_owned())
    }
}
