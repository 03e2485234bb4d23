//! What stands alone: clients of clouds, simulations, the control plane of the tests, the shipped manifests,
//! generated pages and dependencies.

mod api_server_connection;
mod cloud_clients;
mod cloud_sims;
mod cloud_sizes;
mod commands_of_pages;
mod control_plane_rig;
mod dependencies;
mod deploy_manifests;
mod imports;
mod links;
mod linode_cases;
mod monitoring;
mod references;
