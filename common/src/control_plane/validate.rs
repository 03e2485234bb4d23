//! Reads a control plane file whole, and tells everything that is wrong with it at once.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_norway::Value;

use super::{
    ClientCertificate, ControlPlaneFile, DEFAULT_HEARTBEAT_PORT, DEFAULT_PORT, MOST_VOTERS, Member,
    Probe, VERSION,
};
use crate::node_addresses::is_of_one_host;
use crate::yaml::{self, Fault, Faults, Item, Object, Refusal, refuse};

/// A control plane file that cannot be used, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidControlPlane {
    /// The faults, in the file's order; never empty.
    pub faults: Vec<Fault>,
}

impl fmt::Display for InvalidControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        yaml::tell(f, "control plane file", &self.faults)
    }
}

const TOP: &[&str] = &[
    "version",
    "revision",
    "addresses",
    "port",
    "interface",
    "members",
    "witness",
    "keyFile",
    "gateways",
    "heartbeatPort",
    "probe",
];
const MEMBER: &[&str] = &["name", "address"];
const PROBE: &[&str] = &["address", "clientCertificate", "clientKey"];
/// The longest name of an interface (`IFNAMSIZ` with its zero is 16).
const LONGEST_INTERFACE: usize = 15;
/// The longest name of a Node.
const LONGEST_NAME: usize = 253;
const PORTS: std::ops::RangeInclusive<u64> = 1..=65535;
const REVISIONS: std::ops::RangeInclusive<u64> = 1..=u32::MAX as u64;

/// Reads a control plane file: YAML, of which JSON is a part.
///
/// # Errors
/// [`InvalidControlPlane`] with every fault of the file. Only where the text is no YAML at all is there
/// a single one, since nothing can be said of what follows.
pub fn parse(text: &str) -> Result<ControlPlaneFile, InvalidControlPlane> {
    yaml::read(text, document_of).map_err(|faults| InvalidControlPlane { faults })
}

fn document_of(document: &Value, faults: &mut Faults) -> Option<ControlPlaneFile> {
    let top = Item::root(document).object(TOP, faults)?;
    version(&top, faults);
    let revision = top
        .require(
            "revision",
            "write 1, and one more with each change of members",
            faults,
        )
        .and_then(|item| item.number(&REVISIONS, faults));
    let addresses = addresses(&top, "addresses", faults);
    let remedy = "list the control plane's address, like [192.0.2.100]";
    if let Some(item) = top.require("addresses", remedy, faults) {
        listed("no address", &item, remedy, faults);
    }
    let port = port(&top, "port", DEFAULT_PORT, faults);
    let interface = top
        .require(
            "interface",
            "name the interface that has the nodes' addresses, like eth0",
            faults,
        )
        .and_then(|item| item.parse(faults, interface));
    let members = members(&top, faults);
    let witness = top.get("witness").and_then(|item| member(&item, faults));
    check_voters(&addresses, &members, witness.as_ref(), faults);
    let key_file = top
        .require(
            "keyFile",
            "name the file with the secret that heartbeats are signed with",
            faults,
        )
        .and_then(|item| item.parse(faults, absolute_path));
    let gateways = self::addresses(&top, "gateways", faults);
    let heartbeat_port = self::port(&top, "heartbeatPort", DEFAULT_HEARTBEAT_PORT, faults);
    let probe = top
        .get("probe")
        .map_or_else(Probe::default, |item| probe(&item, &addresses, faults));
    Some(ControlPlaneFile {
        revision: revision?,
        addresses,
        port,
        interface: interface?,
        members,
        witness,
        key_file: key_file?,
        gateways,
        heartbeat_port,
        probe,
    })
}

fn version(top: &Object<'_>, faults: &mut Faults) {
    let remedy = format!("write version: {VERSION}");
    if let Some(item) = top.require("version", &remedy, faults)
        && item.value().as_u64() != Some(VERSION)
    {
        item.wrong("a version that this program knows", &remedy, faults);
    }
}

fn port(top: &Object<'_>, key: &str, default: u16, faults: &mut Faults) -> u16 {
    let Some(item) = top.get(key) else {
        return default;
    };
    let port = item.number(&PORTS, faults);
    port.and_then(|port| u16::try_from(port).ok())
        .unwrap_or(default)
}

/// At most one address of each family.
fn addresses(top: &Object<'_>, key: &str, faults: &mut Faults) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for item in top.list(key, faults) {
        let Some(address) = item.parse(faults, host) else {
            continue;
        };
        if addresses
            .iter()
            .any(|known| known.is_ipv4() == address.is_ipv4())
        {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            faults.add(
                item.place.clone(),
                format!("{address} is a second address of {family}"),
                "list at most one of each family",
            );
        }
        addresses.push(address);
    }
    addresses
}

/// Notes that a list has nothing in it.
fn listed(what: &str, list: &Item<'_>, remedy: &str, faults: &mut Faults) {
    if list.value().as_sequence().is_some_and(Vec::is_empty) {
        faults.add(list.place.clone(), format!("lists {what}"), remedy);
    }
}

fn members(top: &Object<'_>, faults: &mut Faults) -> Vec<Member> {
    let remedy = "list the control-plane nodes, each with name and address";
    let Some(list) = top.require("members", remedy, faults) else {
        return Vec::new();
    };
    listed("no node", &list, remedy, faults);
    let items = list.list(faults);
    items
        .iter()
        .filter_map(|item| member(item, faults))
        .collect()
}

fn member(item: &Item<'_>, faults: &mut Faults) -> Option<Member> {
    let object = item.object(MEMBER, faults)?;
    let name = object
        .require("name", "write the Node's name", faults)
        .and_then(|item| item.parse(faults, node_name));
    let address = object
        .require(
            "address",
            "write the node's own address, like 192.0.2.11",
            faults,
        )
        .and_then(|item| item.parse(faults, host));
    Some(Member {
        name: name?,
        address: address?,
    })
}

/// What must hold for all that vote together.
fn check_voters(
    addresses: &[IpAddr],
    members: &[Member],
    witness: Option<&Member>,
    faults: &mut Faults,
) {
    let mut names = BTreeSet::new();
    let mut own = BTreeSet::new();
    let places = (0..members.len()).map(|index| format!("members[{index}]"));
    let places = places.chain(["witness".to_owned()]);
    for (place, voter) in places.zip(members.iter().chain(witness)) {
        let Member { name, address } = voter;
        let place = if witness == Some(voter) {
            "witness"
        } else {
            &place
        };
        if !names.insert(name) {
            faults.add(
                format!("{place}.name"),
                format!("{name:?} is listed twice"),
                "name each node once",
            );
        }
        if !own.insert(address) {
            faults.add(
                format!("{place}.address"),
                format!("{address} is the address of two nodes"),
                "write each node's own address",
            );
        }
        if addresses.contains(address) {
            faults.add(
                format!("{place}.address"),
                format!("{address} is the control plane's address"),
                "write the node's own address",
            );
        }
    }
    let count = members.len() + usize::from(witness.is_some());
    if count > MOST_VOTERS {
        faults.add(
            "members",
            format!("{count} nodes would vote"),
            format!("list {MOST_VOTERS} at most, the witness included; three or five are enough"),
        );
    }
}

fn probe(item: &Item<'_>, addresses: &[IpAddr], faults: &mut Faults) -> Probe {
    let Some(object) = item.object(PROBE, faults) else {
        return Probe::default();
    };
    let address = object.parse("address", faults, |text| own(text, addresses));
    let certificate = object.parse("clientCertificate", faults, absolute_path);
    let key = object.parse("clientKey", faults, absolute_path);
    let (has_certificate, has_key) = (
        object.get("clientCertificate").is_some(),
        object.get("clientKey").is_some(),
    );
    if has_certificate != has_key {
        let (missing, there) = if has_key {
            ("clientCertificate", "clientKey")
        } else {
            ("clientKey", "clientCertificate")
        };
        faults.add(
            format!("probe.{missing}"),
            "is missing",
            format!("name both files, or remove {there}"),
        );
    }
    Probe {
        address,
        client: certificate
            .zip(key)
            .map(|(certificate, key)| ClientCertificate { certificate, key }),
    }
}

fn host(text: &str) -> Result<IpAddr, Refusal> {
    let Ok(address) = text.parse::<IpAddr>() else {
        return refuse("is no IP address", "write one such as 192.0.2.10");
    };
    if !is_of_one_host(address) {
        return refuse(
            "is the address of no single host",
            "write one that other nodes reach",
        );
    }
    Ok(address)
}

/// An address of this node only: loopback, or one that it has itself.
fn own(text: &str, addresses: &[IpAddr]) -> Result<IpAddr, Refusal> {
    let loopback = text.parse::<IpAddr>().ok().filter(IpAddr::is_loopback);
    let address = loopback.map_or_else(|| host(text), Ok)?;
    if addresses.contains(&address) {
        return refuse(
            "is the control plane's address, where another node may answer",
            "write an address of this node that its API server listens on, or remove the key for 127.0.0.1",
        );
    }
    Ok(address)
}

fn node_name(text: &str) -> Result<String, Refusal> {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let good = bytes.iter().copied().all(allowed) && edge(bytes.first()) && edge(bytes.last());
    if !good || text.len() > LONGEST_NAME {
        return refuse(
            "is no name of a Node",
            "write it as `kubectl get nodes` does: lower case letters, digits, dots and dashes",
        );
    }
    Ok(text.to_owned())
}

fn interface(text: &str) -> Result<String, Refusal> {
    let plain = |letter: char| letter.is_ascii_graphic() && letter != '/';
    if text.is_empty() || text.len() > LONGEST_INTERFACE || !text.chars().all(plain) {
        return refuse(
            "is no name of an interface",
            "write one that `ip link` shows, like eth0",
        );
    }
    if text == "lo" {
        return refuse(
            "is on no segment",
            "name the interface that has the node's address",
        );
    }
    Ok(text.to_owned())
}

fn absolute_path(text: &str) -> Result<PathBuf, Refusal> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        Ok(path)
    } else {
        refuse("is no absolute path", "begin it with /")
    }
}
