//! Nodes, by the real programs on real API servers.

#![allow(
    clippy::duplicate_mod,
    reason = "the scenarios of every cloud are run by the suite of each"
)]

mod brightbox_nodes;
mod cloudlycke;
mod cloudscale_nodes;
mod linode_nodes;
mod node_addresses;
mod node_init;
mod node_lifecycle;
mod phoenixnap_nodes;
mod several_clouds;
