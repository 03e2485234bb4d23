//! What is believed of what was observed.

use std::fmt::{Display, Formatter};
use std::net::IpAddr;

use super::*;
use crate::engine::pool::NoMember;
use crate::engine::provider::Listed;
use crate::engine::step::{Effect, Step};

/// A load balancer that has nothing but an ID, and nothing that can be done to it.
#[derive(Clone, Debug, PartialEq)]
struct Balancer;

#[derive(Clone, Debug)]
enum NoStep {}

impl Display for NoStep {
    fn fmt(&self, _f: &mut Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl mooring_common::engine::Step for NoStep {}

impl Step for NoStep {
    fn effect(&self, _planned: &[String]) -> Effect {
        match *self {}
    }
}

impl Listed for Balancer {
    fn id(&self) -> &'static str {
        "lb"
    }

    fn name(&self) -> &'static str {
        "lb"
    }

    fn owner(&self) -> Option<&str> {
        None
    }

    fn cluster(&self) -> Option<&str> {
        None
    }

    fn addresses(&self) -> Vec<IpAddr> {
        Vec::new()
    }
}

impl Observed for Balancer {
    type Listed = Self;
    type Step = NoStep;
    type Member = NoMember;

    fn listed(&self) -> &Self {
        self
    }

    fn listed_mut(&mut self) -> &mut Self {
        self
    }

    fn is_unused(&self) -> bool {
        false
    }

    fn lacks_parts(&self) -> bool {
        false
    }

    fn cost(&self) -> usize {
        0
    }

    fn take(&mut self, step: &NoStep, _made: &str, _planned: &mut Vec<String>) {
        match *step {}
    }
}

fn observed_now() -> CachedState<Balancer> {
    CachedState {
        observed: Balancer,
        surplus: Vec::new(),
        as_of: Instant::now(),
        written: Instant::now(),
    }
}

/// What is listed after the resync, and before the write ends, does not show the write.
#[tokio::test(start_paused = true)]
async fn write_that_ends_after_a_resync_is_observed_by_a_later_listing() {
    for is_resynced in [false, true] {
        let cache = Cache::new();
        let second = Duration::from_secs(1);
        tokio::time::advance(second).await;
        let known = observed_now();
        let write = cache.begin_write("uid");
        tokio::time::advance(second).await;
        if is_resynced {
            cache.observe_anew();
        }
        tokio::time::advance(second).await;
        write.end(Some(known));
        assert_eq!(cache.known("uid").is_none(), is_resynced);
        assert_eq!(cache.since("uid") == Instant::now(), is_resynced);
        assert_eq!(cache.last_id("uid").as_deref(), Some("lb"));
    }
}
