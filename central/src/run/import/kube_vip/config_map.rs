//! The ConfigMap of kube-vip's cloud provider.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use mooring_common::address_range::AddressRange;

use super::CONFIG_MAP;
use crate::run::import::finding::Findings;
use crate::run::import::objects::Object;
use crate::run::import::ranges;

/// Stands for all namespaces without a key of their own.
pub(super) const GLOBAL: &str = "global";

/// What it writes where addresses come by DHCP.
const DHCP: &str = "0.0.0.0/32";

/// The ranges of one key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Range {
    pub(super) key: String,
    pub(super) addresses: Vec<AddressRange>,
    /// The first and the last address of each IPv4 block.
    pub(super) ends: Vec<AddressRange>,
}

/// What it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ConfigMap {
    /// By namespace, or [`GLOBAL`].
    pub(super) ranges: BTreeMap<String, Range>,
    /// By namespace, or [`GLOBAL`].
    pub(super) interfaces: BTreeMap<String, String>,
    /// Whether the ends of blocks are left out.
    pub(super) skips_ends: bool,
}

impl ConfigMap {
    /// The interface of the Services of a namespace.
    pub(super) fn interface_of(&self, namespace: &str) -> Option<&str> {
        let named = self
            .interfaces
            .get(namespace)
            .or_else(|| self.interfaces.get(GLOBAL));
        named.map(String::as_str)
    }
}

/// Reads every key.
pub(super) fn read(map: &Object, findings: &mut Findings) -> ConfigMap {
    let data = map.map("/data");
    let mut config = ConfigMap::default();
    for (key, value) in &data {
        let value = value.trim();
        let field = format!("ConfigMap {CONFIG_MAP}: {key}: {value:?}");
        if let Some(namespace) = namespace_of(key) {
            match used_instead(key, namespace, &data) {
                Some(other) => findings.elsewhere(
                    field,
                    format!("kube-vip goes by {other} instead: it is left out"),
                ),
                None => read_range(key, namespace, value, &field, &mut config, findings),
            }
        } else if let Some(namespace) = key.strip_prefix("interface-") {
            config
                .interfaces
                .insert(namespace.to_owned(), value.to_owned());
        } else if key.starts_with("allow-share-") {
            if value == "true" {
                findings.cannot_say(
                    field,
                    "Services share an address here if they say so: give those that are to share one the same \
                     value of mooring.dev/allow-shared-ip",
                );
            }
        } else if key == "skip-end-ips-in-cidr" {
            config.skips_ends = value == "true";
        } else if key == "search-order" {
            if value == "desc" {
                findings.cannot_say(
                    field,
                    "addresses are allocated in ascending order; nothing else differs",
                );
            }
        } else {
            findings.cannot_say(
                field,
                "this version does not know the key; see what kube-vip does by it",
            );
        }
    }
    config
}

/// The namespace that a key with ranges is for.
fn namespace_of(key: &str) -> Option<&str> {
    key.strip_prefix("cidr-")
        .or_else(|| key.strip_prefix("range-"))
}

/// The key that kube-vip goes by for this namespace, if it is another: blocks come before ranges, the global ones
/// too.
fn used_instead(key: &str, namespace: &str, data: &BTreeMap<String, String>) -> Option<String> {
    if key.starts_with("cidr-") {
        return None;
    }
    let blocks = [format!("cidr-{namespace}"), format!("cidr-{GLOBAL}")];
    blocks.into_iter().find(|other| data.contains_key(other))
}

fn read_range(
    key: &str,
    namespace: &str,
    value: &str,
    field: &str,
    config: &mut ConfigMap,
    findings: &mut Findings,
) {
    if value == DHCP {
        findings.cannot_say(
            field,
            "addresses come by DHCP; central allocates from ranges. Keep a range of the segment out of DHCP, and \
             write it down here",
        );
        return;
    }
    let mut range = Range {
        key: key.to_owned(),
        ..Range::default()
    };
    for part in value
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match ranges::parse(part) {
            Some(addresses) => range.addresses.extend(addresses),
            None => {
                findings.cannot_say(
                    field,
                    format!("{part:?} is no range; correct it, and import again"),
                );
            }
        }
        if let Ok(IpNet::V4(block)) = part.parse::<IpNet>()
            && block.prefix_len() < 31
        {
            let ends = [block.network(), block.broadcast()].map(IpAddr::V4);
            range.ends.extend(
                ends.into_iter()
                    .filter_map(|end| ranges::between(end, end))
                    .flatten(),
            );
        }
    }
    if !range.addresses.is_empty() {
        config.ranges.insert(namespace.to_owned(), range);
    }
}
