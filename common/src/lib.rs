//! What `mooring-central` and `mooring-node` must agree on.
//!
//! ```text
//!   mooring-central ──► mooring-common ◄── mooring-node
//! ```
//!
//! The programs never call each other: whatever passes between them is a Kubernetes object, and
//! this crate says how it is named, shaped and read.

pub mod address_range;
pub mod clear_text;
pub mod clouds;
pub mod connection_slots;
pub mod control_plane;
pub mod engine;
pub mod errors;
pub mod flags;
pub mod go_bool;
pub mod go_duration;
pub mod k8s;
pub mod l2_network;
pub mod label;
pub mod machines;
pub mod maintenance;
pub mod metrics;
pub mod names;
pub mod node_addresses;
pub mod node_facts;
pub mod node_init;
pub mod node_view;
pub mod program;
pub mod provider_id;
pub mod serving;
pub mod shutdown;
pub mod taints;
pub mod telemetry;
pub mod work_queue;
pub mod yaml;
