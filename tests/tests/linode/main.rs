//! Services at Linode, with NodeBalancers and Cloud Firewalls.

mod linode_services;
