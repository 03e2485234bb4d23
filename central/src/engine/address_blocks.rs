//! Addresses for Services out of blocks that a cluster has at a cloud: all of it that is the same for every cloud.
//!
//! ```text
//!   a Service ──► ensure: look ─► what comes next ─► take that step ─► look again    until its address works
//!             ──► remove: mark what nobody needs without it
//!   all       ──► orphans, surplus: mark what no Service needs any more
//! ```
//!
//! A cloud writes how blocks are [read](Observe), [changed](Apply) and led to where their addresses work
//! ([`Serve`]), and what becomes of those that are marked ([`Upkeep`](super::pooled::Upkeep)).
//!
//! **Guarantees.** An address counts as lost, and a block is bought, only on the word of a listing of which
//! every entry can be read. A Service goes when its blocks are marked, so that none is forgotten.

mod buy;
mod ensure;
mod listing;
mod next;
mod notices;
mod orphans;
mod remove;
mod state;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::Ipv4Net;
use mooring_common::engine::Step;
use mooring_common::k8s::ObjectKey;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ip_allocation::{AddressBlock, Allocation, BlockHolder, IpRequest, may_have};
use super::pooled::Pool;
use super::provider::AccountWords;
use crate::cloud_api::{CloudError, Entries};
use crate::cloud_provider::load_balancers::{
    InvalidField, LoadBalancerRequest, LoadBalancerStatus, ReconcileError, WriteGuard,
};
use crate::views::service_view::ServiceView;
pub use buy::{Buy, buy};
pub use ensure::look_at_hindered;
pub use listing::{list, seed};
pub use next::{Next, Taken};
pub use orphans::mark_surplus;
pub use state::{State, since};

/// A block of a cluster.
pub trait Held: Clone + Send + Sync + 'static {
    /// Whose a block is, as its marks say.
    type Owner: Clone + PartialEq + Send + Sync + 'static;

    /// The cloud's own name for it.
    fn id(&self) -> &str;

    /// Its addresses.
    fn cidr(&self) -> Ipv4Net;

    /// Whose it is.
    fn owner(&self) -> &Self::Owner;

    /// The same, as far as addresses are given out by it.
    fn holder(&self) -> BlockHolder<'_>;
}

/// The blocks of a cluster at a cloud, and who has which address.
pub trait AddressBlocks: Send + Sync + 'static {
    /// What can be done.
    type Step: Step + Clone + PartialEq + Send + Sync;
    /// A block.
    type Block: Held;

    /// [`Pool::NAME`].
    const NAME: &'static str;
    /// [`Pool::COMPONENT`].
    const COMPONENT: &'static str;
    /// [`Pool::REQUESTS`].
    const REQUESTS: usize;
    /// What the credentials open.
    const ACCOUNT: AccountWords;
    /// How often the cloud is asked whether what it was told to do is done.
    const POLL: Duration;

    /// What the engine knows of them.
    fn state(&self) -> &State<Self::Block>;

    /// The same, to be changed.
    fn state_mut(&mut self) -> &mut State<Self::Block>;

    /// What was written elsewhere may have been changed there.
    fn forget_written(&mut self);

    /// The blocks, as addresses are given out of them.
    fn addresses(&self) -> Vec<AddressBlock<'_>>;

    /// Who has what if these Services are to have addresses.
    fn allocate(&self, requests: &[IpRequest]) -> Allocation;
}

/// How blocks are read.
#[async_trait]
pub trait Observe: AddressBlocks {
    /// All blocks that bear this cluster's marks: one request.
    ///
    /// # Errors
    /// [`CloudError`], here and below, unless the cloud has answered.
    async fn fetch(&self, cluster: &str) -> Result<Entries<Self::Block>, CloudError>;

    /// All blocks of the account, whoever's, with their ids: one request.
    async fn fetch_all(&self) -> Result<Entries<(String, Ipv4Net)>, CloudError>;

    /// One block, asked for alone. `None`: it does not bear this cluster's marks.
    async fn read(&self, id: &str, cluster: &str) -> Result<Option<Self::Block>, CloudError>;

    /// The blocks were listed: what is remembered of others is forgotten.
    fn listed(&mut self, begun: Instant);

    /// The network that blocks are to be in, as it was then or later. Nothing is asked if there is to be none.
    ///
    /// # Errors
    /// [`ReconcileError`] if it cannot be looked at, or blocks cannot be in it.
    async fn look_at_network(&mut self, since: Instant) -> Result<(), ReconcileError>;

    /// Whether such a network is known.
    fn has_network(&self) -> bool;

    /// Whether all of what that network lists could be read.
    fn is_network_whole(&self) -> bool;
}

/// What can be done to blocks.
#[async_trait]
pub trait Apply: AddressBlocks {
    /// Carries a step out.
    ///
    /// # Errors
    /// [`ReconcileError`] unless the cloud has taken it, or is to be asked again in seconds.
    async fn take(
        &mut self,
        step: &Self::Step,
        guard: &dyn WriteGuard,
    ) -> Result<Taken, ReconcileError>;

    /// The step that makes a block nobody's.
    fn mark(block: &Self::Block) -> Self::Step;

    /// Whether a step buys a block.
    fn is_purchase(step: &Self::Step) -> bool;

    /// Makes known to whoever announces addresses which ones there are.
    ///
    /// # Errors
    /// [`ReconcileError`] unless it is known.
    async fn announce(&mut self, guard: &dyn WriteGuard) -> Result<(), ReconcileError>;
}

/// How a Service gets an address.
#[async_trait]
pub trait Serve: Observe + Apply {
    /// Looks at whatever else is to be known before blocks are.
    ///
    /// # Errors
    /// [`ReconcileError`], here and below, if the cloud does not say what is needed.
    async fn prepare(&mut self) -> Result<(), ReconcileError>;

    /// What comes next for one of these requests.
    fn next(&self, requests: &[IpRequest], own: &IpRequest) -> Next<Self::Step>;

    /// Looks once more at what the next step goes by, if it was looked at too long ago. Whether it was.
    async fn look_again(&mut self, found: &Next<Self::Step>) -> Result<bool, ReconcileError>;

    /// This step, and those that it takes before.
    fn with_needs(&self, step: Self::Step) -> Vec<Self::Step>;

    /// What is to be marked when a Service goes that is not among the requests any more.
    fn removal(&self, others: &[IpRequest], going: &IpRequest) -> Vec<Self::Step>;

    /// For whom a block would be bought that a Service needs.
    fn buyer(&self, service: &ObjectKey) -> <Self::Block as Held>::Owner;

    /// Whether a block keeps another one from being bought for the same owner.
    fn hinders(&self, owner: &<Self::Block as Held>::Owner) -> bool;

    /// What of a Service contradicts what there is.
    fn faults(&self, service: &ServiceView) -> Vec<InvalidField>;

    /// What a person should know of a step for a Service: the Event's reason, and the text.
    fn notice(&self, service: &ServiceView, step: &Self::Step) -> Option<(&'static str, String)>;

    /// What a Service says that has this address.
    fn status(&self, address: Ipv4Addr) -> LoadBalancerStatus;
}

#[async_trait]
impl<P: AddressBlocks> Pool for P {
    type Step = <P as AddressBlocks>::Step;

    const NAME: &'static str = <P as AddressBlocks>::NAME;
    const COMPONENT: &'static str = <P as AddressBlocks>::COMPONENT;
    const REQUESTS: usize = <P as AddressBlocks>::REQUESTS;

    fn has_garbage(&self) -> Arc<Notify> {
        self.state().has_garbage.clone()
    }

    async fn passed(&mut self, error: Option<&ReconcileError>) {
        self.state_mut().purchases.settle_unused(error).await;
    }

    fn wrote(&mut self, uid: &str, version: String) {
        self.state_mut().touched.wrote(uid, version);
    }

    fn forget(&mut self, uid: &str) {
        let state = self.state_mut();
        state.given.forget(uid);
        state.touched.forget(uid);
        state.hindered.remove(uid);
    }

    fn observe_anew(&mut self) {
        self.state_mut().expires();
        self.state_mut().l2_network = None;
        self.forget_written();
    }

    async fn ends(&mut self) {
        self.state_mut().purchases.give_up().await;
    }
}

/// Doubts the credentials as a whole if neither a block of the cluster nor its network is there: with those of
/// another account every answer is complete, and shows nothing of the cluster. Asked before what is not listed
/// counts as not there.
///
/// # Errors
/// [`ReconcileError::Cloud`] if they are in doubt, or the servers cannot be listed.
async fn check_credentials<P: Observe>(
    blocks: &P,
    request: &LoadBalancerRequest,
    has_network: bool,
) -> Result<(), ReconcileError> {
    let state = blocks.state();
    if has_network || !state.blocks.is_empty() || !state.unread.is_empty() {
        return Ok(());
    }
    let mut services = request.others.iter().chain([&request.service]);
    let is_recorded = services.any(|service| may_have(service));
    let machines = &state.machines;
    let checked = machines.check_credentials(&request.nodes, is_recorded, &P::ACCOUNT);
    Ok(checked.await?)
}
