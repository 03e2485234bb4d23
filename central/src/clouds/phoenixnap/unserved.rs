//! IP blocks that nobody gives back, since the configuration does not say how Services get addresses.

use std::sync::Arc;

use mooring_common::names::phoenixnap_tags as tags;

use super::api::blocks::BlockCloud as _;
use super::api::ip_blocks::Block;
use super::api::{Api, Tag};

/// Warns once of the marked blocks that there are, of whatever cluster. If they cannot be listed, nothing is
/// said: for Nodes alone the credential need not permit it.
pub(super) async fn tell(api: Arc<Api>) {
    let bought = Tag::new(tags::USAGE, tags::USAGE_VALUE);
    match api.blocks(&[bought]).await {
        Ok(blocks) => {
            if let Some(warning) = warning(&blocks) {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::debug!(%error, "it is not known whether there are IP blocks"),
    }
}

fn warning(blocks: &[Block]) -> Option<String> {
    let value = |block: &Block, name: &str| {
        let tag = block.tags.iter().find(|tag| tag.name == name)?;
        tag.value.clone()
    };
    let marked = blocks.iter().filter(|block| {
        let delete = value(block, tags::DELETE);
        delete.as_deref() == Some(tags::DELETE_VALUE)
    });
    let words = marked.map(|block| {
        let cluster = value(block, tags::CLUSTER);
        format!(
            "{block} of the cluster {}",
            cluster.as_deref().unwrap_or("?")
        )
    });
    let marked: Vec<String> = words.collect();
    (!marked.is_empty()).then(|| {
        format!(
            "PNAP_LOAD_BALANCER is empty, so that IP blocks which are to be given back stay, and are billed: \
             {}. For blocks of this cluster set it again until they and the Services that are being deleted \
             are gone, or give them back in the portal",
            marked.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::ip_blocks::testing::block;
    use super::*;

    #[test]
    fn names_marked_blocks_and_their_cluster() {
        let used = block("used", "203.0.113.8/29");
        let mut marked = block("marked", "203.0.113.16/29");
        marked.tags = vec![Tag::new("cluster", "c"), Tag::new("delete", "true")];
        assert_eq!(warning(std::slice::from_ref(&used)), None);
        let told = warning(&[used, marked]).unwrap();
        let named = "IP block marked (203.0.113.16/29) of the cluster c";
        assert!(told.contains(named) && !told.contains("used"), "{told}");
    }
}
