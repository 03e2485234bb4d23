//! What this daemon knows of the cluster, and what it writes there about segments.
//!
//! ```text
//!  API server ──► watches ──► Snapshot ◄── service_proxy (kube-proxy on this node)
//!      ▲                         └──► livez, announce
//!      ├── lease: the Lease of this Node
//!      ├── status_writer: the entry of this Node in `status.nodes` of the L2Networks
//!      └── voters: who votes on a segment, and whose Lease stands still
//! ```

pub mod lease;
pub mod saved_health;
pub mod service_proxy;
pub mod snapshot;
pub mod state_dir;
pub mod status_writer;
pub mod voters;
pub mod watches;
