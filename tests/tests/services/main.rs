//! Services, and the process `mooring-central`, on real API servers.

mod bare_metal;
#[path = "../change_over/cluster.rs"]
mod change_over;
mod cloudscale_guide;
mod cloudscale_services;
mod guides;
mod kubectl_mooring;
mod l2_networks;
mod l2_services;
mod leadership;
mod metrics;
mod moving;
mod services_alone;
mod upstream_manifest;
