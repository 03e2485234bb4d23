//! Blocks as the cloud lists them.

use tokio::time::Instant;

use super::{Held, Observe};
use crate::cloud_api::ErrorKind;
use crate::cloud_provider::load_balancers::ReconcileError;

/// What the controller before us has given out is known from the API server itself: a cache may lag.
///
/// # Errors
/// [`ReconcileError`] if the API server does not answer.
pub async fn seed<P: Observe>(blocks: &mut P) -> Result<(), ReconcileError> {
    let state = blocks.state_mut();
    if !state.given.is_seeded() {
        state.given.seed(&state.cluster.services().await?);
    }
    Ok(())
}

/// The blocks, by a listing begun then or later.
///
/// # Errors
/// [`ReconcileError`] if they cannot be listed.
pub async fn list<P: Observe>(blocks: &mut P, since: Instant) -> Result<(), ReconcileError> {
    if blocks.state().as_of.is_some_and(|begun| begun >= since) {
        return Ok(());
    }
    let cluster = blocks.state().cluster.id().await?;
    let begun = Instant::now();
    let mut listed = blocks.fetch(&cluster).await?;
    add_unlisted(blocks, &mut listed.read, &cluster).await?;
    let state = blocks.state_mut();
    state.touched.listed(begun);
    let cidrs: Vec<_> = listed.read.iter().map(Held::cidr).collect();
    state
        .given
        .listed(|address| cidrs.iter().any(|cidr| cidr.contains(&address)));
    state.blocks = listed.read;
    state.unread.listed(listed.unread);
    state.as_of = Some(begun);
    blocks.listed(begun);
    let state = blocks.state_mut();
    let sent = state.purchases.sent.as_ref();
    if sent.is_some_and(|sent| state.shows(sent)) {
        state.purchases.shown().await;
    }
    Ok(())
}

/// Adds what this process has bought and a listing does not show yet, as the cloud describes it when it is asked
/// for it alone. What it does not know either is believed in until it must have shown; so is what it describes in
/// a way that cannot be read.
async fn add_unlisted<P: Observe>(
    blocks: &mut P,
    listed: &mut Vec<P::Block>,
    cluster: &str,
) -> Result<(), ReconcileError> {
    let mut unlisted = blocks.state().unlisted.clone();
    unlisted.retain(|(block, _)| listed.iter().all(|one| one.id() != block.id()));
    let mut left = Vec::new();
    for (block, bought) in unlisted {
        let there = match blocks.read(block.id(), cluster).await {
            Err(error) if matches!(error.kind, ErrorKind::Forbidden | ErrorKind::NotFound) => {
                let settle_time = blocks.state().purchases.settle_time();
                (bought.elapsed() < settle_time).then(|| block.clone())
            }
            Err(error) if error.kind == ErrorKind::Malformed => Some(block.clone()),
            answer => answer?,
        };
        if let Some(there) = there {
            listed.push(there);
            left.push((block, bought));
        }
    }
    blocks.state_mut().unlisted = left;
    Ok(())
}

/// Lists all blocks of the account, unless that was done then or later: one that is missing may only have lost its
/// tags, and without a network nothing else shows it.
///
/// # Errors
/// [`ReconcileError`] if they cannot be listed.
pub(super) async fn look_elsewhere<P: Observe>(
    blocks: &mut P,
    since: Instant,
) -> Result<(), ReconcileError> {
    if blocks.state().elsewhere.is_known(since) {
        return Ok(());
    }
    let begun = Instant::now();
    let listed = blocks.fetch_all().await?;
    blocks.state_mut().elsewhere.listed(listed, begun);
    Ok(())
}
