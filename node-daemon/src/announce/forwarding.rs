//! Keeps connections when an address moves from a node that lives: the new speaker's kernel passes on to the
//! former speaker what belongs to connections that began there.
//!
//! ```text
//!   announce (prepare, began, stopped, members, counts of others)
//!        │                                    conntrack: connections of this node to the address
//!        ▼                                                   │
//!      state ──► table ──► messages ──► nftables, family netdev, at ingress of the segment's interface
//!        └─────► counts that the new speaker is told
//! ```
//!
//! # Flow
//! 1. An address is offered. The one who is to take it reads from conntrack which connections to the
//!    address this node has itself, and writes the table. Only then does it say that it is ready.
//! 2. It speaks. A SYN is a new connection: its addresses and ports are noted, and it is served here. What
//!    is noted is served here. Other segments of TCP get the MAC address of the former speaker, and leave by
//!    the interface that they came by. Nothing else in them changes.
//! 3. The former speaker serves them as before: its conntrack knows them. It answers clients directly.
//! 4. The former speaker says every few seconds how many connections it still has. At none, at the
//!    time of `spec.keepConnections`, or when its node is gone, the address leaves the table.
//!
//! # Guarantees
//! * A frame is sent only to a node that is a member of the segment at that time; after a restart of the daemon also to
//!   one that was a member before it, for [`table::KERNEL_LEASE`] at most.
//! * No frame goes round. A node passes on only what comes from a client or from the one node that it
//!   handed the address to. See [`state`].
//! * The kernel ends it by itself: addresses in the table have a time-out of [`table::KERNEL_LEASE`],
//!   which the daemon renews.
//! * Sets are bounded. Where the set of new connections is full, new ones go to the former speaker, so none
//!   is torn between two nodes.

pub mod attributes;
pub mod conntrack;
pub mod keeper;
pub mod messages;
pub mod saved;
pub mod state;
pub mod table;

/// The nftables table, of the family `netdev`.
pub const TABLE: &str = "mooring";
