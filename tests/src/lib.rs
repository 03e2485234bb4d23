//! What Mooring's suites stand on.
//!
//! | module | what it gives |
//! |---|---|
//! | [`control_plane`] | a real etcd, kube-apiserver and kube-controller-manager, clients for any identity, the audit log |
//! | [`netlab`] | nodes and clients as network namespaces on a bridge, with every frame captured |
//! | [`program`] | `mooring-central` and `mooring-node`, started as users start them |
//! | [`objects`] | short ways to make Nodes, Services, Pods and to read Events |
//! | [`wait`] | waiting for conditions, and proving that something does not happen |
//!
//! Nothing here outlives the test program, however that ends. `KEEP=1` keeps files for a look.

pub mod control_plane;
pub mod netlab;
pub mod objects;
pub mod process;
pub mod program;
pub mod scratch;
pub mod wait;
