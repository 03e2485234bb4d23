//! `--endpoint-aware-members`: what users notice while Pods are exchanged and Nodes drained, with it and
//! without; and what it asks of the cloud.

mod clients;
mod cluster;
mod members;
mod nodes;
mod rollout;
