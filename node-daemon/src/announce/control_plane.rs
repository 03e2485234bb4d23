//! For `mooring-node control-plane`: the address of the API servers, announced from a node whose own is ready.
//!
//! ```text
//!   file ────────────┐            ┌──► responder, one thread: the protocol, ARP, neighbour discovery
//!   memory: voters ──┼► supervisor┤
//!   readyz ► fitness ┘  (desired) ├──► the address on lo, while there is a right to it
//!                                 └──► published: how it does, for the daemon of the DaemonSet
//! ```
//!
//! It is a process of its own, a static Pod: there may be no API server yet. It shares the protocol and the
//! responder with the daemon of the DaemonSet. At run time that reads how this process does, and tells it nothing.
//!
//! # Guarantees
//! * At most one node speaks for the address: by [`crate::protocol`], with the voters of
//!   [`crate::protocol::members`].
//! * Nothing of it needs an API server: not to start, not to vote, not to fail over.
//! * Where no API server is ready the address stays where it is; if that node dies, one whose API server runs has it.

pub mod desired;
pub mod file;
pub mod fitness;
pub mod flags;
pub mod manifest;
pub mod memory;
mod metrics;
pub mod published;
pub mod readyz;
pub mod supervisor;

pub use metrics::Metrics;
