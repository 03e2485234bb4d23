//! The clouds that the flags ask for, opened with the credentials in the environment.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use kube::Client;
use prometheus_client::registry::Registry;

use crate::cloud_api::{Fault, Metrics};
use crate::clouds::cloudlycke::Cloudlycke;
use crate::clouds::cloudscale::{self, Cloudscale};
use crate::clouds::linode::{self, Linode};
use crate::clouds::load_balancers::LoadBalancers;
use crate::clouds::phoenixnap::{self, PhoenixNap};
use crate::clouds::{Clouds, Instances};
use crate::flags::{Flags, Provider};
use crate::inventory::Inventory;

/// What was opened.
pub struct Opened {
    /// All clouds.
    pub clouds: Arc<Clouds>,
    /// The one whose machines a file describes, if it is among them.
    pub machines: Option<Arc<Cloudlycke>>,
    /// The load balancers of those clouds that have any, in the order of `--cloud-provider`, but for those
    /// that [`Opened::with_cluster`] makes.
    pub load_balancers: Vec<Arc<dyn LoadBalancers>>,
    /// PhoenixNAP with its machines: its load balancers are made when the cluster can be asked.
    pub phoenixnap: Option<(Arc<PhoenixNap>, Arc<Inventory>)>,
    /// Linode, if its token is to be checked again and again.
    pub token_checked: Option<Arc<Linode>>,
    /// The providers' names, in the order of `--cloud-provider`.
    order: Vec<String>,
}

/// Opens them. The variables of all clouds are read before any is used, so that whatever is wrong
/// with them is told at once.
///
/// # Errors
/// Whatever keeps one from being used, with what to do about it.
pub async fn open(flags: &Flags, registry: &mut Registry) -> anyhow::Result<Opened> {
    let names = flags.choice.providers.iter().map(ToString::to_string);
    let order: Vec<String> = names.collect();
    tracing::info!(
        providers = order.join(","),
        because = flags.choice.because,
        "chosen"
    );
    let env = |variable: &str| std::env::var(variable).ok();
    let has_machines = flags.choice.providers.contains(&Provider::Cloudlycke);
    let mut faults = Vec::new();
    let mut linode = None;
    let mut cloudscale = None;
    let mut phoenixnap = None;
    for provider in &flags.choice.providers {
        match provider {
            Provider::Linode => {
                let read = linode::Config::read(&env, flags.linode.clone());
                linode = read.map_err(|found| faults.extend(found)).ok();
            }
            Provider::Cloudscale => {
                let read = cloudscale::Config::read(&env);
                cloudscale = read.map_err(|found| faults.extend(found)).ok();
            }
            Provider::PhoenixNap => {
                let path = flags.cloud_config.as_deref().filter(|_| !has_machines);
                let read = phoenixnap::Config::read(&env, path, flags.phoenixnap.clone());
                phoenixnap = read.map_err(|found| faults.extend(found)).ok();
            }
            Provider::Cloudlycke => {}
        }
    }
    if !faults.is_empty() {
        bail!("the configuration cannot be used:\n{}", list(&faults));
    }
    let mut clouds: Vec<Arc<dyn Instances>> = Vec::new();
    let mut machines = None;
    let mut token_checked = None;
    let mut load_balancers: Vec<Arc<dyn LoadBalancers>> = Vec::new();
    let mut bare_metal = None;
    let metrics = Metrics::register(registry);
    if let Some(config) = linode {
        let checks_token = config.flags.checks_token;
        let opened = Linode::new(config, flags.limits.or(linode::LIMITS), metrics.clone())?;
        if checks_token {
            opened.check_token().await.context(TOKEN_CHECK)?;
            token_checked = Some(opened.clone());
        }
        clouds.push(Arc::new(Inventory::new(opened)));
    }
    if let Some(config) = cloudscale {
        let is_read = has_machines || flags.choice.providers.contains(&Provider::PhoenixNap);
        if flags.cloud_config.is_some() && !is_read {
            tracing::warn!("--cloud-config is ignored: cloudscale reads its environment alone");
        }
        let opened = Cloudscale::new(config, flags.limits.or(cloudscale::LIMITS), metrics.clone())?;
        let inventory = Arc::new(Inventory::new(opened.clone()));
        load_balancers.push(opened.load_balancers(inventory.clone()));
        clouds.push(inventory);
    }
    if let Some(config) = phoenixnap {
        let opened = PhoenixNap::new(config, flags.limits.or(phoenixnap::LIMITS), metrics)?;
        opened.check().await?;
        let inventory = Arc::new(Inventory::new(opened.clone()));
        clouds.push(inventory.clone());
        bare_metal = Some((opened, inventory));
    }
    if has_machines {
        let opened = Arc::new(Cloudlycke::open(flags.cloud_config.clone()).await?);
        clouds.push(opened.clone());
        machines = Some(opened);
    }
    Ok(Opened {
        clouds: Arc::new(Clouds::new(clouds)),
        machines,
        load_balancers,
        phoenixnap: bare_metal,
        token_checked,
        order,
    })
}

impl Opened {
    /// Makes the load balancers of a cloud whose load balancers are partly in the cluster. `identity`
    /// is this process' name.
    #[must_use]
    pub fn with_cluster(mut self, client: &Client, identity: &str) -> Self {
        if let Some((phoenixnap, inventory)) = &self.phoenixnap {
            let made = phoenixnap.load_balancers(inventory.clone(), client.clone(), identity);
            self.load_balancers.extend(made);
        }
        let place = |cloud: &Arc<dyn LoadBalancers>| {
            let mut order = self.order.iter();
            order.position(|name| name == cloud.provider())
        };
        self.load_balancers.sort_by_key(place);
        self
    }

    /// Ends if the token is refused that `--enable-token-health-checker` asks to check.
    ///
    /// # Errors
    /// Always, with the cloud's words.
    pub async fn until_token_is_refused(linode: Arc<Linode>) -> anyhow::Result<()> {
        Err(linode.until_token_is_refused().await).context(TOKEN_CHECK)
    }
}

const TOKEN_CHECK: &str = "the token that --enable-token-health-checker asks to check";

fn list(faults: &[Fault]) -> String {
    let lines = faults.iter().map(|fault| format!("  * {fault}"));
    lines.collect::<Vec<_>>().join("\n")
}
