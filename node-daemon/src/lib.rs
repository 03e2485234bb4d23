//! `mooring-node`: all that is local to one machine.
//!
//! ```text
//!   metadata ──► report ──► own Node            netlink, AF_PACKET ◄──► announce ──► own Lease
//!                                                                          │
//!                          health checks ──► livez ◄────────────── one snapshot
//! ```
//!
//! `report` describes the daemon's own Node; `announce` answers for service addresses on the
//! segments that the node is on. Neither holds cloud credentials.

pub mod announce;
pub mod events;
pub mod flags;
pub mod livez;
pub mod metadata;
pub mod metrics;
pub mod report;
pub mod run;
