//! Addresses of Services at PhoenixNAP: central on a real control plane, and the cloud simulated.
//!
//! Names that begin with `lb_` and a number are the acceptance set of the drop-in: what the Go
//! controller does, or ought to.

mod bgp;
mod buying;
mod cluster;
mod found;
mod handover;
mod late_listings;
mod pooling;
mod removal;
mod replicas;
mod robust;
mod sweep;
mod wishes;
