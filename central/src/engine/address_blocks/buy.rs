//! A block is bought.

use async_trait::async_trait;

use super::listing::list;
use super::{AddressBlocks, Held, Observe, Taken, since};
use crate::cloud_api::{CloudError, ErrorKind};
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};
use crate::engine::purchases::Permission;

/// How a block is bought.
#[async_trait]
pub trait Buy: Observe {
    /// What is bought.
    type Order: Sync + ?Sized;

    /// Buys a block for this owner: one request, which is sent once. `None`: it does not bear this cluster's
    /// marks, as the cloud answers.
    ///
    /// # Errors
    /// [`CloudError`] unless it is bought.
    async fn order(
        &mut self,
        order: &Self::Order,
        owner: &<Self::Block as Held>::Owner,
        cluster: &str,
    ) -> Result<Option<Self::Block>, CloudError>;

    /// A block was bought: it is counted.
    fn bought(&mut self, block: Self::Block);
}

/// Buys, if the cloud still shows no such block once nobody else may buy. Nothing is bought before a listing has
/// shown what was bought last; that listing was begun under the claim of the next purchase then.
///
/// # Errors
/// [`ReconcileError`] if it must not be done, or the cloud does not do it.
pub async fn buy<B: Buy>(
    blocks: &mut B,
    order: &B::Order,
    owner: &<B::Block as Held>::Owner,
    purpose: &str,
    guard: &dyn WriteGuard,
) -> Result<Taken, ReconcileError> {
    if let Some(sent) = blocks.state_mut().purchases.sent.take() {
        if blocks.state().purchases.is_over(&sent) {
            return Ok(Taken::LookAgain);
        }
        let listed = list(blocks, since(B::POLL, sent.at)).await;
        if listed.is_err() || !blocks.state().shows(&sent) {
            blocks.state_mut().purchases.sent = Some(sent);
            listed?;
            let what = "the cloud does not show yet what was bought last".to_owned();
            return Ok(Taken::Later(B::POLL, what));
        }
        let purchases = &mut blocks.state_mut().purchases;
        return Ok(match purchases.hand_on(sent, purpose, guard).await? {
            true => Taken::LookAgain,
            false => another_buys(blocks),
        });
    }
    let ours = match blocks.state_mut().purchases.begin(purpose, guard).await? {
        Permission::Ours(ours) => ours,
        Permission::Claimed => {
            blocks.state_mut().as_of = None;
            return Ok(Taken::LookAgain);
        }
        Permission::Others => return Ok(another_buys(blocks)),
    };
    let cluster = blocks.state().cluster.id().await?;
    let state = blocks.state_mut();
    let there = state.blocks.iter().map(|block| block.id().to_owned());
    let there = there.collect();
    state.purchases.sends(ours, owner.clone(), there);
    match blocks.order(order, owner, &cluster).await {
        Ok(block) => {
            guard.written();
            // Whoever leads next must not buy before a listing shows it.
            match (block, &mut blocks.state_mut().purchases.sent) {
                (Some(block), Some(sent)) => {
                    sent.is_heard = true;
                    blocks.bought(block);
                }
                _ => blocks.state_mut().expires(),
            }
            Ok(Taken::Done)
        }
        Err(mut error) => {
            let state = blocks.state_mut();
            if error.may_have_been_done() {
                // It is looked for at once: whoever waits for it does not wait for long.
                state.expires();
                error.retry_after.get_or_insert(B::POLL);
                return Err(error.into());
            }
            state.purchases.refused(&error).await;
            if error.kind != ErrorKind::RateLimited {
                state.expires();
            }
            match error.kind {
                ErrorKind::Busy => Ok(Taken::Later(B::POLL, "the cloud is busy".to_owned())),
                _ => Err(error.into()),
            }
        }
    }
}

/// Another process buys: what is known of the blocks will soon be out of date.
fn another_buys<B: AddressBlocks>(blocks: &mut B) -> Taken {
    let state = blocks.state_mut();
    // Passes that wait share what is listed for one.
    state.fresh_since = state.recent(B::POLL);
    Taken::Later(B::POLL, "another purchase is under way".to_owned())
}
