//! What PhoenixNAP registers.

use std::sync::Arc;

use futures::FutureExt as _;
use mooring_common::flags::Action::Act;
use mooring_common::flags::Kind::{Bool, Integer, Text};
use mooring_common::flags::{Flag, flag};
use mooring_common::names::annotations::IP_BLOCK_CLAIM;

use super::ip_blocks::{Blocks, unserved};
use super::setting::Setting;
use super::{Config, Flags, LIMITS, NAME, PhoenixNap, annotations};
use crate::cloud_api::Fault;
use crate::cloud_provider::ForeignPool;
use crate::cloud_provider::registration::{
    Cloud, ConfigFile, Configure, MakeLoadBalancers, Networks, OpenCloud, OpenContext,
    Registration, Source,
};
use crate::engine::cluster::RealCluster;
use crate::engine::inventory::Inventory;
use crate::engine::ip_allocation::BlockMetrics;
use crate::engine::pooled::PooledEngine;
use crate::engine::prices;
use crate::views::service_view::read_annotation;

/// It.
pub const REGISTRATION: Registration = Registration {
    name: NAME,
    program: Some("cloud-provider-phoenixnap"),
    credentials: &["PNAP_CLIENT_ID"],
    limits: Some(LIMITS),
    config_file: ConfigFile::Shared("a JSON file, whatever is in the environment wins over it"),
    annotations: annotations::ALL,
    flags: FLAGS,
    read: |reader| Arc::new(Flags::read(reader)),
};

const GROUP: &str = "PhoenixNAP";

/// One flag a line.
#[rustfmt::skip]
const FLAGS: &[Flag] = &[
    flag(GROUP, "ip-block-size", Text, "", Act, "The size of shared IP blocks that are bought: /28 has 13 addresses that Services can have, /29 has 5. A public network holds 10 blocks at most, of whatever size. Absent: /28. With --ip-block-sharing=false a block is /29, whatever is said here. Blocks at hand are used as they are."),
    flag(GROUP, "ip-block-sharing", Bool, "true", Act, "Give several Services addresses of one block, and buy another when all are full. false: a block for each Service, of which its third address is used, as the Go controller does; a cluster then has 10 Services at most on a public network."),
    flag(GROUP, "max-ip-blocks", Integer, "10", Act, "How many IP blocks the cluster may have altogether: they cost money each month. When there are so many, none is bought, and the Services that wait for one get an Event. 0: none is bought at all."),
    flag(GROUP, "attach-nodes", Bool, "false", Act, "Bring the servers of Nodes into the public network, without addresses there, so that its VLAN reaches them. false: only tell in Events which of them are not in it."),
];

impl Configure for Flags {
    fn configure(&self, source: &Source<'_>) -> Result<OpenCloud, Vec<Fault>> {
        let config = Config::read(source.env, source.file, self.clone())?;
        Ok(Box::new(|context| open(config, context).boxed()))
    }
}

async fn open(config: Config, context: OpenContext<'_>) -> anyhow::Result<Cloud> {
    let phoenixnap = PhoenixNap::new(config, context.limits.or(LIMITS), context.requests)?;
    phoenixnap.check().await?;
    let inventory = Arc::new(Inventory::new(phoenixnap.clone()));
    let machines = inventory.clone();
    let settings = phoenixnap.services.clone();
    if settings.is_none() {
        tokio::spawn(unserved::tell(phoenixnap.api.clone()));
    }
    let is_announced = settings
        .as_ref()
        .is_some_and(|settings| matches!(settings.setting, Setting::L2(_)));
    let load_balancers = settings.map(|settings| -> MakeLoadBalancers {
        let metrics = BlockMetrics::register(context.registry, NAME, settings.flags.max_blocks);
        tokio::spawn(prices::follow(phoenixnap.api.clone(), metrics.clone()));
        read_annotation(&settings.location_annotation);
        Box::new(move |client, identity| {
            let cluster = RealCluster::new(client.clone(), IP_BLOCK_CLAIM);
            let (cloud, identity) = (phoenixnap.api.clone(), identity.to_owned());
            let cluster = Arc::new(cluster);
            let blocks = Blocks::new(cloud, machines, cluster, identity, settings, metrics);
            Arc::new(PooledEngine::new(blocks))
        })
    });
    let mut cloud = Cloud::of(inventory);
    cloud.load_balancers = load_balancers;
    cloud.networks = is_announced.then(|| -> Networks { Arc::new(ForeignPool::default) });
    Ok(cloud)
}
