//! IP blocks that nobody gives back, since the configuration does not say how Services get addresses.

use std::sync::Arc;

use mooring_common::names::phoenixnap_tags as tags;

use super::super::api::blocks::BlockCloud as _;
use super::super::api::ip_blocks::Block;
use super::super::api::{Api, Tag};
use super::ownership::{Owned, Owner, cluster_of};

/// Warns once of the marked blocks that there are, of whatever cluster. If they cannot be listed, nothing is
/// said: for Nodes alone the credential need not permit it.
pub(in crate::clouds::phoenixnap) async fn tell(api: Arc<Api>) {
    let bought = Tag::new(tags::USAGE, tags::USAGE_VALUE);
    match api.blocks(&[bought]).await {
        Ok(blocks) => {
            if let Some(warning) = warning(blocks.read) {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::debug!(%error, "it is not known whether there are IP blocks"),
    }
}

fn warning(blocks: Vec<Block>) -> Option<String> {
    let marked = blocks.into_iter().filter_map(|block| {
        let cluster = cluster_of(&block)?.to_owned();
        let owned = Owned::of(block, &cluster)?;
        let words = format!("{} of the cluster {cluster}", owned.block);
        (owned.owner == Owner::Marked).then_some(words)
    });
    let marked: Vec<String> = marked.collect();
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
    use super::super::ownership::{marked, of_new};
    use super::super::testing::block;
    use super::*;

    #[test]
    fn names_marked_blocks_and_their_cluster() {
        let pool = of_new("c", &Owner::Pool("net".to_owned()));
        let mut used = block("used", "203.0.113.8/29");
        used.tags.clone_from(&pool);
        let mut released = block("marked", "203.0.113.16/29");
        released.tags = marked(&pool);
        assert_eq!(warning(vec![used.clone()]), None);
        let told = warning(vec![used, released]).unwrap();
        let named = "IP block marked (203.0.113.16/29) of the cluster c";
        assert!(told.contains(named) && !told.contains("used"), "{told}");
    }
}
