//! What IP blocks cost, as the Billing API rates their use.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::Value;

use super::Api;
use crate::api_objects;
use crate::cloud_api::{CloudError, Entries, Request, plain};
use crate::engine::prices::{HOURS_PER_MONTH, Prices};

api_objects! {
    /// A `PublicSubnetRecord`.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RatedUsage {
        active?: bool,
        price_model?: String,
        /// In US dollars.
        unit_price?: f64,
        metadata?: Value,
    }
}

#[async_trait]
impl Prices for Api {
    async fn per_month(&self) -> Result<BTreeMap<String, f64>, CloudError> {
        let path = "billing/v1/rated-usage/month-to-date";
        let request = Request::get("list_rated_usage", path).query("productCategory", "PUBLIC_IP");
        let records: Entries<RatedUsage> = self.client.fetch(&request).await?;
        let active = records.read.into_iter().filter(|record| record.active);
        let costs = active.filter_map(|record| {
            let is_hourly = plain(&record.price_model) == "hourly";
            let units = if is_hourly { HOURS_PER_MONTH } else { 1.0 };
            let block = record.metadata.get("id")?.as_str()?;
            Some((block.to_owned(), record.unit_price * units))
        });
        Ok(costs.collect())
    }
}
