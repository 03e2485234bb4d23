//! The simulated clouds are as strict as the real ones, and fail as they are told to.

mod client;
mod cloudscale;
mod failures;
mod linode;
mod load_balancers;
mod program;
mod speed;
mod states;
mod strict;
mod world;
