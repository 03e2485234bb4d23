//! Blocks that are one too many: two that believed to lead have both bought, or a purchase of which
//! nobody heard has been made after all.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use mooring_common::names::reasons;
use tokio::time::Instant;

use super::allocate::{Observed, allocate};
use super::apply::Taken;
use super::ip_request::IpRequest;
use super::ownership::{Owned, Owner};
use super::plan::mark;
use super::state::{POLL, State};
use super::{Shared, observe};
use crate::cloud_provider::load_balancers::{CollectorContext, ReconcileError};

/// For how long one is watched before it counts as one too many.
const WATCHED: Duration = Duration::from_secs(60);
/// A shared block that nobody needs and that is older was in use before: it is an orphan, and those
/// are a person's affair.
const YOUNG: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);

/// Those that may be one too many, by what is remembered.
fn suspects(state: &State, now: Timestamp) -> Vec<String> {
    let blocks = state.blocks.as_ref().map_or(&[][..], |(blocks, _)| blocks);
    let mut of_service: BTreeMap<_, usize> = BTreeMap::new();
    for owned in blocks {
        if let Owner::Service(key) = &owned.owner {
            *of_service.entry(key).or_default() += 1;
        }
    }
    let is_suspect = |owned: &&Owned| match &owned.owner {
        Owner::Service(key) => of_service.get(key).is_some_and(|count| *count > 1),
        Owner::Pool(_) => {
            let mut had = state.had.values();
            is_young(owned, now) && !had.any(|address| owned.block.cidr.contains(address))
        }
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

impl Shared {
    /// Marks what has been one too many for a while. When to look again.
    ///
    /// # Errors
    /// [`ReconcileError`] if the API server or the cloud does not answer.
    pub(super) async fn look_for_surplus(
        &self,
        state: &mut State,
        context: &dyn CollectorContext,
    ) -> Result<Option<Duration>, ReconcileError> {
        self.seed(state).await?;
        let now = Timestamp::now();
        let suspects = suspects(state, now);
        state.surplus.retain(|id, _| suspects.contains(id));
        if suspects.is_empty() {
            return Ok(None);
        }
        let mut ripe = Vec::new();
        for id in suspects {
            let since = *state.surplus.entry(id.clone()).or_insert_with(Instant::now);
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
        let ip_requests: Vec<IpRequest> = wanting
            .map(|service| observe::ip_request(service, state))
            .collect();
        for id in ripe {
            let observed = self.observed(state, &ip_requests);
            let Some(owned) = observed.block(&id).cloned() else {
                continue;
            };
            let Some(why) = verdict(&observed, &owned, now) else {
                continue;
            };
            let step = mark(&owned.block);
            if self.take(state, &step, context).await? == Taken::Done {
                let note = format!(
                    "The IP block {id} ({}) is one too many, for {why}; it is given back. Two \
                     replicas may have bought at once, or the cloud has made a purchase late",
                    owned.block.cidr
                );
                self.tell(state, context, reasons::IP_BLOCK_SURPLUS, note)
                    .await;
            }
        }
        Ok(Some(POLL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::phoenixnap::ip_blocks::ownership;
    use crate::clouds::phoenixnap::ip_blocks::testing::{CLUSTER, block, key};
    use crate::clouds::phoenixnap::model::Block;

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
        let mut state = State::new();
        let blocks = vec![
            owned("used", "203.0.113.0/29", pool(), now),
            owned("young", "203.0.113.8/29", pool(), now),
            owned("old", "203.0.113.16/29", pool(), old),
            owned("one", "203.0.113.24/29", Owner::Service(key("web")), old),
            owned("two", "203.0.113.32/29", Owner::Service(key("web")), old),
            owned("only", "203.0.113.40/29", Owner::Service(key("b")), now),
        ];
        state.blocks = Some((blocks, Instant::now()));
        state
            .had
            .insert("a".to_owned(), "203.0.113.2".parse().unwrap());
        assert_eq!(suspects(&state, now), ["young", "one", "two"]);
    }
}
