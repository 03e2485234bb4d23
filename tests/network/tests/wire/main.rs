//! What is asserted of the times at which frames and answers pass. `tests/run.sh` runs these suites one
//! after the other, first in line for a processor. What the kernel is the judge of is here as well.

mod announce;
mod control_plane;
mod failover;
mod failover_bench;
mod failover_rig;
mod forwarding_table;
mod keeper;
mod kernel_address;
mod livez;
mod livez_bench;
mod netlab_rig;
mod netns;
mod nft_table;
mod responder;
mod rolling;
