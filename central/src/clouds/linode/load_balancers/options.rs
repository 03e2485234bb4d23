//! What a Service asks of its NodeBalancer.

mod ports;
mod vpcs;

use std::collections::BTreeSet;

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

use super::Settings;
use super::firewalls::{Acl, MOST_RULES, network};
use super::model::{Subnet, VpcUse};
use crate::cloud_provider::annotations::Annotation;
use crate::clouds::linode::NodeBalancerType;
use crate::clouds::linode::annotations as keys;
use crate::engine::annotations::{Reader, either};
use crate::engine::selector::Selector;
use crate::views::service_view::ServiceView;
pub(super) use ports::{PortOptions, secrets};

/// The most that a throttle can be.
const MOST_THROTTLE: i64 = 20;
/// Types of NodeBalancers.
const TYPES: [&str; 3] = ["common", "premium", "premium_40gb"];
const IP_MODES: [&str; 2] = ["VIP", "Proxy"];
/// Networks that an ACL has at most.
const MOST_NETWORKS: usize = MOST_RULES * 255;

/// All that is asked for, defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// What a new one is called, and a firewall of its own.
    pub(super) label: String,
    /// Where a new one is made.
    pub(super) region: String,
    /// The type of a new one.
    pub(super) kind: &'static str,
    /// New connections of one client in a second.
    pub(super) throttle: u32,
    /// The tags, in order, each once.
    pub(super) tags: Vec<String>,
    /// The reserved address of a new one.
    pub(super) reserved_ipv4: Option<String>,
    /// Which firewall it is to have.
    pub(super) firewall: FirewallOption,
    /// Whether Nodes are reached by their public IPv6 addresses.
    pub(super) ipv6_backends: bool,
    /// The subnet by which Nodes are reached.
    pub(super) subnet: Option<Subnet>,
    /// What a new one has of the VPC by which Nodes are reached.
    pub(super) backend: Option<VpcUse>,
    /// Where a new one has its address, if that is in a VPC.
    pub(super) frontend: Option<VpcUse>,
    /// Whether the status has the host name alone.
    pub(super) hostname_only: bool,
    /// Whether the status has the IPv6 address too.
    pub(super) ipv6_ingress: bool,
    /// `ipMode` of the addresses in the status.
    pub(super) ip_mode: Option<&'static str>,
    /// Each port, in order.
    pub(super) ports: Vec<PortOptions>,
    /// All Nodes may carry traffic.
    pub(super) all_nodes: Selector,
    /// No subnets of Nodes are chosen among.
    pub(super) no_subnets: BTreeSet<String>,
}

/// Which firewall a Service asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FirewallOption {
    /// None.
    None,
    /// This one.
    Id(u64),
    /// One of its own.
    Acl(Acl),
}

impl Options {
    /// Reads everything that a Service asks for.
    pub(super) fn read(reader: &mut Reader<'_>, settings: &Settings, label: String) -> Self {
        let ipv6_backends = flag(reader, &keys::IPV6_BACKENDS, settings.flags.ipv6_backends);
        // Whatever cannot be understood has an effect when the Service goes.
        flag(reader, &keys::PRESERVE, false);
        flag(reader, &keys::RETAIN_RESERVED_IPV4, true);
        check_id(reader);
        let subnet = vpcs::subnet(reader, settings, ipv6_backends);
        Self {
            label,
            region: settings.region.clone(),
            kind: kind(reader, settings.flags.kind).as_str(),
            throttle: throttle(reader),
            tags: tags(reader, settings),
            reserved_ipv4: reader.optional(&keys::RESERVED_IPV4).map(ToOwned::to_owned),
            firewall: firewall(reader),
            ipv6_backends,
            backend: vpcs::backend(reader, settings, subnet.as_ref()),
            subnet,
            frontend: vpcs::frontend(reader),
            hostname_only: flag(reader, &keys::HOSTNAME_ONLY, settings.hostname_only),
            ipv6_ingress: flag(reader, &keys::IPV6_INGRESS, settings.flags.ipv6_ingress),
            ip_mode: ip_mode(reader),
            ports: ports::read(reader),
            all_nodes: Selector::default(),
            no_subnets: BTreeSet::new(),
        }
    }
}

/// `true` and `false` as Go's `strconv.ParseBool` reads them.
pub(super) fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Whether the NodeBalancer stays when the Service goes.
pub(super) fn preserves(service: &ServiceView) -> bool {
    service.annotation(keys::PRESERVE.key).and_then(go_bool) == Some(true)
}

/// Whether its address stays reserved. What cannot be understood gives nothing up.
pub(super) fn retains_address(service: &ServiceView) -> bool {
    let text = service.annotation(keys::RETAIN_RESERVED_IPV4.key);
    text.and_then(go_bool) != Some(false)
}

/// What cannot be understood is false, as the Go controller has it, and told.
fn flag(reader: &mut Reader<'_>, annotation: &Annotation, default: bool) -> bool {
    let Some(text) = reader.value(annotation) else {
        return default;
    };
    go_bool(text).unwrap_or_else(|| {
        let what = if annotation.key == keys::RETAIN_RESERVED_IPV4.key {
            "is neither true nor false, and the address stays reserved; write true or false"
        } else {
            "is neither true nor false, and counts as false; write true or false"
        };
        reader.question(annotation, text, what);
        false
    })
}

fn check_id(reader: &mut Reader<'_>) {
    let Some(text) = reader.optional(&keys::ID) else {
        return;
    };
    if text
        .trim()
        .parse::<u64>()
        .ok()
        .filter(|id| *id > 0)
        .is_none()
    {
        let remedy = "is no number of a NodeBalancer; write one, or take the annotation off";
        reader.fault_in(&keys::ID, text, remedy);
    }
}

fn throttle(reader: &mut Reader<'_>) -> u32 {
    let Some(text) = reader.optional(&keys::THROTTLE) else {
        return 0;
    };
    let number = text.parse::<i64>().unwrap_or_else(|_| {
        let what = "is no number, and counts as 0: no limit; write a number from 0 to 20";
        reader.question(&keys::THROTTLE, text, what);
        0
    });
    let cut = number.clamp(0, MOST_THROTTLE);
    if cut != number {
        let what = format!("is out of range, and counts as {cut}; write a number from 0 to 20");
        reader.question(&keys::THROTTLE, text, &what);
    }
    u32::try_from(cut).unwrap_or_default()
}

fn kind(reader: &mut Reader<'_>, default: NodeBalancerType) -> NodeBalancerType {
    let Some(text) = reader.value(&keys::TYPE) else {
        return default;
    };
    text.parse().unwrap_or_else(|()| {
        let (taken, legal) = (default.as_str(), either(&TYPES));
        let what = format!("is no type, and {taken} is taken; write {legal}");
        reader.question(&keys::TYPE, text, &what);
        default
    })
}

fn tags(reader: &mut Reader<'_>, settings: &Settings) -> Vec<String> {
    let of_service = reader.value(&keys::TAGS).unwrap_or_default();
    let all = settings
        .flags
        .cluster_name
        .iter()
        .chain(&settings.flags.tags);
    let all = all.map(String::as_str).chain(of_service.split(','));
    let mut tags: Vec<String> = Vec::new();
    for tag in all.map(str::trim).filter(|tag| !tag.is_empty()) {
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

fn ip_mode(reader: &mut Reader<'_>) -> Option<&'static str> {
    let text = reader.value(&keys::IP_MODE)?;
    let found = IP_MODES.into_iter().find(|mode| *mode == text);
    if found.is_none() {
        let remedy = format!("is no mode; write {}", either(&IP_MODES));
        reader.fault_in(&keys::IP_MODE, text, remedy);
    }
    found
}

/// A whole number, if one stands there.
fn number(reader: &mut Reader<'_>, annotation: &Annotation) -> Option<u64> {
    let text = reader.value(annotation)?;
    let number = text.parse::<u64>().ok().filter(|number| *number > 0);
    if number.is_none() {
        let remedy =
            "is no number; write the number that Linode gives it, or take the annotation off";
        reader.fault_in(annotation, text, remedy);
    }
    number
}

fn firewall(reader: &mut Reader<'_>) -> FirewallOption {
    if reader.value(&keys::FIREWALL_ID).is_some() {
        if let Some(text) = reader.value(&keys::FIREWALL_ACL) {
            let what = "is not used, since firewall-id names a firewall; take one of them off";
            reader.question(&keys::FIREWALL_ACL, text, what);
        }
        let id = number(reader, &keys::FIREWALL_ID);
        return id.map_or(FirewallOption::None, FirewallOption::Id);
    }
    if let Some(text) = reader.value(&keys::FIREWALL_ACL) {
        return acl(reader, text).map_or(FirewallOption::None, FirewallOption::Acl);
    }
    let ranges = reader.source_ranges();
    let networks: BTreeSet<IpNet> = ranges.iter().filter_map(|text| network(text)).collect();
    if networks.is_empty() {
        return FirewallOption::None;
    }
    FirewallOption::Acl(Acl {
        allows: true,
        networks,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lists {
    allow_list: Option<Families>,
    deny_list: Option<Families>,
}

#[derive(Deserialize)]
struct Families {
    ipv4: Option<Vec<String>>,
    ipv6: Option<Vec<String>>,
}

fn acl(reader: &mut Reader<'_>, text: &str) -> Option<Acl> {
    let how = "write it like {\"allowList\": {\"ipv4\": [\"192.0.2.0/24\"]}}";
    let lists: Lists = match serde_json::from_str::<Value>(text).and_then(serde_json::from_value) {
        Ok(lists) => lists,
        Err(error) => {
            let remedy = format!("is not the JSON that is understood ({error}); {how}");
            reader.fault_in(&keys::FIREWALL_ACL, text, remedy);
            return None;
        }
    };
    let (allows, families) = match (lists.allow_list, lists.deny_list) {
        (Some(families), None) => (true, families),
        (None, Some(families)) => (false, families),
        _ => {
            let remedy = format!("specify either an allowList or a denyList for a firewall; {how}");
            reader.fault_in(&keys::FIREWALL_ACL, text, remedy);
            return None;
        }
    };
    let texts = families.ipv4.into_iter().chain(families.ipv6).flatten();
    let mut networks = BTreeSet::new();
    for text in texts {
        if let Some(network) = network(&text) {
            networks.insert(network);
            continue;
        }
        let remedy = "is no network; write it like 192.0.2.0/24 or 2001:db8::/32";
        reader.fault_in(&keys::FIREWALL_ACL, &text, remedy);
    }
    if networks.is_empty() || networks.len() > MOST_NETWORKS {
        let remedy = format!(
            "has {} networks; write 1 to {MOST_NETWORKS}, which is what a firewall takes",
            networks.len()
        );
        reader.fault_in(&keys::FIREWALL_ACL, text, remedy);
    }
    Some(Acl { allows, networks })
}
