//! `mooring-node`: all that is local to one machine. It holds no cloud credentials.
//!
//! ```text
//!  run         starts and stops the others: flags, the queue of Events, /metrics
//!  ├ report    describes this machine on its own Node; `metadata` finds out what the machine is
//!  └ announce  decides what to announce on each segment, and reports what happens there
//!    ├ livez       answers health checks
//!    ├ cluster     the API server: the Snapshot, the Lease, the status of L2Networks
//!    │ └ fence       finds out whether this daemon may write
//!    ├ vlan        VLAN interfaces, return paths, addresses on an interface
//!    └ responder   the thread that joins the next two: heartbeats, ARP, neighbour discovery
//!      ├ wire        frames, messages, sockets, netlink
//!      └ protocol    pure: who may speak for which address
//! ```
//!
//! A module imports only modules further down, and no two files import each other in a circle:
//! `tests/tests/parts/imports.rs` checks that.

pub mod announce;
pub mod cluster;
pub mod fence;
pub mod livez;
pub mod protocol;
pub mod report;
pub mod responder;
pub mod run;
pub mod vlan;
pub mod wire;
