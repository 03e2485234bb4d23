//! Services at Brightbox: load balancers, Cloud IPs, server groups and firewall policies.

mod brightbox_services;
