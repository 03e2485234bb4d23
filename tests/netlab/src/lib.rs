//! Nodes and clients as network namespaces on a bridge, and a whole cluster on them.
//!
//! | module | what it gives |
//! |---|---|
//! | [`control_plane_nodes`] | nodes of a control plane behind one address, without a cluster |
//! | [`failover`] | what users of an address notice when something fails |
//! | [`fake_proxy`] | a service proxy that says what a test wants |
//! | [`metadata_sim`] | the metadata services of clouds, and their failures |
//! | [`netlab`] | nodes and clients as network namespaces on a bridge, with every frame captured |
//! | [`netlab_cluster`] | a whole small cluster on a lab's bridge, with Mooring as it is shipped |
//! | [`vm`] | a small virtual machine whose kernel has VLANs, for what the machine's own may lack |

pub mod control_plane_nodes;
pub mod failover;
pub mod fake_proxy;
pub mod metadata_sim;
pub mod netlab;
pub mod netlab_cluster;
pub mod vm;
