//! Linode.
//!
//! Of an account's Linodes all are listed, or those with one tag (`--linode-tag-filter`). Where
//! VPCs are configured, what a Linode has in them comes first among its addresses. A Linode outside
//! of the VPCs is a machine like any other: the Go controller held it for deleted.

mod api;
mod config;
mod facts;
mod flags;
mod pages;
mod vpcs;

use std::sync::Arc;

use async_trait::async_trait;
use mooring_common::provider_id::ProviderId;

use super::{Machine, MachineSource};
use crate::cloud_api::{Client, CloudError, Limits, Metrics};
use api::Instance;
pub use config::Config;
use facts::Describe;
pub use flags::Flags;
use vpcs::{VpcAddresses, Vpcs};

/// The provider's name, and the scheme of its IDs.
pub const NAME: &str = "linode";

/// The provider.
#[derive(Debug)]
pub struct Linode {
    client: Client,
    tag: Option<String>,
    describe: Describe,
    vpcs: Vpcs,
}

impl Linode {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// [`CloudError`] if the configuration's certificates or proxies cannot be used.
    pub fn new(config: Config, limits: Limits, metrics: Metrics) -> Result<Arc<Self>, CloudError> {
        for notice in &config.notices {
            tracing::warn!("{notice}");
        }
        Ok(Arc::new(Self {
            client: Client::new(NAME, config.connection, &api::ErrorShape, limits, metrics)?,
            tag: config.flags.tag,
            describe: Describe {
                external_subnet: config.external_subnet,
            },
            vpcs: Vpcs::new(config.flags.vpcs),
        }))
    }

    /// Whether the token is known, for `--enable-token-health-checker`.
    ///
    /// # Errors
    /// [`CloudError`], of the kind `Unauthorized` if it is not.
    pub async fn check_token(&self) -> Result<(), CloudError> {
        self.client.call(&api::profile()).await
    }

    async fn describe(&self, instance: &Instance) -> Result<Machine, CloudError> {
        let vpcs = match self.vpcs.read(&self.client).await {
            Ok(addresses) => addresses.map(|mut all| all.remove(&instance.id).unwrap_or_default()),
            Err(error) => {
                // That it exists is known all the same, and unknown addresses change nothing.
                tracing::warn!(%error, "the addresses in the VPCs cannot be read");
                return self.machine(instance, None);
            }
        };
        self.machine(instance, Some(&vpcs.unwrap_or_default()))
    }

    fn machine(
        &self,
        instance: &Instance,
        vpcs: Option<&VpcAddresses>,
    ) -> Result<Machine, CloudError> {
        self.describe.machine(instance, vpcs).map_err(|error| {
            CloudError::new(
                NAME,
                crate::cloud_api::ErrorKind::Malformed,
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

    async fn list(&self) -> Result<Vec<Machine>, CloudError> {
        let mut vpcs = self.vpcs.read(&self.client).await?;
        let instances = pages::all(&self.client, &api::instances(self.tag.as_deref())).await?;
        let nowhere = VpcAddresses::default();
        let describe = |instance: &Instance| {
            let own = vpcs.as_mut().and_then(|all| all.remove(&instance.id));
            self.machine(instance, Some(own.as_ref().unwrap_or(&nowhere)))
        };
        instances.iter().map(describe).collect()
    }

    async fn get(&self, id: &ProviderId) -> Result<Option<Machine>, CloudError> {
        match self.client.fetch(&api::instance(id.instance())).await {
            Ok(instance) => self.describe(&instance).await.map(Some),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
