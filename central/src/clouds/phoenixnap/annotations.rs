//! Every annotation of PhoenixNAP: that of Services which its Go controller reads, and those of Nodes that
//! BGP speakers read.

use crate::cloud_provider::annotations::{Annotation, Form};

pub(super) const IP_LOCATION: Annotation = Annotation::new(
    "phoenixnap.com/ip-location",
    Form::Other([
        "the location of the public network",
        "a location, such as `PHX`",
    ]),
    "on a Service: where its IP block is. One that differs from the network's is refused; with a location \
     configured it is not read. `PNAP_ANNOTATION_IP_LOCATION` gives it another key",
);
pub(super) const BGP_PEERS: Annotation = Annotation::new(
    "phoenixnap.com/bgp-peers-",
    Form::Other([
        "",
        "followed by `<N>-node-asn`, `-peer-asn`, `-peer-ip`, `-src-ip`, `-peer-multi-hop`",
    ]),
    "on a Node, written by central with `bgp://`: the BGP peers, counted from 0",
)
.written()
.on_nodes();

/// All of them, in the order of the reference page.
pub const ALL: &[&Annotation] = &[&IP_LOCATION, &BGP_PEERS];
