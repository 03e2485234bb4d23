//! Central in the place of the Go controller of cloudscale.ch: under that one's ServiceAccount and
//! ClusterRole, with the arguments and the environment of its manifest. Only the image is swapped.

mod cluster;
mod events;
mod start;
