//! `mooring-node`: all that is local to one machine.
//!
//! ```text
//!   metadata ──► report ──► own Node            netlink, AF_PACKET ◄──► announce ──► own Lease
//!                                                                          │
//!                          health checks ──► livez ◄────────────── one snapshot
//! ```
//!
//! `fence` finds out whether admission policies keep the daemon to what is its own; before that, and
//! where they do not, nothing is written. `report` describes the daemon's own Node; `announce` answers for service addresses on the
//! segments that the node is on. Neither holds cloud credentials.

pub mod announce;
pub mod events;
pub mod fence;
pub mod flags;
pub mod livez;
pub mod metadata;
pub mod metrics;
pub mod netlink;
pub mod report;
pub mod run;
pub mod vlan;
