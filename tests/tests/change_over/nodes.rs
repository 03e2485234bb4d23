//! The Nodes of a cluster that comes over.

use mooring_common::names::labels;
use mooring_test_cluster::objects::NodeBuilder;

/// The n-th Node as a Go controller describes it: what kind of machine, in which region, with these addresses, each as
/// `InternalIP 10.0.0.1`. It is Ready.
pub(crate) fn described(n: usize, id: &str, region: &str, addresses: &[String]) -> NodeBuilder {
    let node = NodeBuilder::new(&format!("n{n}"))
        .provider_id(id)
        .label(labels::INSTANCE_TYPE, "small")
        .label(labels::INSTANCE_TYPE_BETA, "small")
        .label(labels::REGION, region)
        .label(labels::REGION_BETA, region);
    let addresses = addresses.iter().filter_map(|one| one.split_once(' '));
    let node = addresses.fold(node, |node, (kind, address)| node.address(kind, address));
    node.ready()
}
