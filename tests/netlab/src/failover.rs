//! What users of a service address notice when something fails: the cluster, the faults, the measure.
//!
//! ```text
//!   netlab: kube-apiserver, kube-controller-manager, mooring-central ── br0
//!            n1 … : mooring-node, kube-proxy ── eth0 ─┤├─ client: datagrams, 1,000 a second
//!            b1: the backend, which never fails ──────┤├─ tcp: established connections
//!                    every frame ── Capture ──────────┘└─ asker: a new neighbour, 50 times a second
//! ```
//!
//! Three clients, because each hides what another sees: a connection confirms its neighbour without
//! asking, datagrams go on to where they went before, and only who has never asked notices at once
//! that nobody answers, or two do. The fault cases of `tests/failover` and `make bench-failover` use
//! the same cluster and the same measure.

mod cluster;
mod even_out;
pub mod faults;
mod seen;
mod watch;

pub use cluster::{APP, FailoverCluster, Layout, daemon_spec};
pub use even_out::EvenedOut;
pub use faults::repeat;
pub use seen::{Seen, millis};
pub use watch::Watch;
