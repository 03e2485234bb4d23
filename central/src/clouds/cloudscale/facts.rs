//! What a server says of its Node.

use std::net::IpAddr;

use mooring_common::label::sanitize;
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::provider_id::ProviderId;
use uuid::Uuid;

use super::api::servers::{Interface, Server};
use super::{Cloudscale, NAME};
use crate::cloud_provider::servers::Servers;
use crate::cloud_provider::{Attachment, Machine};

/// IDs have the form in which the Go controller wrote them: lower case, with hyphens. Read is any form of a UUID.
impl Servers for Cloudscale {
    type Server = Server;

    const NAME: &'static str = NAME;
    const EXAMPLE: &'static str = "<the UUID>";

    fn canonical_id(text: &str) -> Option<String> {
        let uuid = Uuid::try_parse(text).ok()?;
        Some(uuid.hyphenated().to_string())
    }

    fn machine(id: ProviderId, server: &Server) -> Machine {
        let zone = server.zone.as_deref();
        let region = zone.map(|zone| zone.trim_end_matches(|c: char| c.is_ascii_digit()));
        let name = server.name.clone().filter(|name| !name.is_empty());
        let facts = NodeFacts {
            provider_id: Some(id.clone()),
            instance_type: server.flavor.as_deref().and_then(sanitize),
            zone: zone.and_then(sanitize),
            region: region.and_then(sanitize),
            addresses: addresses(name.as_deref(), server.interfaces.as_deref()).unwrap_or_default(),
            ..NodeFacts::default()
        };
        Machine {
            id,
            names: name.into_iter().collect(),
            found_by: Vec::new(),
            attachments: attachments(server.interfaces.as_deref()).unwrap_or_default(),
            facts,
            presence: match server.status.as_deref() {
                Some("stopped") => Presence::Stopped,
                _ => Presence::Running,
            },
        }
    }
}

/// In the order in which the Go controller reports them. None if there are none, or if one of them
/// cannot be read: a list with a gap would take an address off the Node.
fn addresses(name: Option<&str>, interfaces: Option<&[Interface]>) -> Option<Vec<NodeAddress>> {
    let mut addresses = Vec::new();
    for interface in interfaces? {
        let kind = match interface.kind.as_str() {
            "public" => AddressType::ExternalIP,
            _ => AddressType::InternalIP,
        };
        for entry in &interface.addresses {
            let ip: IpAddr = entry.address.parse().ok()?;
            addresses.push(NodeAddress::new(kind, ip.to_string()));
        }
    }
    if addresses.is_empty() {
        return None;
    }
    let hostname = name.map(|name| NodeAddress::new(AddressType::Hostname, name));
    Some(hostname.into_iter().chain(addresses).collect())
}

/// What load balancers reach: whatever is not public and in a subnet, in the API's order. None if
/// an address cannot be read, as with [`addresses`].
fn attachments(interfaces: Option<&[Interface]>) -> Option<Vec<Attachment>> {
    let interfaces = interfaces?.iter().filter(|card| card.kind != "public");
    let mut attachments = Vec::new();
    for entry in interfaces.flat_map(|card| &card.addresses) {
        let address: IpAddr = entry.address.parse().ok()?;
        let subnet = entry.subnet.as_ref();
        attachments.extend(subnet.map(|subnet| Attachment {
            address,
            subnet: subnet.clone(),
        }));
    }
    Some(attachments)
}

#[cfg(test)]
mod tests;
