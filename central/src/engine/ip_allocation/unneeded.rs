//! Blocks that nobody needs: two that believed to lead have both bought, a purchase of which nobody heard
//! has been made after all, or the Services are no more.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{AddressBlock, Allocation, BlockHolder, Given};
use crate::cloud_provider::load_balancers::MadeFor;
use crate::views::service_view::ServiceView;

/// For how long a block is watched before it counts as one too many.
pub const WATCHED: Duration = Duration::from_secs(60);
/// A shared block that nobody needs and that is older was in use before: it is an orphan, and those
/// are a person's affair.
const YOUNG: SignedDuration = SignedDuration::from_hours(1);

/// Blocks that may be one too many, by id, and since when.
#[derive(Debug, Default)]
pub struct Suspects(BTreeMap<String, Instant>);

impl Suspects {
    /// Those of these blocks that have been suspected for long enough. `None`: none is suspected.
    pub fn watch(
        &mut self,
        blocks: &[AddressBlock<'_>],
        given: &Given,
        now: Timestamp,
    ) -> Option<Vec<String>> {
        let suspects = suspects(blocks, given, now);
        self.0.retain(|id, _| suspects.contains(&id.as_str()));
        if suspects.is_empty() {
            return None;
        }
        let mut ripe = Vec::new();
        for id in suspects {
            let since = self.0.entry(id.to_owned()).or_insert_with(Instant::now);
            if since.elapsed() >= WATCHED {
                ripe.push(id.to_owned());
            }
        }
        Some(ripe)
    }
}

/// Those that may be one too many, by what is remembered.
fn suspects<'a>(blocks: &[AddressBlock<'a>], given: &Given, now: Timestamp) -> Vec<&'a str> {
    let is_suspect = |block: &&AddressBlock<'_>| match block.holder {
        BlockHolder::Service(_) => {
            let same = blocks.iter().filter(|other| other.holder == block.holder);
            same.count() > 1
        }
        BlockHolder::Shared => is_young(block, now) && !given.was_used(block.cidr),
        BlockHolder::Released | BlockHolder::Unclear => false,
    };
    let suspects = blocks.iter().filter(is_suspect);
    suspects.map(|block| block.id).collect()
}

/// Why a block is surplus, now that it is known who has what; `None`: it is not.
#[must_use]
pub fn surplus(
    block: &AddressBlock<'_>,
    allocation: &Allocation,
    now: Timestamp,
) -> Option<String> {
    if let Some(key) = allocation.doubles.get(block.id) {
        return Some(format!("the Service {key} has another one"));
    }
    let is_unused = allocation.unused.contains(block.id) && is_young(block, now);
    let is_idle = is_unused && !allocation.shares.is_empty();
    is_idle.then(|| "all Services have their addresses in others".to_owned())
}

/// For which Services a block was made of which none lives or wants an address. `None`: it is needed, or
/// nobody's anyway.
#[must_use]
pub fn orphaned(
    block: &AddressBlock<'_>,
    given: &Given,
    living: &[ServiceView],
) -> Option<MadeFor> {
    let mut holding = living
        .iter()
        .filter(|service| service.is_load_balancer || service.has_finalizer());
    let (made_for, is_used) = match block.holder {
        BlockHolder::Service(key) => (
            MadeFor::Named(key.clone()),
            holding.any(|service| service.key == *key),
        ),
        BlockHolder::Shared => {
            let waits = |service: &ServiceView| {
                let wants = service.is_load_balancer && !service.deleting;
                wants && service.has_finalizer() && service.ingress.is_empty()
            };
            let is_used = holding.any(|service| given.request(service).has_of(block.cidr));
            (MadeFor::Several, is_used || living.iter().any(waits))
        }
        BlockHolder::Released | BlockHolder::Unclear => return None,
    };
    (!is_used).then_some(made_for)
}

fn is_young(block: &AddressBlock<'_>, now: Timestamp) -> bool {
    let created = block.created;
    created.is_some_and(|created| now.duration_since(created) < YOUNG)
}

#[cfg(test)]
mod tests {
    use mooring_common::k8s::ObjectKey;

    use super::*;

    #[test]
    fn detects_surplus_blocks() {
        let now = Timestamp::now();
        let old = now - SignedDuration::from_hours(2);
        let (web, other) = (
            ObjectKey::new("default", "web"),
            ObjectKey::new("default", "b"),
        );
        let block = |id, cidr: &str, holder, created| AddressBlock {
            id,
            cidr: cidr.parse().unwrap(),
            holder,
            created: Some(created),
            is_fit: true,
            is_in_place: true,
            works: true,
        };
        let blocks = [
            block("used", "203.0.113.0/29", BlockHolder::Shared, now),
            block("young", "203.0.113.8/29", BlockHolder::Shared, now),
            block("old", "203.0.113.16/29", BlockHolder::Shared, old),
            block("one", "203.0.113.24/29", BlockHolder::Service(&web), old),
            block("two", "203.0.113.32/29", BlockHolder::Service(&web), old),
            block("only", "203.0.113.40/29", BlockHolder::Service(&other), now),
        ];
        let mut given = Given::default();
        given.has("a", "203.0.113.2".parse().unwrap());
        assert_eq!(suspects(&blocks, &given, now), ["young", "one", "two"]);
    }
}
