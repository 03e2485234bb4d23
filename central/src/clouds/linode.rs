//! Linode.
//!
//! Of an account's Linodes all are listed, or those with one tag (`--linode-tag-filter`). Where
//! VPCs are configured, what a Linode has in them comes first among its addresses. A Linode outside
//! of the VPCs is a machine like any other: the Go controller held it for deleted.

pub mod annotations;
mod api;
mod config;
mod facts;
mod flags;
mod go_names;
mod interfaces;
mod load_balancers;
mod node_ranges;
mod registration;
mod routes;
mod vpcs;

use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use crate::cloud_api::{Client, CloudError, ErrorKind, Kind, Limits, Metrics};
use crate::cloud_provider::{Machine, MachineSource};
use crate::engine::listing::Listings;
use api::{INSTANCES, Instance, VpcRow};
pub use config::{Config, Settings};
use facts::Describe;
pub use flags::{BackendSubnet, Flags, VpcChoice};
pub use registration::REGISTRATION;
use vpcs::{VpcAddresses, Vpcs};

/// The provider's name, and the scheme of its IDs.
pub const NAME: &str = "linode";

/// How often it is asked if the flags do not say. Linode takes 1,600 requests each minute, for the whole account:
/// what a burst and what comes after it leave of them is for others.
pub const LIMITS: Limits = Limits {
    qps: 20.0,
    burst: 40,
};

/// Of those, 200 may be for pages of listings. A burst and what comes after it are no more than that.
const LISTINGS: Limits = Limits {
    qps: 3.0,
    burst: 20,
};

/// The provider.
#[derive(Debug)]
pub struct Linode {
    client: Arc<Client>,
    settings: Settings,
    describe: Describe,
    vpcs: Arc<Vpcs>,
    /// All that Linodes have in the chosen subnets of VPCs.
    vpc_rows: Listings<VpcRow>,
}

impl AsRef<Client> for Linode {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

impl Linode {
    /// All of a kind, as far as they belong to these.
    async fn all<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        of: &[&str],
    ) -> Result<Vec<T>, CloudError> {
        self.client.all_pages(&api::all(kind, of)).await
    }

    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the configuration's certificates or proxies cannot be used.
    pub fn new(config: Config, limits: Limits, metrics: Metrics) -> Result<Arc<Self>, CloudError> {
        for notice in &config.notices {
            tracing::warn!("{notice}");
        }
        let flags = &config.settings.flags;
        let client = Client::new(NAME, config.connection, &api::ErrorShape, limits, metrics)?;
        let client = client.listing_limits(LISTINGS);
        let client = Arc::new(client.logging_exchanges(flags.logs_exchanges));
        let vpcs = Arc::new(Vpcs::new(client.clone(), flags.vpcs.clone()));
        Ok(Arc::new(Self {
            client,
            describe: Describe {
                external_subnet: config.settings.external_subnet,
            },
            vpc_rows: Listings::of(NAME, &vpcs, |vpcs| async move { vpcs.rows().await }),
            vpcs,
            settings: config.settings,
        }))
    }

    /// That it exists is known even if the VPCs cannot be read, and addresses that are not known
    /// change nothing. Nor are the VPCs read anew for the sake of one.
    async fn describe(&self, instance: &Instance) -> Result<Machine, CloudError> {
        let vpcs = match self.vpc_rows.get(None).await {
            Ok(rows) => {
                let mut all = vpcs::addresses(&rows.all);
                Some(all.remove(&instance.id).unwrap_or_default())
            }
            Err(error) => {
                tracing::warn!(%error, "what a Linode has in the VPCs cannot be read");
                None
            }
        };
        self.machine(instance, vpcs.as_ref())
    }

    fn machine(
        &self,
        instance: &Instance,
        vpcs: Option<&VpcAddresses>,
    ) -> Result<Machine, CloudError> {
        self.describe.machine(instance, vpcs).map_err(|error| {
            CloudError::new(
                NAME,
                ErrorKind::Malformed,
                format!("Linode {}: {error}", instance.id),
            )
        })
    }
}

#[async_trait]
impl MachineSource for Linode {
    fn provider(&self) -> &'static str {
        NAME
    }

    fn parse_id(&self, provider_id: &str) -> Result<ProviderId, String> {
        facts::parse_id(provider_id)
    }

    fn credentials(&self) -> u64 {
        self.client.credentials()
    }

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let rows = self.vpc_rows.get(Instant::now()).await?;
        let mut vpcs = vpcs::addresses(&rows.all);
        let tag = self.settings.flags.tag_filter.as_ref();
        let filter = tag.map_or_else(|| json!({}), |tag| json!({"tags": {"+contains": tag}}));
        let request = api::filtered(&INSTANCES, &[], &filter);
        let instances: Vec<Instance> = self.client.all_pages(&request).await?;
        let describe = |instance: &Instance| {
            let own = vpcs.remove(&instance.id).unwrap_or_default();
            self.machine(instance, Some(&own))
        };
        instances.iter().map(describe).collect()
    }

    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        let request = INSTANCES.get(&[], id.instance());
        match self.client.find::<Instance>(&request).await? {
            Some(instance) if instance.id.to_string() != id.instance() => {
                Err(self.client.malformed(&request, "another Linode was given"))
            }
            Some(instance) => self.describe(&instance).await.map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
