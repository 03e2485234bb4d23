//! What Brightbox registers.

use std::sync::Arc;

use super::api;
use super::config::{CLIENT, USER};
use super::{Brightbox, Config, LIMITS, NAME, annotations, load_balancers};
use crate::cloud_api::FirstAnswer;
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, FromEnvironment, OpenContext, Registration,
};
use crate::engine::inventory::Inventory;

/// It.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: Some("brightbox-cloud-controller-manager"),
    credentials: &[CLIENT, USER],
    limits: Some(LIMITS),
    config_file: ConfigFile::None,
    annotations: annotations::ALL,
    flags: &[],
    read: |reader| {
        Arc::new(FromEnvironment {
            flags: reader.text("cluster-name"),
            read: |env| Config::read(env),
            open,
        })
    },
};

/// The name of a cluster that gives itself none.
const CLUSTER: &str = "kubernetes";

/// `cluster`: what the names of all that is made end with.
fn open(
    config: Config,
    cluster: Option<String>,
    context: OpenContext<'_>,
) -> anyhow::Result<Cloud> {
    let brightbox = Brightbox::new(config, context.limits.or(LIMITS), context.requests)?;
    let inventory = Arc::new(Inventory::new(brightbox.clone()));
    let mut cloud = Cloud::of(inventory.clone());
    cloud.awaits(FirstAnswer::new(brightbox.clone(), api::accounts()));
    let cluster = cluster.unwrap_or_else(|| CLUSTER.to_owned());
    cloud.load_balancers = Some(Box::new(|_, _| {
        load_balancers::of_account(brightbox, inventory, cluster)
    }));
    Ok(cloud)
}
