//! What a server says of its Node.

use std::net::IpAddr;

use mooring_common::label::sanitize;
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::provider_id::ProviderId;

use super::NAME;
use super::api::is_id;
use super::api::servers::Server;
use crate::cloud_provider::{Attachment, Machine};

/// The ID in the form in which the Go controller wrote it: `brightbox://srv-gdqms`.
pub(super) fn parse_id(provider_id: &str) -> Result<ProviderId, String> {
    provider_id
        .split_once("://")
        .filter(|(scheme, _)| scheme.trim() == NAME)
        .and_then(|(_, id)| server_id(id.trim()))
        .ok_or_else(|| {
            format!("{provider_id:?} names no server; write it like brightbox://srv-gdqms")
        })
}

/// `srv-` and some letters and digits.
fn server_id(text: &str) -> Option<ProviderId> {
    is_id(text, "srv-", 1)
        .then(|| ProviderId::new(NAME, text).ok())
        .flatten()
}

/// The machines behind these servers. Those that are deleted or were never made are none.
///
/// # Errors
/// What is wrong with an identifier, or that two servers have the same: nobody can tell which one it is.
pub(super) fn machines(servers: &[Server]) -> Result<Vec<Machine>, String> {
    let is_there = |server: &&Server| {
        let status = server.status.as_deref();
        !matches!(status, Some("deleted" | "failed"))
    };
    let mut machines: Vec<Machine> = Vec::new();
    for server in servers.iter().filter(is_there) {
        let machine = machine(server)?;
        if machines.iter().any(|other| other.id == machine.id) {
            return Err(format!("two servers have the identifier {}", server.id));
        }
        machines.push(machine);
    }
    Ok(machines)
}

fn machine(server: &Server) -> Result<Machine, String> {
    let id = server_id(&server.id)
        .ok_or_else(|| format!("{:?} is the identifier of no server", server.id))?;
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
    Ok(Machine {
        id,
        names: [server.id.clone()].into_iter().chain(hostname).collect(),
        found_by: Vec::new(),
        attachments: attachments(server),
        facts,
        presence: match server.status.as_deref() {
            Some("inactive" | "unavailable") => Presence::Stopped,
            _ => Presence::Running,
        },
    })
}

/// Where load balancers reach it: its private addresses.
fn attachments(server: &Server) -> Vec<Attachment> {
    let interfaces = server.interfaces.iter().flatten();
    let addresses = interfaces.filter_map(|one| one.ipv4_address.as_deref()?.trim().parse().ok());
    addresses
        .map(|address| Attachment {
            address,
            subnet: String::new(),
        })
        .collect()
}

/// In the order in which the Go controller reports them, but private addresses as `InternalIP`: so a kubelet
/// with `--node-ip` keeps its other addresses. None if there are none, or if one of them cannot be read: a
/// list with a gap would take an address off the Node.
fn addresses(server: &Server) -> Option<Vec<NodeAddress>> {
    let mut ips: Vec<NodeAddress> = Vec::new();
    let mut push = |text: &str| -> Option<()> {
        let ip: IpAddr = text.trim().parse().ok()?;
        let kind = match ip {
            IpAddr::V4(ip) if ip.is_private() => AddressType::InternalIP,
            IpAddr::V6(ip) if ip.is_unique_local() => AddressType::InternalIP,
            _ => AddressType::ExternalIP,
        };
        ips.push(NodeAddress::new(kind, ip.to_string()));
        Some(())
    };
    for interface in server.interfaces.as_ref()? {
        for text in [&interface.ipv4_address, &interface.ipv6_address] {
            text.as_deref().map_or(Some(()), &mut push)?;
        }
    }
    for ip in server.cloud_ips.iter().flatten() {
        push(ip.public_ip.as_deref()?)?;
    }
    if ips.is_empty() {
        return None;
    }
    let named = |kind: AddressType, name: Option<&String>| {
        let name = name.filter(|name| !name.is_empty());
        name.map(|name| NodeAddress::new(kind, name))
    };
    let own = [
        named(AddressType::Hostname, server.hostname.as_ref()),
        named(AddressType::ExternalDNS, server.fqdn.as_ref()),
    ];
    let cloud_ips = server.cloud_ips.iter().flatten();
    let names = cloud_ips.filter_map(|ip| named(AddressType::ExternalDNS, ip.fqdn.as_ref()));
    let all = own.into_iter().flatten().chain(ips).chain(names);
    Some(all.collect())
}

#[cfg(test)]
mod tests;
