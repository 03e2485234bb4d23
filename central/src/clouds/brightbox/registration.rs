//! What Brightbox registers.

use std::sync::Arc;

use futures::FutureExt as _;

use super::config::{CLIENT, USER};
use super::{Brightbox, Config, LIMITS, NAME, annotations, load_balancers};
use crate::cloud_api::{Fault, FirstAnswer};
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
    annotations: annotations::ALL,
    flags: &[],
    read: |reader| Arc::new(ClusterName(reader.text("cluster-name"))),
};

/// The name of a cluster that gives itself none.
const CLUSTER: &str = "kubernetes";

/// `--cluster-name`: what the names of all that is made end with.
#[derive(Debug)]
struct ClusterName(Option<String>);

impl Configure for ClusterName {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let config = Config::read(source.env)?;
        let cluster = self.0.as_deref().unwrap_or(CLUSTER).to_owned();
        Ok(Box::new(|context| {
            async { open(config, cluster, context) }.boxed()
        }))
    }
}

fn open(config: Config, cluster: String, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let brightbox = Brightbox::new(config, context.limits.or(LIMITS), context.requests)?;
    let inventory = Arc::new(Inventory::new(brightbox.clone()));
    let mut cloud = Cloud::of(inventory.clone());
    cloud.awaits(FirstAnswer::new(brightbox.clone(), brightbox.accounts()));
    cloud.load_balancers = Some(Box::new(|_, _| {
        load_balancers::of_account(brightbox, inventory, cluster)
    }));
    Ok(cloud)
}
