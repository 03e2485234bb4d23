//! Services at Linode, with NodeBalancers and Cloud Firewalls.

mod linode_guide;
mod linode_services;
