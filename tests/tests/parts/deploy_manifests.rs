//! The shipped manifests on a real API server: they apply as they are, the CRD refuses what is
//! wrong, and the admission policies let each program do its work and nothing else. And the chart that
//! they come from: what its values do.

mod chart_applied;
mod chart_values;
mod crd;
mod deployed;
mod fence_central;
mod fence_events;
mod fence_identity;
mod fence_leases;
mod fence_metadata;
mod fence_nodes;
mod fence_segments;
mod fence_services;
pub mod helm;
mod order;
mod permissions;
mod phoenixnap;
mod pod_network;
mod programs;
mod roll_outs;
