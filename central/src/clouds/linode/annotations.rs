//! Every annotation of Nodes at Linode, as its Go controller writes them.

use mooring_common::names::annotations as keys;

use crate::cloud_provider::annotations::{Annotation, Form};

/// All of them, in the order of the reference page.
pub const ALL: &[&Annotation] = &[
    &on_node(
        keys::LINODE_PRIVATE_IP,
        "an IPv4 address",
        "the first private address of `ipv4`",
    ),
    &on_node(
        keys::LINODE_PUBLIC_IPV6,
        "an IPv6 address and its prefix length",
        "`ipv6`",
    ),
];

const fn on_node(key: &'static str, legal: &'static str, effect: &'static str) -> Annotation {
    Annotation::new(key, Form::Other(["", legal]), effect)
        .written()
        .on_nodes()
}
