//! VLAN interfaces, by the daemon's own code, in a VM whose kernel has VLANs.
//!
//! Names of tests begin with the failure case that they show.

mod confined;
mod daemon;
mod devices;
mod host;
mod phoenixnap;
mod repair;
mod return_path;
