//! What `make bench-…` and `make sweep-…` run.
//!
//! | module | what it gives |
//! |---|---|
//! | [`mod@bench`] | what all benches share |
//! | [`bench_brightbox`] | what `make bench-brightbox` measures: load balancers of Brightbox |
//! | [`bench_cloudscale`] | what `make bench-cloudscale` measures: load balancers of cloudscale.ch |
//! | [`bench_connections`] | what `make bench-connections` measures: connections that stay with the node that they began at |
//! | [`bench_failover`] | what `make bench-failover` measures: outages, fault by fault |
//! | [`bench_linode`] | what `make bench-linode` measures: NodeBalancers |
//! | [`bench_livez`] | what `make bench-livez` measures: health checks, beside kube-proxy's |
//! | [`bench_nodes`] | what `make bench-nodes` measures: thousands of Nodes |
//! | [`bench_phoenixnap`] | what `make bench-phoenixnap` measures: addresses of Services at PhoenixNAP |
//! | [`sweep`] | what `make sweep-cloudscale`, `make sweep-linode` and `make sweep-brightbox` do: something goes wrong at each single call |

pub mod bench;
pub mod bench_brightbox;
pub mod bench_cloudscale;
pub mod bench_connections;
pub mod bench_failover;
pub mod bench_linode;
pub mod bench_livez;
pub mod bench_nodes;
pub mod bench_phoenixnap;
mod clouds;
pub mod sweep;
