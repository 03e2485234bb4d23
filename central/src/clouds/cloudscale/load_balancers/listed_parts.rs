//! The parts of load balancers as they were listed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::api::floating_ips::FloatingIp;
use super::super::api::parts::Part;
use crate::engine::listing::Listing;

/// The parts of all load balancers, but for members.
pub(super) struct Parts {
    pub(super) pools: Arc<Listing<Part>>,
    pub(super) listeners: Arc<Listing<Part>>,
    pub(super) monitors: Arc<Listing<Part>>,
    pub(super) floating_ips: Arc<Listing<FloatingIp>>,
}

impl Parts {
    /// Nothing of them is older.
    pub(super) fn begun(&self) -> Instant {
        let pools = self.pools.begun.min(self.listeners.begun);
        pools.min(self.monitors.begun).min(self.floating_ips.begun)
    }
}
