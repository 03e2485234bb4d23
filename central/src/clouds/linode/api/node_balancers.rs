//! NodeBalancers, configs, nodes and Cloud Firewalls.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mooring_common::names::annotations::APPLIED;
use mooring_common::names::linode_tags;
use serde::Deserialize;

use crate::api_objects;
use crate::cloud_api::{id_text, said};
use crate::clouds::linode::annotations as keys;
use crate::engine::applied::id_of;
use crate::engine::provider::Listed;
use crate::engine::tag_marks::TagMarks;
use crate::resource_kinds;
use crate::views::service_view::ServiceView;

api_objects! {
    /// A NodeBalancer, without its configs.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    pub(in super::super) struct NodeBalancer {
        /// Its number.
        #[serde(deserialize_with = "id_text")]
        pub(in super::super) id: String,
        /// Its name.
        pub(in super::super) label?: String,
        /// Its host name; empty: none.
        #[serde(default, deserialize_with = "said")]
        pub(in super::super) hostname: Option<String>,
        /// Its address; of a front end in a VPC, the one there.
        #[serde(default, deserialize_with = "said")]
        pub(in super::super) ipv4: Option<String>,
        /// Its IPv6 address.
        #[serde(default, deserialize_with = "said")]
        pub(in super::super) ipv6: Option<String>,
        /// New connections of one client in a second; 0: any number.
        #[serde(rename = "client_conn_throttle")]
        pub(in super::super) throttle?: Option<u32>,
        /// `common`, `premium` or `premium_40gb`.
        #[serde(default, rename = "type", deserialize_with = "said")]
        pub(in super::super) kind: Option<String>,
        /// Its tags; the order says nothing.
        pub(in super::super) tags?: Vec<String>,
        /// When it was made.
        created?: Option<String>,
        /// The subnet in which it has its address, if that is in a VPC.
        pub(in super::super) frontend_vpc_subnet_id?: Option<u64>,
    }
}

impl NodeBalancer {
    /// The marks of the firewalls that were attached because its Service named them.
    pub(in super::super) fn firewall_marks(&self) -> BTreeSet<String> {
        let marks = self.tags.iter();
        let marks = marks.filter(|tag| tag.starts_with(linode_tags::FIREWALL));
        marks.cloned().collect()
    }
}

/// What marks whose something is, or what was done for whom.
pub(in super::super) const MARKS: TagMarks = TagMarks {
    service: linode_tags::SERVICE,
    cluster: linode_tags::CLUSTER,
    others: &[linode_tags::FIREWALL],
};

/// The mark of a firewall that is attached because a Service names it.
pub(in super::super) fn firewall_mark(id: u64) -> String {
    format!("{}{id}", linode_tags::FIREWALL)
}

impl Listed for NodeBalancer {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.label
    }

    fn owner(&self) -> Option<&str> {
        MARKS.owner(&self.tags)
    }

    fn cluster(&self) -> Option<&str> {
        MARKS.cluster_of(&self.tags)
    }

    fn created(&self) -> Option<&str> {
        self.created.as_deref()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let texts = [&self.ipv4, &self.ipv6].into_iter().flatten();
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    /// Whether it has no address yet, nor a name.
    fn is_changing(&self) -> bool {
        self.addresses().is_empty() && self.hostname.is_none()
    }

    /// By the host name too, where the status has nothing else. The same address may be another's in another
    /// VPC: there it counts for nothing where the Service says that it has another one.
    fn is_shown_by(&self, service: &ServiceView) -> bool {
        let asked = service.annotation(keys::FRONTEND_SUBNET_ID.key);
        let asked = asked.and_then(|text| text.parse().ok());
        let noted = service.annotation(APPLIED).and_then(id_of);
        let is_noted = noted.is_none_or(|id| id == self.id);
        let is_in_vpc = self.frontend_vpc_subnet_id.is_some_and(|id| id > 0);
        if asked.is_some() && asked != self.frontend_vpc_subnet_id || is_in_vpc && !is_noted {
            return false;
        }
        let by_name = |name: &String| {
            let mut ingress = service.ingress.iter();
            ingress.any(|one| one.ip.is_none() && one.hostname.as_ref() == Some(name))
        };
        let mut addresses = self.addresses().into_iter();
        addresses.any(|address| service.status.contains(&address))
            || self.hostname.as_ref().is_some_and(by_name)
    }
}

resource_kinds! {
    /// NodeBalancers.
    pub(in super::super) BALANCERS: "nodebalancer", "nodebalancers", "nodebalancers";
    /// Configs of a NodeBalancer.
    pub(in super::super) CONFIGS: "nodebalancer_config", "nodebalancer_configs", "nodebalancers/{}/configs";
    /// Nodes of a config of a NodeBalancer.
    pub(in super::super) NODES: "nodebalancer_node", "nodebalancer_nodes", "nodebalancers/{}/configs/{}/nodes";
    /// What a NodeBalancer has of VPCs.
    pub(in super::super) PLACES: "nodebalancer_vpc", "nodebalancer_vpcs", "nodebalancers/{}/vpcs";
    /// The firewalls that protect a NodeBalancer.
    pub(in super::super) ATTACHED: "nodebalancer_firewall", "nodebalancer_firewalls", "nodebalancers/{}/firewalls";
    /// Cloud Firewalls.
    pub(in super::super) FIREWALLS: "firewall", "firewalls", "networking/firewalls";
    /// Reserved addresses.
    pub(in super::super) ADDRESSES: "reserved_ip_address", "reserved_ip_addresses", "networking/reserved/ips";
}

#[cfg(test)]
mod tests;
