//! The machines of the file: each for itself, and that no two are the same.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;

use super::{labels, settings};
use crate::label;
use crate::machines::hardware::HardwareIdError;
use crate::machines::identity::address_type;
use crate::machines::schema::{MachineState, NodeEntry, NodeMatch};
use crate::node_addresses::{AddressType, NodeAddress};
use crate::provider_id::{ProviderId, ProviderIdError};
use crate::yaml::{Faults, Item, Object, Refusal, refuse};

const NODE: &[&str] = &[
    "match",
    "id",
    "instanceType",
    "region",
    "zone",
    "addresses",
    "labels",
    "state",
];
const MATCH: &[&str] = &["name", "providerID", "systemUUID", "machineID", "mac", "ip"];
const ADDRESS: &[&str] = &["type", "address"];

/// Reads all machines. One that has a fault is left out of the result, but still counts when
/// machines are compared with each other.
pub(super) fn nodes(items: &[Item<'_>], scheme: &str, faults: &mut Faults) -> Vec<NodeEntry> {
    let mut taken = Taken::default();
    items
        .iter()
        .filter_map(|item| node(item, scheme, &mut taken, faults))
        .collect()
}

fn node(
    item: &Item<'_>,
    scheme: &str,
    taken: &mut Taken,
    faults: &mut Faults,
) -> Option<NodeEntry> {
    let object = item.object(NODE, faults)?;
    let remedy = "say how to know the machine's Node, for example match: {name: worker-1}";
    let matching = object
        .require("match", remedy, faults)
        .and_then(|item| item.object(MATCH, faults))
        .map(|keys| node_match(&keys, scheme, faults));
    let id = object.parse("id", faults, |text| {
        ProviderId::new(scheme, text).or_else(|e| provider_id_refusal(&e, scheme))
    });
    let set = settings(&object, faults);
    let addresses = addresses(&object.list("addresses", faults), faults);
    let labels = labels(&object, faults);
    let state = object.parse("state", faults, state).unwrap_or_default();
    let matching = matching?;
    if let (Some(id), Some(matched)) = (&id, &matching.provider_id)
        && id != matched
    {
        let problem = format!("{id} contradicts match.providerID, {matched}");
        faults.add(
            format!("{}.id", item.place),
            problem,
            "leave out one of them",
        );
    }
    let derived_id = matching
        .system_uuid
        .as_ref()
        .and_then(|uuid| ProviderId::new(scheme, uuid.as_str()).ok());
    let entry = NodeEntry {
        declared_id: id.or_else(|| matching.provider_id.clone()),
        derived_id,
        matching,
        set,
        addresses,
        labels,
        state,
    };
    taken.claim_all(&entry, &item.place, faults);
    Some(entry)
}

fn node_match(keys: &Object<'_>, scheme: &str, faults: &mut Faults) -> NodeMatch {
    if keys.is_empty() {
        let remedy = format!("give at least one of {}", MATCH.join(", "));
        faults.add(keys.place(), "matches every machine", remedy);
    }
    NodeMatch {
        name: keys.parse("name", faults, name),
        provider_id: keys.parse("providerID", faults, |text| provider_id(text, scheme)),
        system_uuid: keys.parse("systemUUID", faults, hardware),
        machine_id: keys.parse("machineID", faults, hardware),
        mac: keys.parse("mac", faults, hardware),
        ip: keys.parse("ip", faults, ip),
    }
}

fn hardware<T: FromStr<Err = HardwareIdError>>(text: &str) -> Result<T, Refusal> {
    text.parse()
        .or_else(|error: HardwareIdError| refuse(error.problem, error.remedy))
}

fn provider_id_refusal<T>(error: &ProviderIdError, scheme: &str) -> Result<T, Refusal> {
    refuse(
        format!("makes no provider ID ({:?})", error.text),
        format!(
            "write letters, digits, slashes, underscores, dots and dashes, after {scheme}:// if \
             you like"
        ),
    )
}

fn provider_id(text: &str, scheme: &str) -> Result<ProviderId, Refusal> {
    match text.parse::<ProviderId>() {
        Ok(id) if id.scheme() == scheme => Ok(id),
        Ok(_) => refuse(
            format!("is not of the scheme {scheme}, so that its Node would be left alone"),
            format!("write {scheme}://<instance>, or set scheme at the top of the file"),
        ),
        Err(error) => provider_id_refusal(&error, scheme),
    }
}

fn name(text: &str) -> Result<String, Refusal> {
    if label::is_dns_name(text) {
        Ok(text.to_owned())
    } else {
        refuse(
            "is no name of a Node",
            "copy it from kubectl get nodes: lower-case letters, digits, dashes and dots",
        )
    }
}

fn ip(text: &str) -> Result<IpAddr, Refusal> {
    match text.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() => refuse(
            "is the address of no single machine",
            "write one of the machine's own addresses",
        ),
        Ok(ip) => Ok(ip),
        Err(_) => refuse("is no IP address", "write one such as 192.0.2.10"),
    }
}

fn state(text: &str) -> Result<MachineState, Refusal> {
    match text {
        "running" => Ok(MachineState::Running),
        "shutdown" => Ok(MachineState::Shutdown),
        "terminated" => Ok(MachineState::Terminated),
        _ => refuse("is no state", "write running, shutdown or terminated"),
    }
}

fn addresses(items: &[Item<'_>], faults: &mut Faults) -> Vec<NodeAddress> {
    let mut addresses: Vec<NodeAddress> = Vec::with_capacity(items.len());
    for item in items {
        let Some(entry) = address(item, faults) else {
            continue;
        };
        if addresses.contains(&entry) {
            faults.add(
                &item.place,
                format!("{entry} is listed twice"),
                "list it once",
            );
        }
        addresses.push(entry);
    }
    addresses.sort_by_key(|a| a.kind);
    addresses
}

fn address(item: &Item<'_>, faults: &mut Faults) -> Option<NodeAddress> {
    let object = item.object(ADDRESS, faults)?;
    let types = "write InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS";
    let kind = object.require("type", types, faults).and_then(|item| {
        item.parse(faults, |text| {
            address_type(text).map_or_else(|| refuse("is no type of address", types), Ok)
        })
    });
    let address = object.require("address", "write the address or name", faults)?;
    match kind? {
        kind @ (AddressType::InternalIP | AddressType::ExternalIP) => {
            let ip = address.parse(faults, ip)?;
            Some(NodeAddress::new(kind, ip.to_string()))
        }
        kind => {
            let text = address.parse(faults, host_name)?;
            Some(NodeAddress::new(kind, text))
        }
    }
}

fn host_name(text: &str) -> Result<String, Refusal> {
    // A host name may have upper-case letters, which a Node's name may not. An address is no name.
    if label::is_dns_name(&text.to_ascii_lowercase()) && text.parse::<IpAddr>().is_err() {
        Ok(text.to_owned())
    } else {
        refuse("is no DNS name", "write one such as worker-1.example.org")
    }
}

/// What identifies the machines read so far, and where and whose it is.
#[derive(Default)]
struct Taken(HashMap<(&'static str, String), String>);

impl Taken {
    fn claim_all(&mut self, entry: &NodeEntry, place: &str, faults: &mut Faults) {
        let owner = format!("{place} ({entry})");
        let keys = &entry.matching;
        let mut claim = |key, at: &str, value: Option<String>| {
            value.is_none_or(|value| {
                self.claim(key, value, (format!("{place}.{at}"), &owner), faults)
            })
        };
        claim("name", "match.name", text(keys.name.as_ref()));
        let at = "match.systemUUID";
        let own_uuid = claim("systemUUID", at, text(keys.system_uuid.as_ref()));
        claim(
            "machineID",
            "match.machineID",
            text(keys.machine_id.as_ref()),
        );
        claim("mac", "match.mac", text(keys.mac.as_ref()));
        claim("ip", "match.ip", text(keys.ip.as_ref()));
        let at = match (&entry.declared_id, &keys.provider_id) {
            (Some(id), Some(matched)) if id == matched => "match.providerID",
            (Some(_), _) => "id",
            (None, _) if own_uuid => at,
            // Told already.
            (None, _) => return,
        };
        claim("provider ID", at, text(entry.provider_id()));
    }

    /// False, and a fault, if another machine has it.
    fn claim(
        &mut self,
        key: &'static str,
        value: String,
        (place, owner): (String, &str),
        faults: &mut Faults,
    ) -> bool {
        if let Some(first) = self.0.get(&(key, value.clone())) {
            let problem = format!("{key} {value:?} is that of two machines: {first} and {owner}");
            faults.add(place, problem, "give each its own, or take one of them out");
            return false;
        }
        self.0.insert((key, value), owner.to_owned());
        true
    }
}

fn text(value: Option<&impl Display>) -> Option<String> {
    value.map(ToString::to_string)
}
