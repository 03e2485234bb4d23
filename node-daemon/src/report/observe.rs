//! The own Node, and what the metadata source says of the machine.

use std::sync::Arc;

use mooring_common::node_view::NodeView;

use super::OwnNode;
use super::metadata::{MetadataError, MetadataSource, SourceAnswer};

/// What a pass goes by.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) node: NodeView,
    pub(super) machine: Arc<Result<SourceAnswer, MetadataError>>,
}

/// `None`: the Node has not registered.
pub(super) async fn observe(own: &OwnNode, source: &dyn MetadataSource) -> Option<Observed> {
    let node = own.get()?;
    Some(observe_node((*node).clone(), source).await)
}

/// The same for the Node as it was just read.
pub(super) async fn observe_node(node: NodeView, source: &dyn MetadataSource) -> Observed {
    let machine = Arc::new(source.facts(&node.machine).await);
    Observed { node, machine }
}
