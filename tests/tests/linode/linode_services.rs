//! NodeBalancers: the scenarios for every cloud, and those of Linode.

mod cloud;

#[path = "../service_scenarios/change.rs"]
mod change;
#[path = "../service_scenarios/clouds.rs"]
mod clouds;
#[path = "../service_scenarios/cluster.rs"]
mod cluster;
#[path = "../service_scenarios/create.rs"]
mod create;
#[path = "../service_scenarios/delete.rs"]
mod delete;
#[path = "../service_scenarios/efficiency.rs"]
mod efficiency;
#[path = "../service_scenarios/forwarding.rs"]
mod forwarding;
#[path = "../service_scenarios/forwarding_change.rs"]
mod forwarding_change;
#[path = "../service_scenarios/forwarding_nodes.rs"]
mod forwarding_nodes;
#[path = "../service_scenarios/plan.rs"]
mod plan;
#[path = "../service_scenarios/plan_command.rs"]
mod plan_command;
#[path = "../service_scenarios/status.rs"]
mod status;

/// What all annotations on Services begin with.
const PREFIX: &str = "service.beta.kubernetes.io/linode-loadbalancer-";

/// An annotation by what its name ends with.
fn key(end: &str) -> String {
    format!("{PREFIX}{end}")
}
