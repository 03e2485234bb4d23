//! Addresses of Services at PhoenixNAP: central on a real control plane, and the cloud simulated: the
//! scenarios for every cloud, and its own.
//!
//! A plan of this cloud ends where the cloud has to answer first, so that it has scenarios of its own
//! (`planning`) in place of those of `plan.rs`.
//!
//! Names that begin with `lb_` and a number are the acceptance set of the drop-in: what the Go
//! controller does, or ought to. Of these `lb_08`, `lb_09`, `lb_12`, `lb_13` and `lb_17` must hold on every
//! cloud: they are `sd_04`, `sd_14`, `sd_02`, `sd_17` and `sc_04`.

mod bgp;
pub(crate) mod blocks;
mod buying;
// It takes longest, and tests begin in the order of their names.
mod call_failures;
pub(crate) mod cloud;
mod costs;
mod found;
mod handover;
mod late_listings;
mod planning;
mod pooling;
mod removal;
mod replicas;
mod robust;
mod wishes;

#[path = "../service_scenarios/change.rs"]
mod change;
#[path = "../service_scenarios/clouds.rs"]
mod clouds;
#[path = "../service_scenarios/cluster.rs"]
pub(crate) mod cluster;
#[path = "../service_scenarios/create.rs"]
mod create;
#[path = "../service_scenarios/delete.rs"]
mod delete;
#[path = "../service_scenarios/efficiency.rs"]
mod efficiency;
#[path = "../service_scenarios/plan_command.rs"]
mod plan_command;
#[path = "../service_scenarios/slow_creation.rs"]
mod slow_creation;
#[path = "../service_scenarios/status.rs"]
mod status;
