//! A block is bought.

use async_trait::async_trait;

use super::super::api::blocks::Order;
use super::ownership::{self, Owned, Owner};
use super::state::Blocks;
use crate::cloud_api::CloudError;
use crate::engine::address_blocks::Buy;

#[async_trait]
impl Buy for Blocks {
    /// Its location, and its prefix length.
    type Order = (String, u8);

    async fn order(
        &mut self,
        (location, prefix): &Self::Order,
        owner: &Owner,
        cluster: &str,
    ) -> Result<Option<Owned>, CloudError> {
        let order = Order {
            location: location.clone(),
            prefix: *prefix,
            tags: ownership::of_new(cluster, owner),
        };
        let bought = self.cloud.buy(&order).await;
        let block = bought.inspect_err(|error| self.doubts_tags(error))?;
        tracing::info!(id = block.id, cidr = %block.cidr, "bought an IP block");
        Ok(Owned::of(block, cluster))
    }

    fn bought(&mut self, block: Owned) {
        self.state.bought(block);
        self.count();
    }
}
