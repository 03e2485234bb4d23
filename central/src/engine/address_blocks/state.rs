//! What is known of a cluster's blocks between passes, as it is after each step.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Held;
use crate::cloud_provider::load_balancers::{ReconcileError, WriteGuard};
use crate::engine::cluster::Cluster;
use crate::engine::ip_allocation::{Elsewhere, Given, Suspects};
use crate::engine::members::MemberResolver;
use crate::engine::purchases::{Purchases, Sent};
use crate::engine::reports::Reports;
use crate::engine::touched::TouchedServices;
use crate::engine::unread::Unread;

/// It.
pub struct State<B: Held> {
    /// The cluster.
    pub cluster: Arc<dyn Cluster>,
    /// Its machines.
    pub machines: MemberResolver,
    /// Told when there may be garbage to collect.
    pub has_garbage: Arc<Notify>,
    /// The blocks, from the last listing and what was done since.
    pub blocks: Vec<B>,
    /// What that listing has of blocks that cannot be read: as long as there is any, none counts as missing.
    pub unread: Unread,
    /// When that listing was begun. `None`: nothing is known of them.
    pub as_of: Option<Instant>,
    /// What is older is not good enough even where nothing is to be done.
    pub fresh_since: Instant,
    /// What else there is in the account.
    pub elsewhere: Elsewhere,
    /// What Services were given.
    pub given: Given,
    /// Services that somebody has touched.
    pub touched: TouchedServices,
    /// The right to buy, and what was bought by it.
    pub purchases: Purchases<B::Owner>,
    /// Blocks that may be one too many.
    pub suspects: Suspects,
    /// For whom no block is bought while another one is of no use, by the UID of the Service that waits for it.
    pub(super) hindered: HashMap<String, B::Owner>,
    /// Whether Services that were refused may have what they ask for, and nobody has been told so.
    pub is_freed: bool,
    /// What was reported about the cluster.
    pub reports: Reports,
    /// What was last written as the L2Network.
    pub(super) l2_network: Option<Value>,
    /// The block that this process has bought last, and when.
    last_bought: Option<(String, Instant)>,
    /// What this process has bought and no listing has shown yet, and when.
    pub(super) unlisted: Vec<(B, Instant)>,
}

impl<B: Held> State<B> {
    /// Nothing is known of them yet. `identity`: this process' name; `settle_time`: for how long the cloud may
    /// take to show what was bought.
    pub fn new(
        cluster: Arc<dyn Cluster>,
        machines: MemberResolver,
        identity: String,
        settle_time: Duration,
    ) -> Self {
        Self {
            purchases: Purchases::new(cluster.clone(), identity, settle_time),
            cluster,
            machines,
            has_garbage: Arc::new(Notify::new()),
            blocks: Vec::new(),
            unread: Unread::default(),
            as_of: None,
            fresh_since: Instant::now(),
            elsewhere: Elsewhere::default(),
            given: Given::default(),
            touched: TouchedServices::default(),
            suspects: Suspects::default(),
            hindered: HashMap::new(),
            is_freed: false,
            reports: Reports::default(),
            l2_network: None,
            last_bought: None,
            unlisted: Vec::new(),
        }
    }

    /// What is known of the cloud is not good enough any more.
    pub fn expires(&mut self) {
        self.fresh_since = Instant::now();
    }

    /// So long ago, and not before what is good enough even where nothing is to be done.
    #[must_use]
    pub fn recent(&self, age: Duration) -> Instant {
        since(age, self.fresh_since)
    }

    /// One of the blocks.
    pub fn block(&self, id: &str) -> Option<&B> {
        self.blocks.iter().find(|block| block.id() == id)
    }

    /// The same, to be changed.
    pub fn block_mut(&mut self, id: &str) -> Option<&mut B> {
        self.blocks.iter_mut().find(|block| block.id() == id)
    }

    /// A block was bought.
    pub fn bought(&mut self, block: B) {
        let now = Instant::now();
        self.last_bought = Some((block.id().to_owned(), now));
        self.unlisted.push((block.clone(), now));
        self.blocks.retain(|other| other.id() != block.id());
        self.blocks.push(block);
    }

    /// A block was given back.
    pub fn released(&mut self, id: &str) {
        self.blocks.retain(|block| block.id() != id);
        self.unlisted.retain(|(block, _)| block.id() != id);
    }

    /// Whether this process has bought a block so recently that nobody else has put it anywhere.
    #[must_use]
    pub fn has_just_bought(&self, id: &str, recently: Duration) -> bool {
        let last = self.last_bought.as_ref();
        last.is_some_and(|(last, at)| last == id && at.elapsed() < recently)
    }

    /// Whether the last listing, begun after this purchase was sent, has what was bought.
    pub(super) fn shows(&self, sent: &Sent<B::Owner>) -> bool {
        if sent.is_heard {
            return self.unlisted.is_empty();
        }
        let mut blocks = self.blocks.iter();
        let is_younger = self.as_of.is_some_and(|begun| begun >= sent.at);
        is_younger && blocks.any(|block| sent.is(block.id(), block.owner()))
    }

    /// Makes an L2Network what it should be, unless it is known to be so. `None`: there is nothing to announce
    /// (yet), and it stays as it is.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is.
    pub async fn write_l2_network(
        &mut self,
        name: &str,
        wanted: Option<Value>,
        guard: &dyn WriteGuard,
    ) -> Result<(), ReconcileError> {
        let Some(spec) = wanted.filter(|spec| self.l2_network.as_ref() != Some(spec)) else {
            return Ok(());
        };
        guard.before_write()?;
        self.cluster.apply_l2_network(name, spec.clone()).await?;
        tracing::info!(name, %spec, "wrote the L2Network of the public network");
        self.l2_network = Some(spec);
        Ok(())
    }
}

/// So long ago, and not before that.
#[must_use]
pub fn since(age: Duration, least: Instant) -> Instant {
    Instant::now().checked_sub(age).unwrap_or(least).max(least)
}
