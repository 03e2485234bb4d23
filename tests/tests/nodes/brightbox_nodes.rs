//! Nodes on Brightbox: the scenarios for every cloud, and its own.

mod own;

#[path = "../node_scenarios/address.rs"]
mod address;
#[path = "../node_scenarios/bad_input.rs"]
mod bad_input;
#[path = "../node_scenarios/cluster.rs"]
mod cluster;
#[path = "../node_scenarios/doubt.rs"]
mod doubt;
#[path = "../node_scenarios/efficiency.rs"]
mod efficiency;
#[path = "../node_scenarios/hostile.rs"]
mod hostile;
#[path = "../node_scenarios/init.rs"]
mod init;
#[path = "../node_scenarios/labelling.rs"]
mod labelling;
#[path = "../node_scenarios/life.rs"]
mod life;
#[path = "../node_scenarios/token_life.rs"]
mod token_life;

use mooring_cloud_sim::cloud::Cloud;

/// The cloud that the scenarios are about.
const CLOUD: Cloud = Cloud::Brightbox;
