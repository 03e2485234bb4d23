//! What a server says of its Node.

use std::net::IpAddr;

use mooring_common::label::sanitize;
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::provider_id::ProviderId;

use super::api::{Server, is_id};
use super::{Brightbox, NAME};
use crate::cloud_provider::servers::Servers;
use crate::cloud_provider::{Attachment, Machine};

/// IDs have the form in which the Go controller wrote them: `brightbox://srv-gdqms`.
impl Servers for Brightbox {
    type Server = Server;

    const NAME: &'static str = NAME;
    const EXAMPLE: &'static str = "srv-gdqms";

    fn canonical_id(text: &str) -> Option<String> {
        is_id(text, "srv-", 1).then(|| text.to_owned())
    }

    fn is_there(server: &Server) -> bool {
        !matches!(server.status.as_deref(), Some("deleted" | "failed"))
    }

    fn machine(id: ProviderId, server: &Server) -> Machine {
        let zone = server.zone.as_deref();
        let region = zone.and_then(|zone| zone.rsplit_once('-'));
        let hostname = server.hostname.as_ref().map(|name| name.to_lowercase());
        let hostname = hostname.filter(|name| !name.is_empty() && *name != server.id);
        let facts = NodeFacts {
            provider_id: Some(id.clone()),
            instance_type: server.server_type.as_deref().and_then(sanitize),
            zone: zone.and_then(sanitize),
            region: region.and_then(|(region, _)| sanitize(region)),
            addresses: addresses(server).unwrap_or_default(),
            ..NodeFacts::default()
        };
        Machine {
            id,
            names: [server.id.clone()].into_iter().chain(hostname).collect(),
            found_by: Vec::new(),
            attachments: attachments(server),
            facts,
            presence: match server.status.as_deref() {
                Some("inactive" | "unavailable") => Presence::Stopped,
                _ => Presence::Running,
            },
        }
    }
}

/// Where load balancers reach it: its private addresses.
fn attachments(server: &Server) -> Vec<Attachment> {
    let interfaces = server.interfaces.iter().flatten();
    let addresses = interfaces.filter_map(|one| one.ipv4_address.as_deref()?.trim().parse().ok());
    let attachment = |address| Attachment {
        address,
        subnet: String::new(),
    };
    addresses.map(attachment).collect()
}

/// In the order in which the Go controller reports them, but private addresses as `InternalIP`: so a kubelet
/// with `--node-ip` keeps its other addresses. None if there are none, or if one of them cannot be read: a
/// list with a gap would take an address off the Node.
fn addresses(server: &Server) -> Option<Vec<NodeAddress>> {
    let mut ips: Vec<IpAddr> = Vec::new();
    for interface in server.interfaces.as_ref()? {
        let texts = [&interface.ipv4_address, &interface.ipv6_address];
        for text in texts.into_iter().flatten() {
            ips.push(text.trim().parse().ok()?);
        }
    }
    let cloud_ips = server.cloud_ips.iter().flatten();
    for ip in cloud_ips.clone() {
        ips.push(ip.public_ip?);
    }
    if ips.is_empty() {
        return None;
    }
    let ips = ips.iter().map(|ip| {
        let kind = match ip {
            IpAddr::V4(ip) if ip.is_private() => AddressType::InternalIP,
            IpAddr::V6(ip) if ip.is_unique_local() => AddressType::InternalIP,
            _ => AddressType::ExternalIP,
        };
        NodeAddress::new(kind, ip.to_string())
    });
    let named = |kind: AddressType, name: &Option<String>| {
        let name = name.as_ref().filter(|name| !name.is_empty());
        name.map(|name| NodeAddress::new(kind, name))
    };
    let own = [
        named(AddressType::Hostname, &server.hostname),
        named(AddressType::ExternalDNS, &server.fqdn),
    ];
    let names = cloud_ips.filter_map(|ip| named(AddressType::ExternalDNS, &ip.fqdn));
    let all = own.into_iter().flatten().chain(ips).chain(names);
    Some(all.collect())
}

#[cfg(test)]
mod tests;
