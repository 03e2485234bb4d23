//! The simulated clouds are as strict as the real ones, and fail as they are told to.

mod all;
mod client;
mod cloudscale;
mod configs_strict;
mod failures;
mod firewalls;
mod ip_blocks;
mod linode;
mod linode_access;
mod linode_addresses;
mod linode_interfaces;
mod linode_left_by_go;
mod load_balancers;
mod memberships;
mod node_balancer_addresses;
mod node_balancer_lags;
mod node_balancers;
mod node_balancers_strict;
mod phoenixnap;
mod phoenixnap_strict;
mod program;
mod speed;
mod states;
mod strict;
mod tokens;
