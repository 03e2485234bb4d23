//! Central in the place of the Go controllers of cloudscale.ch and Linode: under their ServiceAccounts and
//! ClusterRoles, with the arguments and the environment of their manifests. Only the image is swapped.

mod cluster;
mod events;
mod linode;
mod start;
