//! Blocks and Services for tests.

use super::super::model::{Block, BlockStatus};

/// A block that is free, without tags.
pub(crate) fn block(id: &str, cidr: &str) -> Block {
    Block {
        id: id.to_owned(),
        location: "PHX".to_owned(),
        cidr: cidr.parse().unwrap(),
        status: BlockStatus::Unassigned,
        holder: None,
        tags: Vec::new(),
        created: None,
    }
}
