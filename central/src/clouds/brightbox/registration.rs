//! What Brightbox registers.

use std::sync::Arc;

use futures::FutureExt as _;

use super::config::{CLIENT, USER};
use super::{Brightbox, Config, LIMITS, NAME};
use crate::cloud_api::Fault;
use crate::cloud_provider::pod_network::PodNetwork;
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, Configure, OpenCloud, OpenContext, Registration, Source,
};
use crate::engine::inventory::Inventory;

/// It.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: Some("brightbox-cloud-controller-manager"),
    credentials: &[CLIENT, USER],
    limits: Some(LIMITS),
    config_file: ConfigFile::None,
    annotations: &[],
    flags: &[],
    read: |_| Arc::new(Environment),
};

/// All is in the environment.
#[derive(Debug)]
struct Environment;

impl Configure for Environment {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let config = Config::read(source.env)?;
        Ok(Box::new(|context| open(config, context).boxed()))
    }
}

async fn open(config: Config, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let brightbox = Brightbox::new(config, context.limits.or(LIMITS), context.requests)?;
    Ok(Cloud {
        instances: Arc::new(Inventory::new(brightbox)),
        load_balancers: None,
        networks: None,
        pod_network: PodNetwork::default(),
        background: None,
        obstacle: None,
    })
}
