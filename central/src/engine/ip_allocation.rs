//! Which Service has which IPv4 address of blocks that Services share or have for themselves. Pure.
//!
//! A Service keeps what it has; whoever has nothing gets a free address of a block that is there, and
//! only if there is none, one is to be bought.
//!
//! **Guarantee.** An address that the status of a Service shows is in use: no other Service gets it, and
//! its block stays, whatever the Service asks for and however that is answered. The status changes only
//! after another address has been provided, or by the hand of whoever announces a foreign one.

mod allocate;
mod elsewhere;
mod given;
mod layout;
mod metrics;
mod request;
mod unneeded;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use jiff::Timestamp;
use mooring_common::k8s::ObjectKey;

pub use allocate::allocate;
pub use elsewhere::Elsewhere;
pub use given::{APART, Given};
pub use layout::{capacity, is_usable, l2_network, usable};
pub use metrics::BlockMetrics;
pub use request::{
    IpRequest, invalid, is_published, is_shown_of, is_written, may_have, owned_fields,
};
pub use unneeded::{Suspects, WATCHED, orphaned, surplus};

/// All that addresses are given out by.
pub struct Pool<'a> {
    /// The blocks of the cluster.
    pub blocks: &'a [AddressBlock<'a>],
    /// The Services that are to have addresses.
    pub requests: &'a [IpRequest],
    /// Whether Services that have none yet get addresses of shared blocks.
    pub shares: bool,
    /// The block that has an address in the cloud, by id, although it is none of the cluster's.
    pub elsewhere: &'a dyn Fn(Ipv4Addr) -> Option<&'a str>,
    /// Whether a machine has an address. No Service gets it; one whose status shows it keeps it.
    pub reserved: &'a dyn Fn(Ipv4Addr) -> bool,
}

/// A block of addresses, as far as they are given out.
#[derive(Clone, Debug)]
pub struct AddressBlock<'a> {
    /// The cloud's own name for it.
    pub id: &'a str,
    /// Its addresses.
    pub cidr: Ipv4Net,
    /// For whom they are.
    pub holder: BlockHolder<'a>,
    /// When it was made. `None`: the cloud does not say.
    pub created: Option<Timestamp>,
    /// Whether addresses of it can be given out, if it is shared.
    pub is_fit: bool,
    /// Whether it is where its addresses work, or on its way there.
    pub is_in_place: bool,
    /// Whether its addresses work.
    pub works: bool,
}

/// For whom the addresses of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockHolder<'a> {
    /// This Service alone.
    Service(&'a ObjectKey),
    /// Several Services.
    Shared,
    /// Nobody any more.
    Released,
    /// That is not clear.
    Unclear,
}

/// What a Service shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// This address of a block.
    Address {
        /// The block's id.
        block: String,
        /// The address.
        address: Ipv4Addr,
    },
    /// This address, whose block is in the cloud and does not bear our tags any more.
    Untagged {
        /// The block's id.
        block: String,
        /// The address.
        address: Ipv4Addr,
    },
    /// It had this address, whose block is not there.
    Missing(Ipv4Addr),
    /// This address, which is its user's own affair.
    Foreign(Ipv4Addr),
    /// No block that is there has an address for it.
    Nothing,
    /// It asks for what it cannot have.
    Refused(String),
}

/// Who has what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// By Service.
    pub shares: BTreeMap<ObjectKey, Assignment>,
    /// Shared blocks of which nobody has an address, by id.
    pub unused: BTreeSet<String>,
    /// Blocks of one Service beside the one that it uses, by id.
    pub doubles: BTreeMap<String, ObjectKey>,
}
