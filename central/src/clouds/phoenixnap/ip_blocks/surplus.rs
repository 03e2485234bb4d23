//! Blocks that are one too many: two that believed to lead have both bought, or a purchase of which
//! nobody heard has been made after all.

use std::time::Duration;

use jiff::Timestamp;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::allocate::{Observed, allocate};
use super::apply::Taken;
use super::ownership::{Owned, Owner};
use super::plan::mark;
use super::state::{Blocks, POLL};
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};
use crate::engine::ip_allocation::IpRequest;

/// For how long one is watched before it counts as one too many.
const WATCHED: Duration = Duration::from_secs(60);
/// A shared block that nobody needs and that is older was in use before: it is an orphan, and those
/// are a person's affair.
const YOUNG: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

/// Those that may be one too many, by what is remembered. `was_used`: whether some Service had an address
/// of a block.
fn suspects(blocks: &[Owned], now: Timestamp, was_used: impl Fn(&Owned) -> bool) -> Vec<String> {
    let is_suspect = |owned: &&Owned| match &owned.owner {
        Owner::Service(_) => {
            let same = blocks.iter().filter(|other| other.owner == owned.owner);
            same.count() > 1
        }
        Owner::Pool(_) => is_young(owned, now) && !was_used(owned),
        Owner::Marked | Owner::Unclear => false,
    };
    let suspects = blocks.iter().filter(is_suspect);
    suspects.map(|owned| owned.block.id.clone()).collect()
}

fn is_young(owned: &Owned, now: Timestamp) -> bool {
    let created = owned.block.created;
    created.is_some_and(|created| now.duration_since(created) < YOUNG)
}

/// Why a block is surplus by what is observed; `None`: it is not.
fn verdict(observed: &Observed<'_>, owned: &Owned, now: Timestamp) -> Option<String> {
    let allocation = allocate(observed);
    let id = &owned.block.id;
    if let Some(key) = allocation.doubles.get(id) {
        return Some(format!("the Service {key} has another one"));
    }
    let is_unused = allocation.unused.contains(id) && is_young(owned, now);
    let is_idle = is_unused && !observed.ip_requests.is_empty();
    is_idle.then(|| "all Services have their addresses in others".to_owned())
}

impl Blocks {
    /// Marks what has been one too many for a while. When to look again.
    ///
    /// # Errors
    /// [`ReconcileError`] if the API server or the cloud does not answer.
    pub(super) async fn look_for_surplus(
        &mut self,
        context: &dyn CollectorContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        self.seed().await?;
        let now = Timestamp::now();
        let suspects = suspects(&self.blocks, now, |owned| {
            self.given.was_used(owned.block.cidr)
        });
        self.surplus.retain(|id, _| suspects.contains(id));
        if suspects.is_empty() {
            return Ok(None);
        }
        let mut ripe = Vec::new();
        for id in suspects {
            let since = *self.surplus.entry(id.clone()).or_insert_with(Instant::now);
            if since.elapsed() >= WATCHED {
                ripe.push(id);
            }
        }
        if ripe.is_empty() {
            return Ok(Some(WATCHED));
        }
        let services = self.cluster.services().await?;
        let wanting = services
            .iter()
            .filter(|s| s.is_load_balancer && !s.deleting);
        let ip_requests: Vec<IpRequest> =
            wanting.map(|service| self.given.request(service)).collect();
        for id in ripe {
            let Some(owned) = self.block(&id).cloned() else {
                continue;
            };
            let Some(why) = verdict(&self.observed(&ip_requests), &owned, now) else {
                continue;
            };
            if self.take(&mark(&owned.block), context).await? == Taken::Done {
                let note = format!(
                    "The IP block {id} ({}) is one too many, for {why}; it is given back. Two \
                     replicas may have bought at once, or the cloud has made a purchase late",
                    owned.block.cidr
                );
                self.reports
                    .warn(context, reasons::IP_BLOCK_SURPLUS, note)
                    .await;
            }
        }
        Ok(Some(POLL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::phoenixnap::api::ip_blocks::Block;
    use crate::clouds::phoenixnap::ip_blocks::ownership;
    use crate::clouds::phoenixnap::ip_blocks::testing::{CLUSTER, block, key};

    fn owned(id: &str, cidr: &str, owner: Owner, created: Timestamp) -> Owned {
        let block = Block {
            tags: ownership::of_new(CLUSTER, &owner),
            created: Some(created),
            ..block(id, cidr)
        };
        Owned { block, owner }
    }

    #[test]
    fn detects_surplus_blocks() {
        let now = Timestamp::now();
        let old = now - jiff::SignedDuration::from_hours(2);
        let pool = || Owner::Pool("net".to_owned());
        let blocks = vec![
            owned("used", "203.0.113.0/29", pool(), now),
            owned("young", "203.0.113.8/29", pool(), now),
            owned("old", "203.0.113.16/29", pool(), old),
            owned("one", "203.0.113.24/29", Owner::Service(key("web")), old),
            owned("two", "203.0.113.32/29", Owner::Service(key("web")), old),
            owned("only", "203.0.113.40/29", Owner::Service(key("b")), now),
        ];
        let was_used = |owned: &Owned| owned.block.id == "used";
        assert_eq!(suspects(&blocks, now, was_used), ["young", "one", "two"]);
    }
}
