//! Services at PhoenixNAP, with addresses out of IP blocks.

mod phoenixnap_blocks;
mod phoenixnap_services;
