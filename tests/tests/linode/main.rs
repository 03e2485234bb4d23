//! Services at Linode, with NodeBalancers and Cloud Firewalls.

#[path = "../change_over/cluster.rs"]
mod change_over;
mod linode_guide;
mod linode_services;
