//! One way of writing addresses, networks and UUIDs, so that they can be compared.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use uuid::Uuid;

/// A network. An address alone is a network of its own, and bits that say nothing are 0. `None`: it is neither.
pub fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    Some(network.ok()?.trunc())
}

/// A network in canonical form: `192.0.2.0/24`; see [`network`].
pub fn canonical_network(text: &str) -> Option<String> {
    network(text).map(|network| network.to_string())
}

/// An address, or that of a network, in canonical form: `203.0.113.9` of `203.0.113.9/32`. `None`: it is
/// neither.
pub fn address_of(text: &str) -> Option<String> {
    let text = text.trim();
    let address = text
        .parse::<IpNet>()
        .map(|network| network.addr())
        .or_else(|_| text.parse::<IpAddr>())
        .ok()?;
    Some(address.to_string())
}

/// Networks in canonical form, each once. What is none stays as it is.
pub fn canonical_set(texts: &[String]) -> BTreeSet<String> {
    let canonical = |text: &String| canonical_network(text).unwrap_or_else(|| text.clone());
    texts.iter().map(canonical).collect()
}

/// An address in canonical form. What is none stays as it is.
pub fn canonical_address(text: &str) -> String {
    let address = text.trim().parse::<IpAddr>();
    address.map_or_else(|_| text.to_owned(), |address| address.to_string())
}

/// A UUID in lower case, with hyphens. What is none stays as it is.
pub fn canonical_uuid(text: &str) -> String {
    let uuid = Uuid::try_parse(text.trim());
    uuid.map_or_else(|_| text.to_owned(), |uuid| uuid.hyphenated().to_string())
}
