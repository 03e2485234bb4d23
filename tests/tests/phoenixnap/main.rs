//! Services at PhoenixNAP, with addresses out of IP blocks.

#[path = "../change_over/cluster.rs"]
mod change_over;
mod phoenixnap_blocks;
mod phoenixnap_guide;
mod phoenixnap_services;
