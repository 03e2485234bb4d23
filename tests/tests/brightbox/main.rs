//! Services at Brightbox: load balancers, Cloud IPs, server groups and firewall policies.

mod brightbox_guide;
mod brightbox_services;
#[path = "../change_over/cluster.rs"]
mod change_over;
