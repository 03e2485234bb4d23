//! Cloud Firewalls: what a Service's own one is to let through, and whether one that is there does.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::api_objects;
use crate::cloud_api::{nullable, said};
use crate::clouds::linode::api::node_balancers::is_mark;

/// Addresses that a rule has at most, rules that a firewall has, ports or ranges of ports that a rule has,
/// and the longest label and description.
const MOST_ADDRESSES: usize = 255;
pub(super) const MOST_RULES: usize = 25;
const MOST_PORTS: usize = 15;
const LABEL: usize = 32;
const DESCRIPTION: usize = 100;
/// How the Go controller describes each of its rules.
const MADE_BY_GO: &str = "Created by linode-ccm";

/// Whom a firewall lets in, or keeps out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Acl {
    /// Whether these are let in; else they are kept out.
    pub(super) allows: bool,
    /// These.
    pub(super) networks: BTreeSet<IpNet>,
}

/// A firewall as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FirewallSpec {
    /// Its name.
    pub(super) label: String,
    /// The marks of cluster and Service.
    pub(super) tags: Vec<String>,
    /// What it lets in.
    #[serde(flatten)]
    pub(super) rules: Rules,
}

api_objects! {
    /// A rule.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub(super) struct Rule {
        /// `ACCEPT` or `DROP`.
        pub(super) action: String,
        /// Its name.
        pub(super) label?: String,
        /// What it is for.
        pub(super) description?: String,
        /// `80, 443, 8000-8010`.
        pub(super) ports?: String,
        /// `TCP` or `UDP`.
        pub(super) protocol: String,
        /// From where.
        pub(super) addresses?: Addresses,
    }

    /// Networks, by family.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub(super) struct Addresses {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ipv4?: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        ipv6?: Vec<String>,
    }

    /// A firewall as it is listed.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    pub(in super::super) struct Firewall {
        /// Its number.
        pub(super) id: u64,
        /// Its name.
        pub(super) label?: String,
        /// Its tags.
        pub(super) tags?: Vec<String>,
        /// Somebody has switched it off: it protects nothing.
        #[serde(default, rename = "status", deserialize_with = "is_disabled")]
        pub(super) is_disabled: bool,
        /// What it lets through.
        #[serde(default, deserialize_with = "rules")]
        pub(super) rules: Option<Rules>,
        /// What it protects. What cannot be read protects something all the same.
        #[serde(default, deserialize_with = "nullable")]
        pub(super) entities: Vec<Entity>,
    }
}

fn is_disabled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(said(deserializer)?.is_some_and(|status| status == "disabled"))
}

/// What a firewall lets in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Rules {
    /// What goes in.
    pub(super) inbound: Vec<Rule>,
    /// What becomes of the rest: `ACCEPT` or `DROP`.
    pub(super) inbound_policy: String,
}

/// Rules of another kind (rule sets) are nobody's that we make.
fn rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rules>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

api_objects! {
    /// What a firewall protects.
    #[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
    pub(super) struct Entity {
        id?: u64,
        #[serde(rename = "type")]
        kind?: String,
    }
}

impl Firewall {
    /// What it protects: NodeBalancers by their IDs.
    pub(super) fn users(&self) -> Vec<String> {
        let users = self.entities.iter().map(|one| match one.kind.as_str() {
            "nodebalancer" => one.id.to_string(),
            kind => format!("{kind} {}", one.id),
        });
        users.collect()
    }

    /// Whether it protects this NodeBalancer.
    pub(super) fn protects(&self, balancer: &str) -> bool {
        let mut entities = self.entities.iter();
        entities.any(|one| one.kind == "nodebalancer" && one.id.to_string() == balancer)
    }

    /// Whether the Go controller has made it for a NodeBalancer of this name, which it protects: it is called so
    /// too, or protects nothing else. Ours are called and described so too, and bear marks.
    pub(super) fn is_made_by_go(&self, balancer: &str) -> bool {
        let is_described = |rules: &Rules| {
            let mut inbound = rules.inbound.iter();
            !rules.inbound.is_empty() && inbound.all(|rule| rule.description.contains(MADE_BY_GO))
        };
        let hex = self.label.rsplit_once('-').map(|(_, hex)| hex);
        let is_named = hex
            .is_some_and(|hex| hex.len() == 12 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let is_marked = self.tags.iter().any(|tag| is_mark(tag));
        (self.entities.len() == 1 || self.label == balancer)
            && is_named
            && !is_marked
            && self.rules.as_ref().is_some_and(is_described)
    }

    /// Has these rules from now on.
    pub(super) fn take(&mut self, spec: &FirewallSpec) {
        self.is_disabled = false;
        self.rules = Some(spec.rules.clone());
    }

    /// Whether it does as wanted, whatever its rules are called.
    pub(super) fn is_as(&self, wanted: &FirewallSpec) -> bool {
        let Some(rules) = &self.rules else {
            return false;
        };
        !self.is_disabled
            && rules.inbound_policy == wanted.rules.inbound_policy
            && meaning(&rules.inbound) == meaning(&wanted.rules.inbound)
    }
}

/// What rules let through or keep out: action, protocol, port and network of each.
fn meaning(rules: &[Rule]) -> BTreeSet<(String, String, String, String)> {
    let mut all = BTreeSet::new();
    for rule in rules {
        let ports: Vec<&str> = rule.ports.split(',').map(str::trim).collect();
        let addresses = rule.addresses.ipv4.iter().chain(&rule.addresses.ipv6);
        for address in addresses {
            let network = network(address).map_or_else(|| address.clone(), |net| net.to_string());
            for port in &ports {
                all.insert((
                    rule.action.clone(),
                    rule.protocol.clone(),
                    (*port).to_owned(),
                    network.clone(),
                ));
            }
        }
    }
    all
}

/// A network, or an address as a network of its own.
pub(super) fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    let net: Option<IpNet> = text.parse().ok();
    net.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        .map(|net| net.trunc())
}

impl FirewallSpec {
    /// What lets through what `acl` says, without marks. `ports`: number, and whether it is UDP.
    pub(super) fn of(acl: &Acl, ports: &[(u16, bool)], service: &str, label: String) -> Self {
        let (action, policy) = match acl.allows {
            true => ("ACCEPT", "DROP"),
            false => ("DROP", "ACCEPT"),
        };
        let mut inbound: Vec<Rule> = Vec::new();
        for (protocol, is_udp) in [("TCP", false), ("UDP", true)] {
            let ports = ports.iter().filter(|(_, udp)| *udp == is_udp);
            let ports: Vec<String> = ports.map(|(port, _)| port.to_string()).collect();
            for ports in ports.chunks(MOST_PORTS) {
                for addresses in chunks(&acl.networks) {
                    inbound.push(Rule {
                        action: action.to_owned(),
                        label: cut(&format!("{action}-{service}"), LABEL),
                        description: String::new(),
                        ports: ports.join(","),
                        protocol: protocol.to_owned(),
                        addresses,
                    });
                }
            }
        }
        let are_several = inbound.len() > 1;
        for (index, rule) in inbound.iter_mut().enumerate() {
            let number = are_several.then(|| format!("Rule {index}, "));
            let number = number.unwrap_or_default();
            let text = format!("{number}{MADE_BY_GO}: {}, for {service}", rule.label);
            rule.description = match text.len() > DESCRIPTION {
                true => format!("{}...", cut(&text, DESCRIPTION - 3)),
                false => text,
            };
        }
        Self {
            label,
            tags: Vec::new(),
            rules: Rules {
                inbound,
                inbound_policy: policy.to_owned(),
            },
        }
    }

    /// What the cloud is told of its rules.
    pub(super) fn told_rules(&self) -> Value {
        json!({
            "inbound": self.rules.inbound,
            "inbound_policy": self.rules.inbound_policy,
            "outbound": [],
            "outbound_policy": "ACCEPT",
        })
    }
}

/// As few rules' worth of networks as hold them all: families together if they fit into one.
fn chunks(networks: &BTreeSet<IpNet>) -> Vec<Addresses> {
    let texts = |is_v4: bool| -> Vec<String> {
        let is_of_family = |net: &&IpNet| matches!(net, IpNet::V4(_)) == is_v4;
        let of_family = networks.iter().filter(is_of_family);
        of_family.map(ToString::to_string).collect()
    };
    let (ipv4, ipv6) = (texts(true), texts(false));
    if ipv4.len() + ipv6.len() <= MOST_ADDRESSES {
        return vec![Addresses { ipv4, ipv6 }];
    }
    let v4 = ipv4.chunks(MOST_ADDRESSES).map(|ipv4| Addresses {
        ipv4: ipv4.to_vec(),
        ipv6: Vec::new(),
    });
    let v6 = ipv6.chunks(MOST_ADDRESSES).map(|ipv6| Addresses {
        ipv4: Vec::new(),
        ipv6: ipv6.to_vec(),
    });
    v4.chain(v6).collect()
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests;
