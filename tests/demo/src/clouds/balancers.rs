//! Load balancers of either cloud, by one set of names.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mooring_cloud_sim::cloud::Cloud;
use mooring_cloud_sim::{cloudscale, linode};
use serde_json::Value;

use super::cluster::Clouds;

/// A load balancer as its cloud has it.
#[derive(Clone, Debug)]
pub(super) struct Balancer {
    pub(super) id: String,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// The names of the Nodes that it sends to.
    pub(super) nodes: BTreeSet<String>,
}

impl Balancer {
    /// Its addresses, for people.
    pub(super) fn told(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        addresses.join(", ")
    }
}

impl Clouds {
    /// All load balancers of a cloud.
    pub(super) fn balancers(&self, cloud: Cloud) -> Vec<Balancer> {
        let sim = self.sim(cloud);
        let linode = sim.linode().into_iter().flat_map(|sim| {
            let all = sim.all(linode::Kind::NodeBalancer);
            let each = all.into_iter().map(|shown| {
                let id = shown["id"].to_string();
                let served = sim.traffic(&id).now();
                (id, vec![shown["ipv4"].clone()], served)
            });
            each.collect::<Vec<_>>()
        });
        let cloudscale = sim.cloudscale().into_iter().flat_map(|sim| {
            let all = sim.all(cloudscale::Kind::LoadBalancer);
            let each = all.into_iter().map(|shown| {
                let id = text(&shown["uuid"]);
                let vips = shown["vip_addresses"].as_array().into_iter().flatten();
                let vips = vips.map(|vip| vip["address"].clone()).collect();
                let served = sim.traffic(&id).now();
                (id, vips, served)
            });
            each.collect::<Vec<_>>()
        });
        let all = linode.chain(cloudscale);
        let named = all.map(|(id, addresses, served)| Balancer {
            id,
            addresses: addresses.iter().filter_map(address).collect(),
            nodes: served
                .values()
                .flatten()
                .map(|at| self.name_at(at))
                .collect(),
        });
        named.collect()
    }

    /// The Node at an address and port; the text itself if there is none.
    fn name_at(&self, endpoint: &str) -> String {
        let address = endpoint
            .rsplit_once(':')
            .map_or(endpoint, |(address, _)| address);
        let mut machines = self.machines.iter();
        let found = machines.find(|machine| machine.address == address);
        found.map_or_else(|| endpoint.to_owned(), |machine| machine.name.clone())
    }
}

fn address(value: &Value) -> Option<IpAddr> {
    value.as_str()?.parse().ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
