//! Nodes that describe themselves from the metadata of their clouds, by real daemons in namespaces
//! of their own, each with its metadata service on the link-local address.

mod cluster;
mod failures;
mod sources;
mod upkeep;
mod with_central;
