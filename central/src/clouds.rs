//! What central asks of a cloud, and the clouds that it knows.

pub mod cloudlycke;

use async_trait::async_trait;
use mooring_common::address_range::AddressRange;
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::node_view::NodeView;
use tokio::sync::watch;

/// What a cloud says of the machine behind a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It knows the machine.
    Known {
        /// What it knows.
        facts: NodeFacts,
        /// Whether the machine exists and runs.
        presence: Presence,
    },
    /// A complete listing does not have it.
    Missing,
    /// It cannot say, for the reason given; nothing follows from that.
    Unsure(String),
    /// Several machines match; the text names them.
    Ambiguous(String),
    /// The Node belongs to another provider, or contradicts this one; the text says how.
    Foreign(String),
}

impl Lookup {
    /// Whether the machine exists and runs, as far as this answer goes.
    #[must_use]
    pub const fn presence(&self) -> Presence {
        match self {
            Self::Known { presence, .. } => *presence,
            Self::Missing => Presence::Gone,
            Self::Unsure(_) | Self::Ambiguous(_) | Self::Foreign(_) => Presence::Unsure,
        }
    }
}

/// The machines of a cloud.
#[async_trait]
pub trait Instances: Send + Sync {
    /// The machine behind this Node, from the last complete listing.
    async fn look_up(&self, node: &NodeView) -> Lookup;

    /// Asks once more, afresh and for this machine alone, whether it is there: the second proof
    /// before a Node is deleted. Whatever is no clear answer is [`Presence::Unsure`].
    async fn confirm(&self, node: &NodeView) -> Presence;

    /// The scheme of this provider's IDs, `<scheme>://`.
    fn scheme(&self) -> String;

    /// Changes whenever what is known of the machines has changed.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// Addresses that something else announces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignPool {
    /// Where to allocate from. Empty: the provider has no such pool.
    pub ranges: Vec<AddressRange>,
}
