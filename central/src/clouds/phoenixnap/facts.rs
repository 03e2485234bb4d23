//! What a server says of its Node.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use mooring_common::label::sanitize;
use mooring_common::node_addresses::{AddressType, NodeAddress};
use mooring_common::node_facts::{NodeFacts, Presence};
use mooring_common::provider_id::ProviderId;
use serde_json::Value;

use super::NAME;
use super::api::servers::Server;
use crate::cloud_api::plain;
use crate::cloud_provider::Machine;

/// How the vendor's provider for the Cluster API begins the IDs that it writes; they are read, and
/// stay, for no ID can be changed.
const CLUSTER_API: &str = "bmc://";

/// Whether a provider ID is one of ours: with our scheme, with that of the vendor's provider for the
/// Cluster API, or without any, as kubelets are told by hand.
pub(super) fn is_ours(provider_id: &str) -> bool {
    match provider_id.split_once("://") {
        Some((scheme, _)) => scheme.trim() == NAME || provider_id.starts_with(CLUSTER_API),
        None => is_identifier(provider_id),
    }
}

/// The ID in the form in which the Go controller wrote it: `phoenixnap://` and the identifier.
pub(super) fn parse_id(provider_id: &str) -> Result<ProviderId, String> {
    let own = provider_id
        .strip_prefix("phoenixnap://")
        .or_else(|| {
            provider_id
                .strip_prefix(CLUSTER_API)?
                .strip_prefix("servers/")
        })
        .or_else(|| (!provider_id.contains("://")).then_some(provider_id))
        .filter(|id| is_identifier(id));
    let id = own.ok_or_else(|| {
        format!(
            "{provider_id:?} names no server; write it like phoenixnap://60473c2509268bc77fd06d29"
        )
    })?;
    ProviderId::new(NAME, id).map_err(|error| error.to_string())
}

/// 24 hexadecimal digits today; nothing says that it stays so.
fn is_identifier(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.chars().all(known)
}

fn status(server: &Server) -> Option<String> {
    server.status.as_deref().map(plain)
}

/// The machines behind these servers, which are all that there are, and what is wrong with servers that cannot
/// be told apart. Who is called like one of those is not found by that name.
pub(super) fn machines(servers: &[Server]) -> (Vec<Machine>, Vec<String>) {
    // A server whose reservation goes on after it was given back is listed for ever.
    let is_there = |server: &&Server| status(server).as_deref() != Some("reserved");
    let servers: Vec<&Server> = servers.iter().filter(is_there).collect();
    let names = names(&servers);
    let (mut machines, mut unread) = (Vec::new(), Vec::new());
    let mut doubtful = BTreeSet::new();
    for server in servers {
        let names = names.get(server.id.as_str()).cloned().unwrap_or_default();
        match parse_id(&format!("{NAME}://{}", server.id)) {
            Ok(id) => machines.push(machine(server, id, names)),
            Err(_) => {
                let (hostname, id) = (server.hostname.as_deref().unwrap_or("?"), &server.id);
                unread.push(format!("the server {hostname} has the identifier {id:?}"));
                doubtful.extend(names);
            }
        }
    }
    for machine in &mut machines {
        machine.names.retain(|name| !doubtful.contains(name));
    }
    (machines, unread)
}

/// By which names the Node of each server is found, if it has no provider ID yet: its host name in
/// small letters, as Nodes are called, and the first part of it unless another server is called so.
/// Of several with one name the one that runs, if it is the only one.
fn names<'a>(servers: &[&'a Server]) -> HashMap<&'a str, Vec<String>> {
    let named = servers.iter().filter_map(|server| {
        let is_leaving = status(server).as_deref() == Some("deleting");
        let name = server.hostname.as_deref()?.to_lowercase();
        (!is_leaving && !name.is_empty()).then_some((name, *server))
    });
    let named: Vec<(String, &Server)> = named.collect();
    let is_whole = |first: &str| named.iter().any(|(name, _)| name == first);
    let mut by_name: HashMap<&str, Vec<&Server>> = HashMap::new();
    for (name, server) in &named {
        by_name.entry(name).or_default().push(server);
        if let Some((first, _)) = name.split_once('.')
            && !first.is_empty()
            && !is_whole(first)
        {
            by_name.entry(first).or_default().push(server);
        }
    }
    let mut names: HashMap<&str, Vec<String>> = HashMap::new();
    for (name, all) in by_name {
        let runs = |server: &&Server| status(server).as_deref() == Some("powered on");
        let running: Vec<&Server> = all.iter().copied().filter(runs).collect();
        for server in if running.len() == 1 { running } else { all } {
            names.entry(&server.id).or_default().push(name.to_owned());
        }
    }
    names
}

fn machine(server: &Server, id: ProviderId, names: Vec<String>) -> Machine {
    let public = ips(&server.public_ip_addresses);
    let facts = NodeFacts {
        provider_id: Some(id.clone()),
        instance_type: server.kind.as_deref().and_then(sanitize),
        region: server.location.as_deref().and_then(sanitize),
        addresses: addresses(server, public.as_deref()).unwrap_or_default(),
        ..NodeFacts::default()
    };
    Machine {
        id,
        names,
        // Of private ones two networks may have the same.
        found_by: public.unwrap_or_default(),
        attachments: Vec::new(),
        facts,
        presence: match status(server).as_deref() {
            Some("powered off" | "deleting") => Presence::Stopped,
            _ => Presence::Running,
        },
    }
}

/// In the order in which the Go controller reports them, each once. None if there are none, or if
/// one of them cannot be read: a list with a gap would take an address off the Node.
fn addresses(server: &Server, public: Option<&[IpAddr]>) -> Option<Vec<NodeAddress>> {
    let (public, private) = (public?, ips(&server.private_ip_addresses)?);
    let hostname = server.hostname.as_deref().filter(|name| !name.is_empty());
    let hostname = hostname.map(|name| (AddressType::Hostname, name.to_owned()));
    let external = public
        .iter()
        .map(|ip| (AddressType::ExternalIP, ip.to_string()));
    let internal = private.iter().filter(|ip| !public.contains(ip));
    let internal = internal.map(|ip| (AddressType::InternalIP, ip.to_string()));
    let all = hostname.into_iter().chain(external).chain(internal);
    let has_any = !public.is_empty() || !private.is_empty();
    has_any.then(|| {
        all.map(|(kind, text)| NodeAddress::new(kind, text))
            .collect()
    })
}

/// The addresses of a list, each once; of a server in one kind of network only, the other list is
/// absent. A range is what a network keeps for a server, not what the server has. None if something
/// cannot be read.
fn ips(list: &Value) -> Option<Vec<IpAddr>> {
    let texts = match list {
        Value::Null => return Some(Vec::new()),
        Value::Array(texts) => texts,
        _ => return None,
    };
    let mut ips = Vec::new();
    for text in texts {
        let text = text.as_str()?.trim();
        if is_range(text) {
            continue;
        }
        let ip: IpAddr = text.parse().ok()?;
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    Some(ips)
}

/// `10.0.0.11 - 10.0.0.15`.
fn is_range(text: &str) -> bool {
    let ends = text.split_once('-');
    ends.is_some_and(|(first, last)| {
        let is_ip = |text: &str| text.trim().parse::<IpAddr>().is_ok();
        is_ip(first) && is_ip(last)
    })
}

#[cfg(test)]
mod tests;
