//! The clouds that the flags ask for, opened with what the environment says of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use kube::Client;
use prometheus_client::registry::Registry;

use crate::cloud_api::{Fault, Metrics};
use crate::cloud_provider::load_balancers::LoadBalancers;
use crate::cloud_provider::pod_network::PodNetwork;
use crate::cloud_provider::registration::{
    Background, Cloud, ConfigFile, MakeLoadBalancers, Networks, Obstacle, OpenContext,
    Registration, Source,
};
use crate::cloud_provider::{Clouds, ForeignPool};
use crate::clouds::CLOUDS;
use crate::flags::{Flags, NO_CLOUD};

/// What was opened.
pub struct Opened {
    /// All clouds.
    pub clouds: Arc<Clouds>,
    /// Makes their load balancers, in the order of `--cloud-provider`.
    pub load_balancers: Vec<MakeLoadBalancers>,
    /// Where there may be L2Networks: the pools that something else announces.
    pub networks: Vec<Networks>,
    /// What they have for the Pods of Nodes.
    pub pod_networks: Vec<PodNetwork>,
    /// What runs beside the controllers.
    pub background: Vec<Background>,
    /// What may keep this replica from being ready.
    pub obstacles: Vec<Obstacle>,
}

/// Opens them. The variables of all clouds are read before any is used, so that whatever is wrong
/// with them is told at once.
///
/// # Errors
/// Whatever keeps one from being used, with what to do about it.
pub async fn open(flags: &Flags, registry: &mut Registry) -> anyhow::Result<Opened> {
    let chosen = &flags.choice.providers;
    tracing::info!(
        providers = names(chosen).join(","),
        because = flags.choice.because,
        "chosen"
    );
    let env = |variable: &str| std::env::var(variable).ok();
    let owner = owner_of_file(chosen, flags.cloud_config.as_deref());
    let (mut configured, mut faults) = (Vec::new(), Vec::new());
    let clouds = CLOUDS.iter().zip(&flags.clouds);
    for (cloud, read) in clouds.filter(|(cloud, _)| chosen.contains(cloud)) {
        let file = flags.cloud_config.as_deref();
        let file = file.filter(|_| owner == Some(*cloud));
        match read.configure(&Source { env: &env, file }) {
            Ok(open) => configured.push((*cloud, open)),
            Err(found) => faults.extend(found),
        }
    }
    if !faults.is_empty() {
        bail!("the configuration cannot be used:\n{}", list(&faults));
    }
    let requests = Metrics::register(registry);
    let (mut instances, mut load_balancers) = (Vec::new(), Vec::new());
    let (mut networks, mut background, mut obstacles) = (Vec::new(), Vec::new(), Vec::new());
    let mut pod_networks = Vec::new();
    for (cloud, open) in configured {
        let context = OpenContext {
            limits: flags.limits,
            requests: requests.clone(),
            registry,
        };
        let opened: Cloud = open(context).await?;
        instances.push(opened.instances);
        load_balancers.extend(opened.load_balancers.map(|make| (cloud, make)));
        networks.extend(opened.networks);
        pod_networks.push(opened.pod_network);
        background.extend(opened.background);
        obstacles.extend(opened.obstacle);
    }
    if chosen.is_empty() {
        networks.push(Arc::new(ForeignPool::default));
    }
    load_balancers.sort_by_key(|(cloud, _)| chosen.iter().position(|other| other == cloud));
    Ok(Opened {
        clouds: Arc::new(Clouds::new(instances)),
        load_balancers: load_balancers.into_iter().map(|(_, make)| make).collect(),
        networks,
        pod_networks,
        background,
        obstacles,
    })
}

/// The names of clouds, or that there is none.
fn names(clouds: &[&'static Registration]) -> Vec<&'static str> {
    if clouds.is_empty() {
        return vec![NO_CLOUD];
    }
    clouds.iter().map(|cloud| cloud.name).collect()
}

/// The cloud whose configuration `--cloud-config` is.
fn owner_of_file(
    chosen: &[&'static Registration],
    file: Option<&Path>,
) -> Option<&'static Registration> {
    file?;
    let reads = |wanted: fn(ConfigFile) -> bool| {
        let mut chosen = chosen.iter().copied();
        chosen.find(|cloud| wanted(cloud.config_file))
    };
    let own = reads(|file| matches!(file, ConfigFile::Own(_)));
    let owner = own.or_else(|| reads(|file| matches!(file, ConfigFile::Shared(_))));
    if owner.is_none() {
        let names = names(chosen).join(", ");
        tracing::warn!("--cloud-config is ignored: {names} reads its environment alone");
    }
    owner
}

impl Opened {
    /// Makes the load balancers, in the order of `--cloud-provider`. `identity` is this process' name.
    pub fn make_load_balancers(
        &mut self,
        client: &Client,
        identity: &str,
    ) -> Vec<Arc<dyn LoadBalancers>> {
        let all = std::mem::take(&mut self.load_balancers);
        all.into_iter().map(|make| make(client, identity)).collect()
    }
}

fn list(faults: &[Fault]) -> String {
    let lines = faults.iter().map(|fault| format!("  * {fault}"));
    lines.collect::<Vec<_>>().join("\n")
}
