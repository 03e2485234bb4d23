//! Which cloud makes routes to Pods, and which gives out pod CIDRs.

use std::sync::Arc;

use anyhow::bail;
use ipnet::Ipv4Net;

use crate::cloud_api::Fault;
use crate::cloud_provider::pod_network::{NodeIpam, PodNetwork, Routes};
use crate::controllers::routes::Options;
use crate::flags::Flags;

/// What the flags ask for, as far as there is a cloud that has it.
pub(super) struct PodNetworks {
    pub(super) routes: Option<(Arc<dyn Routes>, Options)>,
    pub(super) ipam: Option<(NodeIpam, Ipv4Net)>,
}

impl PodNetworks {
    /// One cloud of this version has either.
    ///
    /// # Errors
    /// If the flags do not say what it takes.
    pub(super) fn new(flags: &Flags, clouds: &[PodNetwork]) -> anyhow::Result<Self> {
        let asked = &flags.pod_network;
        let mut faults: Vec<Fault> = Vec::new();
        let routes = clouds.iter().find_map(|cloud| cloud.routes.clone());
        let routes = routes.filter(|_| asked.routes && flags.controllers.route);
        let routes = routes.and_then(|routes| match asked.for_routes() {
            Ok(cluster_cidrs) => {
                let options = Options {
                    cluster_cidrs,
                    period: asked.period,
                    delete_orphans: flags.services.delete_orphans,
                };
                Some((routes, options))
            }
            Err(fault) => {
                faults.push(fault);
                None
            }
        });
        let ipam = clouds.iter().find_map(|cloud| cloud.node_ipam.clone());
        if asked.allocates && ipam.is_none() {
            tracing::warn!(
                "--allocate-node-cidrs has no effect: no cloud here gives out pod CIDRs"
            );
        }
        let ipam = ipam.filter(|_| asked.allocates).and_then(|ipam| {
            match asked.for_allocation(ipam.ipv4_mask, ipam.ipv4_mask_flag) {
                Ok(cluster_cidr) => Some((ipam, cluster_cidr)),
                Err(fault) => {
                    faults.push(fault);
                    None
                }
            }
        });
        if !faults.is_empty() {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            bail!("the flags cannot be used:\n  * {}", faults.join("\n  * "));
        }
        Ok(Self { routes, ipam })
    }
}
