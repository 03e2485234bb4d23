//! What a Service asks of its NodeBalancer.

mod ports;
mod vpcs;

use mooring_common::names::annotations;
use serde::Deserialize;

use super::firewalls::{FirewallSpec, MOST_RULES};
use super::model::{BalancerSpec, FirewallWish};
use crate::clouds::linode::annotations as keys;
use crate::clouds::linode::api::node_balancers::MARKS;
use crate::clouds::linode::config::Settings;
use crate::clouds::linode::flags::{NO_MARK, TYPES};
use crate::clouds::linode::vpcs::Subnet;
use crate::engine::acl::Acl;
use crate::engine::annotations::{Reader, go_bool};
use crate::engine::applied::fingerprint_of;
use crate::engine::canonical::network;
use crate::views::service_view::ServiceView;
pub(super) use ports::{PortOptions, secrets};

/// The most that a throttle can be.
const MOST_THROTTLE: u32 = 20;

/// All that is asked for, defaults filled in.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// The NodeBalancer, without marks.
    pub(super) balancer: BalancerSpec,
    /// Which firewall it is to have; one of its own is without marks.
    pub(super) firewall: FirewallWish,
    /// The firewall that the Service named when all was as wanted last.
    pub(super) former_firewall: Option<u64>,
    /// Whether Nodes are reached by their public IPv6 addresses.
    pub(super) ipv6_backends: bool,
    /// The subnet by which Nodes are reached.
    pub(super) subnet: Option<Subnet>,
    /// Whether the status has the host name alone.
    pub(super) hostname_only: bool,
    /// Whether the status has the IPv6 address too.
    pub(super) ipv6_ingress: bool,
    /// `ipMode` of the addresses in the status.
    pub(super) ip_mode: Option<&'static str>,
    /// Each port, in order.
    pub(super) ports: Vec<PortOptions>,
}

impl Options {
    /// Reads everything that a Service asks for.
    pub(super) fn read(reader: &mut Reader<'_>, settings: &Settings, label: String) -> Self {
        let Settings { flags, .. } = settings;
        let ipv6_backends = reader.go_bool(&keys::IPV6_BACKENDS, flags.ipv6_backends, false);
        // They have an effect when the Service goes.
        reader.go_bool(&keys::PRESERVE, false, false);
        reader.go_bool(&keys::RETAIN_RESERVED_IPV4, true, true);
        reader.check_id(&keys::ID);
        let ports = ports::read(reader);
        let tags = flags.cluster_name.iter().chain(&flags.tags).cloned();
        let subnet = vpcs::subnet(reader, settings, ipv6_backends);
        Self {
            firewall: firewall(reader, &ports, &label),
            former_firewall: former_firewall(reader.service),
            balancer: BalancerSpec {
                label,
                region: settings.region.clone(),
                kind: reader
                    .any_case_word(&keys::TYPE, ("type", &TYPES), flags.kind)
                    .to_owned(),
                throttle: reader.cut_number(&keys::THROTTLE, MOST_THROTTLE, "no limit"),
                tags: reader.tags(&keys::TAGS, tags, (&MARKS, NO_MARK)),
                ipv4: reader.optional(&keys::RESERVED_IPV4).map(ToOwned::to_owned),
                backend: vpcs::backend(reader, settings, subnet.as_ref()),
                frontend: vpcs::frontend(reader),
            },
            ipv6_backends,
            subnet,
            hostname_only: reader.go_bool(&keys::HOSTNAME_ONLY, settings.hostname_only, false),
            ipv6_ingress: reader.go_bool(&keys::IPV6_INGRESS, flags.ipv6_ingress, false),
            ip_mode: reader.word(&keys::IP_MODE),
            ports,
        }
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

fn firewall(reader: &mut Reader<'_>, ports: &[PortOptions], label: &str) -> FirewallWish {
    if reader.value(&keys::FIREWALL_ID).is_some() {
        if let Some(text) = reader.value(&keys::FIREWALL_ACL) {
            let what = "is not used, since firewall-id names a firewall; take one of them off";
            reader.question(&keys::FIREWALL_ACL, text, what);
        }
        let id = reader.id(&keys::FIREWALL_ID);
        return id.map_or(FirewallWish::None, FirewallWish::Id);
    }
    let (acl, place) = match reader.value(&keys::FIREWALL_ACL) {
        Some(text) => (
            acl(reader, text),
            format!("annotation {}", keys::FIREWALL_ACL.key),
        ),
        None => (
            Acl::of_source_ranges(reader),
            "spec.loadBalancerSourceRanges".to_owned(),
        ),
    };
    let Some(acl) = acl else {
        return FirewallWish::None;
    };
    let ports: Vec<(u16, bool)> = ports.iter().map(|port| port.config.place()).collect();
    let spec = FirewallSpec::of(&acl, &ports, &reader.service.key.name, label.to_owned());
    let rules = spec.rules.inbound.len();
    if rules > MOST_RULES {
        let remedy = format!(
            "too many IPs in this ACL, will exceed rules per firewall limit: it takes {rules} rules, and a \
             firewall has {MOST_RULES}; write fewer networks"
        );
        reader.fault(place, "", remedy);
    }
    FirewallWish::Own(spec)
}

/// A fingerprint of what is wanted that names the firewall.
pub(super) fn with_firewall(fingerprint: String, firewall: &FirewallWish) -> String {
    match firewall {
        FirewallWish::Id(id) => format!("{fingerprint}-{id}"),
        FirewallWish::None | FirewallWish::Own(_) => fingerprint,
    }
}

/// The firewall that the fingerprint of [`with_firewall`] named last.
fn former_firewall(service: &ServiceView) -> Option<u64> {
    let fingerprint = fingerprint_of(service.annotation(annotations::APPLIED)?)?;
    fingerprint.split_once('-')?.1.parse().ok()
}

#[derive(Deserialize)]
struct Lists {
    allowlist: Option<Families>,
    denylist: Option<Families>,
}

#[derive(Deserialize)]
struct Families {
    ipv4: Option<Vec<String>>,
    ipv6: Option<Vec<String>>,
}

fn acl(reader: &mut Reader<'_>, text: &str) -> Option<Acl> {
    let key = &keys::FIREWALL_ACL;
    let example = "{\"allowList\": {\"ipv4\": [\"192.0.2.0/24\"]}}";
    let lists: Lists = reader.json_object(key, text, example)?;
    let chosen = match (lists.allowlist, lists.denylist) {
        (Some(families), None) => Ok((true, families)),
        (None, Some(families)) => Ok((false, families)),
        _ => Err("specify either an allowList or a denyList for a firewall"),
    };
    let chosen = chosen.and_then(|(allows, Families { ipv4, ipv6 })| {
        let texts: Vec<String> = ipv4.into_iter().chain(ipv6).flatten().collect();
        match texts.is_empty() {
            true => Err("has no networks"),
            false => Ok((allows, texts)),
        }
    });
    match chosen {
        Ok((allows, texts)) => {
            let networks = reader.canonical(&format!("annotation {}", key.key), &texts);
            let networks = networks.iter().filter_map(|text| network(text)).collect();
            Some(Acl { allows, networks })
        }
        Err(why) => {
            reader.fault_in(key, text, format!("{why}; write it like {example}"));
            None
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
