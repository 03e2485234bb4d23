//! What cloudscale.ch registers.

use std::sync::Arc;

use futures::FutureExt as _;

use super::{Cloudscale, Config, LIMITS, NAME, annotations};
use crate::cloud_api::Fault;
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, Configure, OpenCloud, OpenContext, Registration, Source,
};
use crate::engine::inventory::Inventory;

/// It.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: Some("cloudscale-cloud-controller-manager"),
    credentials: &["CLOUDSCALE_ACCESS_TOKEN", "CLOUDSCALE_ACCESS_TOKEN_FILE"],
    limits: Some(LIMITS),
    config_file: ConfigFile::None,
    annotations: annotations::ALL,
    flags: &[],
    read: |_| Arc::new(Environment),
};

/// All is in the environment.
#[derive(Debug)]
struct Environment;

impl Configure for Environment {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let config = Config::read(source.env)?;
        Ok(Box::new(|context| async { open(config, context) }.boxed()))
    }
}

fn open(config: Config, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let cloudscale = Cloudscale::new(config, context.limits.or(LIMITS), context.requests)?;
    let inventory = Arc::new(Inventory::new(cloudscale.clone()));
    let load_balancers = cloudscale.load_balancers(inventory.clone());
    let mut cloud = Cloud::of(inventory);
    cloud.load_balancers = Some(Box::new(|_, _| load_balancers));
    Ok(cloud)
}
