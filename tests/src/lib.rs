//! What Mooring's suites stand on.
//!
//! | module | what it gives |
//! |---|---|
//! | [`cluster`] | an API server with the shipped manifests, exclusive or shared, and Mooring's programs on it |
//! | [`attacks`] | what attackers have, and what they write |
//! | [`control_plane`] | a real etcd, kube-apiserver and kube-controller-manager, clients for any identity, the audit log |
//! | [`netlab`] | nodes and clients as network namespaces on a bridge, with every frame captured |
//! | [`mod@bench`] | what all benches share |
//! | [`bench_nodes`] | what `make bench-nodes` measures: thousands of Nodes |
//! | [`bench_failover`] | what `make bench-failover` measures: outages, fault by fault |
//! | [`bench_livez`] | what `make bench-livez` measures: health checks, beside kube-proxy's |
//! | [`bench_cloudscale`] | what `make bench-cloudscale` measures: load balancers of cloudscale.ch |
//! | [`bench_phoenixnap`] | what `make bench-phoenixnap` measures: addresses of Services at PhoenixNAP |
//! | [`sweep`] | what `make sweep-cloudscale` does: something goes wrong at each single call |
//! | [`netlab_cluster`] | a whole small cluster on a lab's bridge, with Mooring as it is shipped |
//! | [`failover`] | what users of an address notice when something fails |
//! | [`demo`] | what `make demo`, `make demo-baremetal` and `make demo-attack` show |
//! | [`program`] | `mooring-central` and `mooring-node`, started as users start them |
//! | [`machines_file`] | the provider's file, and its changes |
//! | [`metadata_sim`] | the metadata services of clouds, and their failures |
//! | [`api_proxy`] | failures and races between a program and the API server |
//! | [`shipped`] | the shipped manifests in force, and central under its ServiceAccount |
//! | [`cloud_sim`] | the APIs of real clouds, simulated: machines that a test changes, failures that it chooses, a log |
//! | [`endpoints`] | what central serves by HTTPS |
//! | [`sim`] | what `make sim` does: the fail-over protocol in a simulated world |
//! | [`test_namespace`] | Services and L2Networks of one test, and what has become of them |
//! | [`objects`] | short ways to make Nodes, Services, Pods and to read Events |
//! | [`figures`] | the figures that the docs speak of, printed where `make test` finds them |
//! | [`vm`] | a small virtual machine whose kernel has VLANs, for what the machine's own may lack |
//! | [`wait`] | waiting for conditions, and proving that something does not happen |
//!
//! Nothing here outlives the test program, however that ends. `KEEP=1` keeps files for a look.

pub mod api_proxy;
pub mod attacks;
pub mod bench;
pub mod bench_cloudscale;
pub mod bench_failover;
pub mod bench_livez;
pub mod bench_nodes;
pub mod bench_phoenixnap;
pub mod cloud_sim;
pub mod cluster;
pub mod control_plane;
pub mod demo;
pub mod endpoints;
pub mod failover;
pub mod figures;
pub mod machines_file;
pub mod metadata_sim;
pub mod netlab;
pub mod netlab_cluster;
pub mod objects;
pub mod process;
pub mod program;
pub mod scratch;
pub mod shipped;
pub mod sim;
pub mod sweep;
pub mod test_namespace;
pub mod vm;
pub mod wait;
