//! A real control plane, Mooring as it is shipped on it, and what tests do with its objects.
//!
//! | module | what it gives |
//! |---|---|
//! | [`api_proxy`] | failures and races between a program and the API server |
//! | [`attacks`] | what attackers have, and what they write |
//! | [`cluster`] | an API server with the shipped manifests, exclusive or shared, and Mooring's programs on it |
//! | [`control_plane`] | a real etcd, kube-apiserver and kube-controller-manager, clients for any identity, the audit log |
//! | [`endpoints`] | what central serves by HTTPS |
//! | [`machines_file`] | the provider's file, and its changes |
//! | [`objects`] | short ways to make Nodes, Services, Pods and to read Events |
//! | [`shipped`] | the shipped manifests in force, and central under its ServiceAccount |
//! | [`test_namespace`] | Services and L2Networks of one test, and what has become of them |

pub mod api_proxy;
pub mod attacks;
pub mod cluster;
pub mod control_plane;
pub mod endpoints;
pub mod machines_file;
pub mod objects;
pub mod shipped;
pub mod test_namespace;
