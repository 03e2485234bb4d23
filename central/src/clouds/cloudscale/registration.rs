//! What cloudscale.ch registers.

use std::sync::Arc;

use super::{Cloudscale, Config, LIMITS, NAME, annotations};
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, FromEnvironment, OpenContext, Registration,
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
    read: |_| {
        Arc::new(FromEnvironment {
            flags: (),
            read: |env| Config::read(env),
            open,
        })
    },
};

fn open(config: Config, (): (), context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let cloudscale = Cloudscale::new(config, context.limits.or(LIMITS), context.requests)?;
    let inventory = Arc::new(Inventory::new(cloudscale.clone()));
    let load_balancers = cloudscale.load_balancers(inventory.clone());
    let mut cloud = Cloud::of(inventory);
    cloud.load_balancers = Some(Box::new(|_, _| load_balancers));
    Ok(cloud)
}
