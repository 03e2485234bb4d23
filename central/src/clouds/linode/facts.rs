//! What a Linode says of its Node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use mooring_common::label::sanitize;
use mooring_common::names::{annotations, labels};
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::provider_id::{ProviderId, ProviderIdError};
use serde_json::Value;

use super::NAME;
use super::api::Instance;
use super::vpcs::VpcAddresses;
use crate::cloud_provider::Machine;

/// How Linodes are described.
#[derive(Clone, Debug, Default)]
pub(super) struct Describe {
    /// Private addresses in it are external ones (`LINODE_EXTERNAL_SUBNET`).
    pub(super) external_subnet: Option<IpNet>,
}

/// The addresses that a Linode has by itself.
struct Own {
    ipv4: Vec<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
}

/// The ID in the form in which the Go controller wrote it too: a number without a sign and without
/// leading zeros.
pub(super) fn parse_id(provider_id: &str) -> Result<ProviderId, String> {
    let number = provider_id
        .strip_prefix("linode://")
        .filter(|rest| {
            let number: Option<u64> = rest.parse().ok();
            number.is_some_and(|n| n > 0 && n.to_string() == **rest)
        })
        .ok_or_else(|| format!("{provider_id:?} names no Linode; write it like linode://123"))?;
    ProviderId::new(NAME, number).map_err(|error| error.to_string())
}

impl Describe {
    /// The machine, with what it has in the VPCs. None: nobody knows what it has there.
    pub(super) fn machine(
        &self,
        instance: &Instance,
        vpcs: Option<&VpcAddresses>,
    ) -> Result<Machine, ProviderIdError> {
        let id = ProviderId::new(NAME, &instance.id.to_string())?;
        let own = own_addresses(instance);
        let label = instance.label.clone().filter(|label| !label.is_empty());
        let (addresses, found_by) = match (&own, vpcs) {
            (Some(own), Some(vpcs)) if !vpcs.is_torn => (
                self.addresses(label.as_deref(), own, vpcs),
                self.public(own)
                    .chain(vpcs.ipv4.iter().map(|ip| (*ip).into()))
                    .collect(),
            ),
            (Some(own), _) => (Vec::new(), self.public(own).collect()),
            (None, _) => (Vec::new(), Vec::new()),
        };
        let host = instance.host_uuid.as_deref().and_then(sanitize);
        let facts = NodeFacts {
            provider_id: Some(id.clone()),
            instance_type: instance.kind.as_deref().and_then(sanitize),
            zone: None,
            region: instance.region.as_deref().and_then(sanitize),
            addresses,
            keeps_reported_internal_ips: true,
            provider_labels: texts([(labels::LINODE_HOST_UUID, host)]),
            provider_annotations: self.annotations(instance, own.as_ref()),
            additional_labels: BTreeMap::new(),
        };
        Ok(Machine {
            id,
            names: label.into_iter().collect(),
            found_by,
            attachments: Vec::new(),
            facts,
            presence: match instance.status.as_deref() {
                Some("offline" | "shutting_down") => Presence::Stopped,
                _ => Presence::Running,
            },
        })
    }

    /// In the order in which the Go controller reports them: IPv4 before IPv6, so that the first
    /// external address is an IPv4 one. Empty if the Linode has none.
    fn addresses(&self, label: Option<&str>, own: &Own, vpcs: &VpcAddresses) -> Vec<NodeAddress> {
        let ipv4 = own.ipv4.iter();
        let ipv4 = ipv4.map(|ip| (IpAddr::from(*ip), !self.is_private(*ip)));
        let ipv4_in_vpcs = vpcs.ipv4.iter().map(|ip| (IpAddr::from(*ip), false));
        let ipv6 = own.ipv6.map(|ip| (IpAddr::from(ip), true));
        let ipv6_in_vpcs = vpcs.ipv6.iter();
        let ipv6_in_vpcs = ipv6_in_vpcs.map(|(ip, is_public)| (IpAddr::from(*ip), *is_public));
        let ips = ipv4_in_vpcs.chain(ipv4).chain(ipv6_in_vpcs).chain(ipv6);
        let ips = ips.map(|(ip, is_public)| {
            let kind = match is_public {
                true => AddressType::ExternalIP,
                false => AddressType::InternalIP,
            };
            NodeAddress::new(kind, ip.to_string())
        });
        let mut addresses: Vec<NodeAddress> = ips.collect();
        if let Some(label) = label.filter(|_| !addresses.is_empty()) {
            addresses.insert(0, NodeAddress::new(AddressType::Hostname, label));
        }
        addresses
    }

    /// The addresses that no other Linode of the account has. A Node is found by those in the configured VPCs
    /// too: of several Linodes that have one, none is chosen.
    fn public<'a>(&self, own: &'a Own) -> impl Iterator<Item = IpAddr> + use<'a, '_> {
        let ipv4 = own.ipv4.iter().filter(|ip| !self.is_private(**ip));
        ipv4.map(|ip| (*ip).into()).chain(own.ipv6.map(Into::into))
    }

    fn annotations(&self, instance: &Instance, own: Option<&Own>) -> BTreeMap<String, String> {
        let private = own.and_then(|own| own.ipv4.iter().find(|ip| self.is_private(**ip)));
        let ipv6 = own.and_then(|own| own.ipv6).and(instance.ipv6.as_str());
        let private = private.map(ToString::to_string);
        texts([
            (annotations::LINODE_PRIVATE_IP, private),
            (annotations::LINODE_PUBLIC_IPV6, ipv6.map(ToOwned::to_owned)),
        ])
    }

    fn is_private(&self, ip: Ipv4Addr) -> bool {
        let is_external = |net: &IpNet| net.contains(&IpAddr::V4(ip));
        ip.is_private() && !self.external_subnet.as_ref().is_some_and(is_external)
    }
}

/// None if one of them cannot be read: a list with a gap would take an address off the Node.
fn own_addresses(instance: &Instance) -> Option<Own> {
    let ipv4 = instance.ipv4.as_ref()?.iter().map(|text| text.parse());
    let ipv4: Result<Vec<Ipv4Addr>, _> = ipv4.collect();
    let ipv6 = match &instance.ipv6 {
        Value::Null => None,
        Value::String(none) if none.is_empty() => None,
        text => Some(text.as_str()?.split('/').next()?.parse().ok()?),
    };
    Some(Own {
        ipv4: ipv4.ok()?,
        ipv6,
    })
}

/// Those that are there.
fn texts<const N: usize>(all: [(&str, Option<String>); N]) -> BTreeMap<String, String> {
    let there = all.into_iter();
    there
        .filter_map(|(key, text)| Some((key.to_owned(), text?)))
        .collect()
}

#[cfg(test)]
mod tests;
