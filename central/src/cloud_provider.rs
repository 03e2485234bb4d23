//! What central asks of a cloud: its machines, its load balancers, its routes to Pods, and how it registers itself.

pub mod annotations;
pub mod digest;
pub mod load_balancers;
pub mod pod_network;
pub mod registration;
pub mod secrets;
pub mod servers;
mod several;

pub use several::Clouds;

use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use mooring_common::address_range::AddressRange;
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::node_view::NodeView;
use mooring_common::provider_id::ProviderId;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cloud_api::CloudError;

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
    /// It knows no such machine and yet does not claim to know them all: nothing follows for the
    /// Node, but another cloud may have it. The text says what to do if none has.
    Unlisted(String),
    /// It cannot say, for the reason given; nothing follows from that.
    Unsure(String),
    /// The cloud could not be asked; nothing follows from that, and asking again will help.
    Unavailable {
        /// Why, in words.
        why: String,
        /// How long the cloud wants to be left alone.
        retry_after: Option<Duration>,
    },
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
            Self::Unlisted(_)
            | Self::Unsure(_)
            | Self::Unavailable { .. }
            | Self::Ambiguous(_)
            | Self::Foreign(_) => Presence::Unsure,
        }
    }
}

/// The machines of a cloud.
#[async_trait]
pub trait Instances: Send + Sync {
    /// The provider's name, in logs and messages.
    fn provider(&self) -> &'static str;

    /// Reads a Node's `spec.providerID`. `None`: it is another provider's.
    ///
    /// # Errors
    /// What is wrong with it, in words, if it is this provider's by its scheme, and yet names no
    /// machine.
    fn read_id(&self, provider_id: &str) -> Option<Result<ProviderId, String>>;

    /// The machine behind this Node, from a complete listing that was begun at `since` or later.
    /// `None`: from the last one, however old; one is made only if there is none.
    async fn look_up(&self, node: &NodeView, since: Option<Instant>) -> Lookup;

    /// Asks once more, afresh and for this machine alone, whether it is there: the second proof
    /// before a Node is deleted. Whatever is no clear answer is [`Presence::Unsure`].
    async fn confirm(&self, node: &NodeView) -> Presence;

    /// Changes whenever what is known of the machines has changed.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Lists the machines once per `interval`, unless something else has called for a listing
    /// meanwhile, for as long as the future is polled.
    async fn keep_fresh(&self, interval: Duration);
}

/// Addresses that something else announces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignPool {
    /// Where to allocate from. Empty: the provider has no such pool.
    pub ranges: Vec<AddressRange>,
}

/// One machine of a cloud's listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its provider ID, in the form that is written on Nodes.
    pub id: ProviderId,
    /// Names that its Node may have, compared exactly.
    pub names: Vec<String>,
    /// Addresses by which its Node may be found where neither provider ID nor name tells. Empty:
    /// the cloud's Nodes are not found by address.
    pub found_by: Vec<IpAddr>,
    /// Its addresses in networks that load balancers reach, with the subnet of each, in the cloud's
    /// order. Empty where the cloud's load balancers are not given addresses in subnets.
    pub attachments: Vec<Attachment>,
    /// What is known of it, its provider ID among it.
    pub facts: NodeFacts,
    /// Whether it runs; never [`Presence::Gone`] or [`Presence::Unsure`].
    pub presence: Presence,
}

/// The first of these that is there twice: nobody can tell what is meant by it.
pub fn twice<T: Ord + Copy>(ids: &mut [T]) -> Option<T> {
    ids.sort_unstable();
    let mut pairs = ids.windows(2);
    let pair = pairs.find(|pair| pair.first() == pair.last());
    pair.and_then(|pair| pair.first().copied())
}

/// An address of a machine in a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The address.
    pub address: IpAddr,
    /// The cloud's own name for the subnet.
    pub subnet: String,
}

/// A cloud that lists its machines.
#[async_trait]
pub trait MachineSource: Send + Sync {
    /// The provider's name, which is the scheme of its IDs too.
    fn provider(&self) -> &'static str;

    /// Whether a Node's `spec.providerID` is one of this provider's, though it may name no machine.
    fn claims(&self, provider_id: &str) -> bool {
        let scheme = provider_id.split_once("://").map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| scheme.trim() == self.provider())
    }

    /// The ID that a Node's `spec.providerID` stands for, in the form of [`Machine::id`].
    ///
    /// # Errors
    /// What is wrong with it, in words, if it is this provider's and yet names no machine of it.
    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String>;

    /// Another number whenever other credentials are in use than before: what was listed with them
    /// may be another project's.
    fn credentials(&self) -> u64;

    /// All machines.
    ///
    /// # Errors
    /// [`CloudError`] unless the listing is complete: a page that failed, was cut off, or does not
    /// fit the others makes it incomplete.
    async fn list(&self) -> Result<Vec<Machine>, CloudError>;

    /// All machines that can be read, and what is wrong with each of the others: as long as there are any of
    /// those, no machine is missing because it is not here.
    ///
    /// # Errors
    /// [`CloudError`] as [`Self::list`].
    async fn readable(&self) -> Result<(Vec<Machine>, Vec<String>), CloudError> {
        Ok((self.list().await?, Vec::new()))
    }

    /// One machine, asked for alone and afresh.
    ///
    /// # Errors
    /// [`CloudError`] unless the cloud has answered either with the machine, or clearly that it
    /// does not exist (`Ok(None)`).
    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError>;
}
