//! What takes long one by one: benches and sweeps in small, a virtual machine in software emulation, alerts.
//! `tests/run.sh` runs these suites one after the other.

mod brightbox_bench;
mod clouds_demo;
mod cloudscale_bench;
mod cloudscale_sweep;
mod fence;
mod figures;
mod linode_bench;
mod linode_sweep;
mod metadata;
mod monitoring;
mod nodes_bench;
mod phoenixnap_bench;
mod sim;
mod sweeps;
mod vlan;
